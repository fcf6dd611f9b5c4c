// Package tokenizer turns text into the ids of a model's vocabulary and back, as the files of Hugging Face directories say: tokenizer.json
// of byte-pair encodings, and SentencePiece models of that kind.
//
//	b, err := ... // a directory, or the file in it, as package hub opens them
//	t, err := tokenizer.Open(b)
//	ids, err := t.Encode("Hello, world", tokenizer.Options{Special: true})
//	text, err := t.Decode(ids, true)
//
// A text goes through these, in order:
//
//   - added tokens, which are cut out of it as they stand, leftmost first, the longest of those;
//   - the normalizer, for each rest between them; then added tokens that are looked for in normalized text;
//   - pre-tokenizers, which cut the rests into pieces;
//   - the model, which joins the characters or bytes of each piece, pair by pair, the pair of lowest rank first;
//   - the post-processor, which puts tokens around the whole if [Options] ask for it.
//
// Invariants, each held by a test:
//
//  1. Ids, parts of the text and decoded texts are those of Hugging Face's library, or of SentencePiece's. What is not supported is an
//     error that names it when the file is opened. Nothing is guessed.
//  2. A text of n bytes takes time in proportion to n log n at most, whatever it is.
//  3. A stream gives the ids of the whole text, however it is read and by however many goroutines.
//  4. What [Stream] gives, one after the other, is what Decode gives.
//  5. What a byte-level tokenizer without a normalizer encodes decodes to the same text.
//  6. Training gives the vocabulary and merges of Hugging Face's trainer.
package tokenizer
