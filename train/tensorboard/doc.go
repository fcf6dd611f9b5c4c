// Package tensorboard writes and reads the event files that TensorBoard (github.com/tensorflow/tensorboard) shows.
//
// An event file is a sequence of records (TFRecord: a length, the data, a checksum of each), each an [Event] as a protobuf message. The first
// says the version, the second that a process has begun, and at which step: of that step and those after it a reader forgets what earlier files
// hold. So the steps that a killed process had made beyond its last checkpoint are not shown twice. [Events] reads a file and believes
// nothing of it: it takes memory in proportion to the file, whatever the file says.
package tensorboard
