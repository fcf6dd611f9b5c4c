// Package checkpoint is the form of a training state on disk: how a directory of files comes to be there as a whole, and how it is found,
// verified, held and removed. It knows no device, no model and no optimizer: who saves a state gives it files, and what a record says of an
// optimizer is that one's own JSON.
//
// A checkpoint is a directory:
//
//	config.json, model.safetensors   the Hugging Face layout, f32; above 5 GB in several files with an index
//	optimizer.safetensors            "mu/PATH", "nu/PATH", as the device keeps them
//	state.json                       a [Record]: step, counts, the optimizer's configuration, what the loop keeps ([Run]), the adapter
//	other.safetensors                variables without gradients, where a state has any
//	manifest.json                    size and CRC32C of every file, CRC32C of every tensor; written last
//
// [Commit] writes one beside its place, synced, and renames it. A [Saver] does so with a [HostCopy], and rotates, while training goes on. A [Store]
// is a directory of checkpoints, which finds the newest whole one and leaves those that [Keep] says.
//
// Invariants, each held by a test:
//
//  1. A stop of the process or the machine between any two calls to the file system, or in the middle of one, leaves a whole checkpoint to
//     be found; so does a full disk. That holds of a save beside training, too, and of the rotation behind it.
//  2. Rotation removes neither the newest whole checkpoint, nor the best, nor one that somebody reads ([Hold]).
//  3. What is no checkpoint's is never replaced or removed.
package checkpoint
