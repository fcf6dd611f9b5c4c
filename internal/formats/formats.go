// Package formats names what a row of a conversation may be. It stands apart from package chat, which reads them, for those that know the names alone: a run
// file holds a key to them.
package formats

// Names of formats.
const (
	Messages      = "messages"
	Conversations = "conversations"
	Completion    = "prompt_completion"
	Alpaca        = "alpaca"
	Text          = "text"
)

// All are the names of all formats, in the order in which they are looked for.
var All = []string{Messages, Conversations, Completion, Alpaca, Text}
