// Package chat turns rows of data into tokens, and says which of them a model learns.
//
// A row is a JSON object. [FromRow] makes a [Conversation] of it: messages, or plain text. A [Template] writes the
// messages as one text, as the files of a model's directory say. An [Encoder] makes tokens of that text and marks
// the answers among them:
//
//	t, err := chat.OpenTemplate(files, "") // of a hub.Bundle, which a model is opened as
//	e, err := chat.NewEncoder(tok, t, chat.Options{})
//	row, err := template.Decode(line)
//	c, err := chat.FromRow(row.(*template.Object), "")
//	tokens, learned, err := e.Encode(c)
//
// Invariants, each held by a test:
//
//  1. The tokens are those of the whole text, encoded once, without special tokens of the tokenizer's own. So nothing
//     is there twice, and a template's text is what the model was trained with.
//  2. A token learns if it overlaps a part of the text that learns. Between a plain prompt and its completion no
//     token has parts of both.
//  3. What cannot be placed for certain is an error that names the message. No answer is left out in silence.
package chat
