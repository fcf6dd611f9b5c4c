// Package cluster makes the ranks of a mesh train one model. [Join] compares them before anything is trained: program, settings, data. A [Reducer]
// adds up the gradients of replicas, between the passes of an update and the update itself:
//
//	m := mesh.New(ranks, mesh.Config{Timeout: 5 * time.Minute})
//	sums, err := cluster.NewReducer(ctx, m, cluster.Sums{Microbatches: 8}, device)
//	config.Mesh, config.Reducer = m, sums // of a state.Config: every rank then makes the same steps
//
// Invariants, each held by a test:
//
//  1. Sums have the bits of one device, on any number of ranks: the host adds in the order of the tree over microbatches (state.Fold), as the device's
//     own kernel does, whose treatment of denormals is probed.
//  2. A rank sends and receives the bytes that tools/lab-book.md has the formula of, and no more.
//  3. Every wait ends, by an error that names a rank, its host and what was waited for.
package cluster
