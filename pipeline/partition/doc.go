// Package partition divides a model among stages. Units are what must stay whole: a layer, and what comes before and after the layers. An
// Assignment gives each unit a part, by rules or by measured speed, and a Cut makes of the model's graph one graph a pass and
// part, with the values at the cut as inputs. It runs nothing.
package partition
