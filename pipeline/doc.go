// Package pipeline trains one model on several devices. The model's graph is cut into parts along its layers; part p lives on stage p mod
// the number of stages, and a stage is a device with a goroutine of its own. What crosses a cut travels over links, microbatch after
// microbatch, in the order that a schedule lays down before anything runs. Every stage updates its own parameters from its own
// gradients; what must be global, the norm of the gradient, crosses as one number a leaf, so that a model learns the same bits
// however it is cut, on adapters of one kind.
//
// The words: a part is a piece of the model, a stage a device, a microbatch a share of the batch, an action one pass (forward or backward)
// of one part over one microbatch, a link the way from one part to another, a bubble the time in which a stage has nothing to do.
package pipeline
