// Package data turns files into batches of tokens, in an order that can be
// resumed anywhere.
//
// [Open] finds the files (text as bytes, or tokens stored as u16 or u32), splits
// them into a training and a validation part and returns both as [Tokens]: a
// sequence of token ids with random access. A [Loader] cuts the training part
// into windows of context+1 tokens and hands them out in a shuffled order, batch
// by batch, for ever. An [Evaluation] walks the windows of the validation part
// from the first to the last, once.
//
//	corpus, err := data.Open(data.Config{Text: []string{"books/*.txt"}, Validation: 0.05, Context: 128})
//	loader, err := data.NewLoader(corpus.Train, data.LoaderConfig{Context: 128, Batch: 8, Seed: 42, Prefetch: 4})
//	defer loader.Close()
//	batch, err := loader.Next(ctx) // batch.Tokens, batch.Labels: [8, 128]; batch.State: where to go on
//
// Invariants, each held by a test:
//
//  1. The window at (seed, epoch, position) is a pure function of these three and
//     of the tokens: nothing is shuffled in memory, seeking costs the same anywhere.
//  2. The depth of prefetching changes nothing but waiting.
//  3. Within an epoch every window comes exactly once; a batch may span two epochs.
//  4. An evaluation counts every token but the first exactly once, whatever the
//     batch size; padding carries the label [Ignored].
//  5. The fingerprint changes when a file's name, size or content does, or the split.
package data
