// Package optim holds gradient transformations in the sense of optax, the optimizers made of them, and learning rate
// schedules. They run on a tree of params on its device, in place.
//
// A Transform turns gradients into an update that is added to the params. Transforms are composed with Chain; each
// elementwise one is an equation in two forms, WGSL and Go. A chain is fused: one kernel a slab loads gradient, state and parameter
// once, takes the update through all elements, and stores once. The Twin runs the same chain unfused, in float64, without a
// device; it is the definition that the kernels are held to. A norm of the whole tree is measured before the kernel that needs it: another
// kernel repeats the elements before it without storing, which reads more and writes nothing.
//
//	tx := optim.Chain(optim.ClipByGlobalNorm(1), optim.ScaleByAdam(adam, optim.Stable), optim.ScaleByLearningRate(lr))
//	s, err := tx.Init(params)
//	rec := dev.Record("update")
//	err = tx.Update(rec, grads, s, params)
//	program, err := rec.Program(ctx)
//	for each gradient {
//		_, err = s.Prepare()        // this update's rate and bias corrections; with several State.Phases, which program to submit
//		err = program.Submit(ctx)
//	}
//
// Rules that the code relies on:
//
//  1. Nothing that changes from call to call is in a recording: scalars lie in a uniform that Prepare writes, flags
//     and norms in a buffer that kernels write. A recording serves for every call of its phase.
//  2. Counts live on the host and advance in Prepare. Scalars are evaluated there in float64, with the count before it
//     advances; bias corrections take the number of the update.
//  3. Arithmetic is f32 whatever the storage. Padding between leaves is never written but with zeros.
//  4. Sums have a fixed shape; the same calls give the same bits. A norm is summed leaf by leaf, then over the leaves in the order of their
//     paths, so that where a leaf lies does not matter.
//  5. A leaf is known by its path: masks, rates and random bits go by it, so that a stage of a model (InitStage) updates its leaves as
//     the whole model would, in every bit. Its update is cut at each norm of the whole model (RecordRound).
//
// New elements are values of type Element, made a Transform by Elementwise. What is not elementwise is an operator (factored statistics,
// orthogonal steps, the factors of package kron): it ends one fused kernel and begins the next, with the update in a tree of its own between
// them. Route sends leaves to one of two transformations, and elements may ask for sums over the leaf at hand.
// An element may ask for what a floor or a sphere makes of the row at hand (rowRule), whose sums are measured as norms are.
// State on a route covers only its leaves, in a layout that matches the params slab by slab. A whole optimizer is, for example,
//
//	gradient -> [accumulate, norm, clip, momentum] -> Kronecker factors -> [limit by leaf, decay, rate, decay] -> params
//
// with what is in brackets fused. State in eight bits is read and written by the same kernel, with a workgroup for each block of codes.
package optim
