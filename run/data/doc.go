// Package data hands out batches of tokens, in an order that can be resumed anywhere. It is what training reads: which files there are, and how these become
// tokens, is for package texts below it.
//
// A [Source] has windows: [Tokens], one long sequence; a [Mixture] of several sources by weights; or the packed documents of package texts. A [Loader] hands
// out the windows of a source in a shuffled order, batch by batch, for ever. An [Evaluation] walks the windows of a source from the first to the last, once;
// those of a [Strided] text overlap. A [Collator] makes batches of documents that the caller has. [Layout] and [Fields] are what a run file says of documents.
//
//	loader, err := data.NewLoader(source, data.LoaderConfig{Context: 128, Batch: 8, Seed: 42, Prefetch: 4})
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
//  5. Every thousand windows of a mixture have the windows of each source in proportion to its weight.
package data
