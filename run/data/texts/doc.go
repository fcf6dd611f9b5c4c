// Package texts opens texts of every kind as sources of package data.
//
// [Open] finds the files, splits them into a training and a validation part and returns both as a [data.Source]: [data.Tokens], a text whose bytes are
// tokens, that a tokenizer encodes, or tokens stored as u16 or u32, one long sequence; [Documents], the rows of JSONL or Parquet files, packed into windows
// so that nothing is predicted over a border; or a [data.Mixture] of several by weights.
//
//	corpus, err := texts.Open(ctx, texts.Config{Text: []string{"books/*.txt"}, Validation: 0.05, Context: 128})
//	defer corpus.Close()
//	loader, err := data.NewLoader(corpus.Train, data.LoaderConfig{Context: 128, Batch: 8, Seed: 42, Prefetch: 4})
//
// Invariants, each held by a test:
//
//  1. Packing loses nothing: every token of a document but the first is the label of the token before it, once, in whatever window.
//  2. The fingerprint changes when a file's name, size or content does, or the split, or how documents are read.
//  3. What a tokenizer makes of text is that of the tokenizer for each file or document, however it is read and by however many goroutines. It is kept,
//     and made again only where it is damaged.
//  4. What is in memory does not grow with the text. A file is read as a whole once, and again where its size, its time or a sample of it differs.
//  5. A file that is written to while it is read is an error: nothing is learned from bytes that the fingerprint does not say.
package texts
