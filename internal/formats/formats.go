// Package formats names what a row of a file may be. It stands apart from the packages that read them, for those that know the names alone: a run file holds
// a key to them.
package formats

import "slices"

// Names of the formats of rows that name their fields, or are told by their keys.
const (
	Auto   = "auto"
	Fields = "fields"
)

// Pairs is the format of rows with two completions of one prompt, of which the first is preferred: "prompt", "chosen" and "rejected". Each of
// them is text, a list of messages or a list of tokens. A row becomes two windows, one behind the other in every batch of an even number: the prompt
// with the chosen completion, and with the rejected one. Labels are those of the completions.
const Pairs = "pairs"

// Labelled is the format of rows with one completion of a prompt that is good or bad: "prompt", "completion" and "label", which is true, false, 1 or 0. The
// first two are as in pairs. A row becomes a window, with the labels of the completion.
const Labelled = "labelled"

// Formats of rows of which a head other than logits learns: the one label of a window stands at its last token. In ranked a row is one of pairs, perhaps with a
// "margin"; in classes it has a text (or "prompt" and "completion", messages, tokens) and a "label", a whole number or a name; in queries a "query", a
// "positive" and perhaps a list of "negatives", each text, messages or tokens.
const (
	Ranked  = "ranked"
	Classes = "classes"
	Queries = "queries"
)

// Prompts is the format of rows with a prompt that completions are drawn behind: "prompt" is text, a list of messages or a list of tokens. The other columns are
// for those who say how good completions are.
const Prompts = "prompts"

// Names of the formats of conversations, whose rows name no fields.
const (
	Messages      = "messages"
	Conversations = "conversations"
	Completion    = "prompt_completion"
	Alpaca        = "alpaca"
	Text          = "text"
)

// Rows are what the rows of a file may be: told by the keys of each row, documents in fields, and conversations.
var Rows = slices.Concat([]string{Auto, Fields}, Chats)

// Chats are the formats of conversations, in the order in which they are looked for.
var Chats = []string{Messages, Conversations, Completion, Alpaca, Text}
