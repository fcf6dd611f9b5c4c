// Package partition divides a model among stages. Units are what must stay whole: a layer, and what comes before and after the layers. An
// Assignment gives each unit a part, by rules or by measured speed; package pipeline cuts the model's graph as it says. It runs nothing.
package partition
