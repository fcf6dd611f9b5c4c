// Package converse talks with a model: a [Dialogue] asks it and keeps what was said, a [Session] reads messages and writes answers as they come,
// and [Each] has many conversations of one message answered side by side.
package converse
