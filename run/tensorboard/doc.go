// Package tensorboard writes the event files that TensorBoard (github.com/tensorflow/tensorboard) shows.
//
// A [NewHook] in a run's Config.Hooks leaves all figures of the run in RUN/tensorboard, a file a process, for
//
//	tensorboard --logdir RUN
//
// An event file is a sequence of records (TFRecord: a length, the data, a checksum of each), each an [Event] as a protobuf message. The first
// says the version, the second that a process has begun, and at which step: of that step and those after it a reader forgets what earlier files
// hold. So the steps that a killed process had made beyond its last checkpoint are not shown twice.
//
// Invariants, each held by a test:
//
//  1. An event is handed to the system whole and before the line of metrics.jsonl that says the same, and is durable before the
//     checkpoint of its step is there: after a kill at any time the files hold all that the run goes on from.
//  2. The events that are left of a run that was stopped and resumed are those of an undisturbed one, but for times.
package tensorboard
