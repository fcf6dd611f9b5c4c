// Package state is a model in training: its parameters, gradients and optimizer state on one device, the step that advances them, and their
// form on disk.
//
// A [Value] is what is trained, as a value with one owner: params, other variables, transformation and optimizer state. It is enough for who brings
// gradients of their own, with or without a model of this module. [Train] makes a [TrainState] of it, with gradients, programs and metrics of
// a language model, and [TrainState.Value] gives it back.
//
// [Create] plans the memory, refuses what does not fit, and makes every program and buffer of a step. [TrainState.TrainStep] then only writes
// inputs and submits:
//
//	[clear gradients]  forward and backward  loss 0   | first submit
//	                   forward and backward  loss 1   | one more for each further micro-batch
//	                   ...
//	                   optimizer  results back        | at the end of the last one
//
// The loss is a sum over tokens, and each micro-batch's gradient is scaled by one over the tokens of the whole update, so that k micro-batches
// give the gradient of one large batch, however unequal their numbers of tokens. Results are read a step late; two steps may be in
// flight.
//
// A checkpoint is a directory:
//
//	config.json, model.safetensors   the Hugging Face layout, f32; above 5 GB in several files with an index
//	optimizer.safetensors            "mu/PATH", "nu/PATH", as the device keeps them
//	state.json                       step, counts, the optimizer's configuration, what the loop keeps ([Run]), the adapter
//	other.safetensors                variables without gradients, where a Value has any
//	manifest.json                    size and CRC32C of every file, CRC32C of every tensor; written last
//
// It says nothing of how many devices the tensors lay on: [Snapshot] writes it from any number of them, and [ReadCheckpoint] gives it back to
// any other, each with some of the leaves and some rows of what the leaves share.
//
// It is written beside its place, synced, and renamed; [Checkpoints] finds, verifies and rotates them. [TrainState.Save] does so at once;
// [TrainState.Stage] copies the state to the host, and a [Saver] writes the copy, and rotates, while training goes on.
//
// Invariants, each held by a test:
//
//  1. A stop of the process or the machine between any two calls to the file system, or in the middle of one, leaves a whole checkpoint to
//     be found; so does a full disk. That holds of a save beside training, too, and of the rotation behind it.
//  2. Load restores every bit that Save wrote; steps from there have the bits they would have had.
//  3. After the second step a step makes no pipeline, bind group or buffer.
//  4. An update whose loss or gradient is not finite changes nothing; a state that is not finite is not saved.
//  5. What the plan says and what is taken agree within 5 %.
//  6. Rotation removes neither the newest whole checkpoint, nor the best, nor one that somebody reads ([Hold]).
//  7. A state divided over several devices saves the bytes that it would save undivided, and is restored from them.
//  8. A value that was handed on is ErrSpent in every copy; one that goes from device to device, or in and out of training, keeps every bit.
package state
