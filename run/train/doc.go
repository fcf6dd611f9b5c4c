// Package train runs a training from the first step to the report: data, steps, evaluation, samples, checkpoints, metrics and what a person
// sees of them.
//
// [Run] trains on one device, [RunOn] on any [Target]: several devices with a stage of the model on each. Everything a run does is in
// [Config], everything it leaves is in the run directory:
//
//	run.yaml             every value in force and where it came from
//	metrics.jsonl        a line a step, a line an evaluation
//	samples.jsonl        what the model wrote
//	rollouts.jsonl       completions that it drew to learn from, and their rewards, where Config.Rollouts is set
//	generations/         00000012.json and so on: what updates under way learn from, see package run/grpo
//	histograms.jsonl     how parameters and gradients are distributed, where Config.HistogramEvery asks for it
//	tensorboard/         the same for TensorBoard, where Config.Hooks has that of package run/tensorboard
//	checkpoints/         step-00000100 and so on, see package state
//	sessions.jsonl       a line for each process that made steps
//	report.md, *.svg     the end, in figures and pictures
//
// Run may be called from any program; the command is one caller. It handles no signals by itself: it stops when its context ends, and
// [Signals] makes a context that ends at one.
//
// opening makes all that the first step needs. A rehearsal then runs each kind of work once, so that drivers compile what they compile at a kernel's
// first use, and again to time it: the forecast of the run, and the speed by which submits are cut. team is who trains together. trainer is the loop:
// it handles the figures of step n while step n+1 runs.
//
// The loop tells hooks what happens, in order, and hooks may replace state and metrics. A hook that keeps a log (Sync) hears everything, and its log
// is durable before the checkpoint of the same step. After the hooks the run's own observers get the same events, and beside them what was measured:
// the journal writes the logs, the display shows lines and the forecast, the reporter collects for report.md. The page and the window follow the
// files alone. Histograms are counted on the device after a step and read back after the next one.
//
// A state is copied to the host for a checkpoint only where the plan (state.HostPlan) has room for it, and the copy is given back as soon as it is
// written. One save runs at a time, and a failed one ends the run. All ranks read tensors in the order of the files, so that rank 0 writes them as
// they come.
//
// Invariants, each held by a test:
//
//  1. The same call again goes on from the newest whole checkpoint. Its end has the bits of a run that never stopped: parameters, optimizer
//     state, record, samples, and metrics but for the fields that measure time. It may go on on a target with other stages.
//  2. What is due at a step (evaluation, sample, checkpoint, generation, in this order) is done once, stopped or not.
//  3. A run ends for one [Kind], and its error says more.
//  4. Nothing that is not finite is saved; nothing measured is replaced.
//  5. Neither sampling, nor evaluation, nor histograms, nor how far the loader reads ahead changes a bit of the training.
//  6. A decision that the caller did not make, such as to pass over a corrupt checkpoint, is said on Output.
package train
