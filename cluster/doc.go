// Package cluster makes the ranks of a run one: it adds up their gradients, and lets them decide alike.
//
// A [Group] is the ranks as a run uses them. Where all ranks meet, each says that it goes on or why it does not, so that an error of one is known to all, and
// every wait ends. [Join] compares the ranks before anything is trained: program, settings, data. A [Reducer] is the seam between the passes of an
// update and the update itself:
//
//	group := cluster.New(ranks, cluster.Config{Timeout: 5 * time.Minute})
//	sums, err := cluster.NewReducer(ctx, group, cluster.Sums{Microbatches: 8}, device)
//	config.Reducer = sums // of a state.Config: every rank then makes the same steps
//
// Invariants, each held by a test:
//
//  1. Sums have the bits of one device, on any number of ranks: the host adds in the order of the tree over microbatches (state.Fold), as the device's
//     own kernel does, whose treatment of denormals is probed.
//  2. A rank sends and receives the bytes that docs/cluster.md has the formula of, and no more.
//  3. Every wait ends, by an error that names a rank, its host and what was waited for.
package cluster
