// Package pipeline trains one model on several devices. The model's graph is cut into parts along its layers; part p lives on stage p mod
// the number of stages, and a stage is a device with a goroutine of its own. What crosses a cut travels over links, microbatch after
// microbatch, in the order that a schedule lays down before anything runs. Every stage updates its own parameters from its own
// gradients; what must be global, the norm of the gradient, crosses as one number a leaf, so that a model learns the same bits
// however it is cut, on adapters of one kind.
//
// On the way to a run:
//
//  1. Units (package partition) are what a cut must not divide: the layers, and what comes before and after them. An assignment gives each unit
//     a part, by rules, or so that the slowest stage is fastest by operations, bytes, memory and the measured speed of each adapter.
//  2. A cut is the same graph. Operations follow their parameters, gradients follow their operations (Node.Of), and sums of gradients go to the
//     first part that has a term. Graph.Extract makes a graph of each pass of each part, with the values at the cut as inputs. Quantized weights
//     are recomputed in every pass that reads them. What is computed again (train.recompute) is decided on the whole graph, before the cut. A
//     tied weight lives where it is first read; elsewhere there is a copy, refreshed after each update, whose gradient is sent home microbatch by
//     microbatch, because only then does the sum have the bits of one device.
//  3. A schedule (package schedule) is data: for each stage a list of actions. Microbatches ascend in every part, so each part adds up its
//     gradients along the tree as one device does.
//  4. A line is a cut compiled for a schedule. A value that outlives its pass has a place for each microbatch in flight. Everything else shares
//     one arena a stage (compile.Arena), also with evaluation and sampling, which are lines of forward passes. The plan runs the same
//     construction on dry devices, so it matches real allocation to the byte.
//  5. A run has one goroutine for each stage and one for each link. Between devices, a message is read back after its pass into a mapped buffer,
//     copied to the link's fixed memory, and written to the other device while that computes; between neighbours two may be in transit. After
//     every action one word is read back: its arrival feeds the timeline and the watchdog.
//  6. An update runs on every stage, over the stage's own leaves. The norms of all leaves are put in the order of the model's leaves, and every
//     stage adds them up itself (optim.RecordRound).
//  7. A failure names its stage, adapter and action (StageError), ends the other stages, and leaves the last checkpoint. So does a run that
//     stands still for Config.Timeout and the patience of its devices. It then names what all others wait for in the end (group.go, culprit.go).
//     Work stuck in a driver is abandoned along with its resources.
//
// Where the stages of a replica are on several ranks (ranks.go), every rank makes the same cut and schedule and builds all stages: its own on
// devices, the others on devices without hardware (gpu.DryOf), which take no memory and run nothing. A wire between ranks is a link with an end
// on each. Norms and losses go to all ranks, results of evaluation and sampling to those of the replica.
//
// A checkpoint does not depend on stages: a stage's tensors may be rows of a larger one (buffers.Tensor.Rows), and state.Snapshot writes and
// reads the whole.
//
// The words: a part is a piece of the model, a stage a device, a microbatch a share of the batch, an action one pass (forward or backward)
// of one part over one microbatch, a link the way from one part to another, a bubble the time in which a stage has nothing to do.
package pipeline
