// Package data turns files into batches of tokens, in an order that can be
// resumed anywhere.
//
// [Open] finds the files, splits them into a training and a validation part and returns both as a [Source]: [Tokens], a text whose bytes are
// tokens, that a tokenizer encodes, or tokens stored as u16 or u32, one long sequence; [Documents], the lines of JSONL files, packed into windows so that nothing is
// predicted over a border; or a [Mixture] of several by weights. A [Loader] hands out the windows of the training part in a shuffled order,
// batch by batch, for ever. An [Evaluation] walks the windows of the validation part from the first to the last, once; those of a [Strided] text overlap. A [Collator] makes
// batches of documents that the caller has.
//
//	corpus, err := data.Open(ctx, data.Config{Text: []string{"books/*.txt"}, Validation: 0.05, Context: 128})
//	loader, err := data.NewLoader(corpus.Train, data.LoaderConfig{Context: 128, Batch: 8, Seed: 42, Prefetch: 4})
//	defer loader.Close()
//	batch, err := loader.Next(ctx) // batch.Tokens, batch.Labels: [8, 128]; batch.State: where to go on
//
// Invariants, each held by a test:
//
//  1. The window at (seed, epoch, position) is a pure function of these three and
//     of the source: nothing is shuffled in memory, seeking costs the same anywhere.
//  2. The depth of prefetching changes nothing but waiting. A slow disk is waited for
//     and spoken of; one that hangs is a [TimeoutError]; neither looks like an end.
//  3. Within an epoch every window comes exactly once; a batch may span two epochs.
//     Of a batch that several processes share each reads its rows only, wherever the order puts them.
//  4. An evaluation counts every token but the first of a text, or of a document, exactly once, whatever the
//     batch size; padding carries the label [Ignored].
//  5. Packing loses nothing: every token of a document but the first is the label of the token before it, once, in whatever window.
//  6. Every thousand windows of a mixture have the windows of each source in proportion to its weight.
//  7. The fingerprint changes when a file's name, size or content does, or the split, or how documents are read.
//  8. What a tokenizer makes of text is that of the tokenizer for each file or document, however it is read and by however many goroutines. It is kept,
//     and made again only where it is damaged.
//  9. What is in memory does not grow with the text. A file is read as a whole once, and again where its size, its time or a sample of it differs.
//  10. A file that is written to while it is read is an error: nothing is learned from bytes that the fingerprint does not say.
package data
