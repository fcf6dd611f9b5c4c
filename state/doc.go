// Package state holds a model in training: its parameters, gradients and optimizer state, the step that advances them, and what of them is saved.
//
// A [Value] is what is trained, as a value with one owner: params, other variables, transformation and optimizer state. If you compute your own
// gradients, with or without a model of this module, a Value is all you need. [Train] makes a [TrainState] of it, with gradients, programs and
// metrics of a language model, and [TrainState.Value] gives it back.
//
// A TrainState lies on one device or on the stages of a pipeline. A step has three parts: compute, which is the work of its passes; reduce, where
// a [Reducer] adds up the gradients of replicas; and update, by an updater ([NewUpdater]). On one device without replicas the three are one submit.
//
// [Create] plans the memory, refuses what does not fit, and makes every program and buffer of a step. [TrainState.TrainStep] then only writes
// inputs and submits:
//
//	[clear gradients]  forward and backward  loss 0   | first submit
//	                   forward and backward  loss 1   | one more for each further microbatch
//	                   ...
//	                   optimizer  results back        | at the end of the last one
//
// The loss is a sum over tokens, and each microbatch's gradient is scaled by one over the tokens of the whole update, so that k microbatches
// give the gradient of one large batch, however unequal their numbers of tokens. Results are read a step late; two steps may be in
// flight.
//
// The kernel of an update reads a flag that the norm pass has set: where the loss or the gradient is not finite, or beyond a limit of the loop
// (train.spike_loss), it changes nothing. Limits come of steps at least three old, so they never depend on results in flight. A goroutine waits for
// the results from the submit on, so the time of their arrival, which is the time of the step, is known even if the caller looks later.
//
// Parameters are read from their files a few megabytes at a time, widened and uploaded on all processors (buffers.Tree.WriteAll): each once, each
// stage its own, and no array of the host ever has a whole tensor. Samples advance token by token (graph.CachedAttention): keys and values stay on
// the device, in buffers shared by a program for up to 64 tokens and a program for one token. When the window is full, the model reads its newer half
// again.
//
// Its form on disk is that of package checkpoint, which says nothing of how many devices the tensors lay on: a state writes it from any number
// of them, and [ReadCheckpoint] reads it for any other number, each with some of the leaves and some rows of what the leaves share.
// [TrainState.Save] writes at once; [TrainState.CopyToHost] makes what a [checkpoint.Saver] writes while training goes on.
//
// Invariants, each held by a test:
//
//  1. Load restores every bit that Save wrote; steps from there have the bits they would have had.
//  2. After the second step a step makes no pipeline, bind group or buffer.
//  3. An update whose loss or gradient is not finite changes nothing; a state that is not finite is not saved.
//  4. What the plan says and what is taken agree within 5 %.
//  5. A state divided over several devices saves the bytes that it would save undivided, and is restored from them.
//  6. A value that was handed on is ErrSpent in every copy; one that goes from device to device, or in and out of training, keeps every bit.
package state
