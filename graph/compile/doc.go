// Package compile lowers a graph to a fixed list of dispatches over planned buffers.
//
// New takes a graph and what is wanted of it, its targets, and makes a Program: it fuses elementwise neighbours, lowers every other
// operation to dispatches of the kernels of package shaders, lays values into buffers that are reused as soon as their last reader is
// done, and compiles the kernels. PlanNarrow is the same without a device, as far as the memory plan.
//
//	p, err := compile.New(ctx, dev, g, compile.Options{
//		Params: params, Grads: grads,
//		Targets: []compile.Target{{Name: "loss", Value: loss}, {Leaf: "fc1.weight", Value: dw}},
//	})
//	err = p.WriteFloats("x", batch)
//	rec := dev.Record("step")
//	p.Record(rec)
//	err = rec.Submit(ctx)
//
// An operation is two files and a test: the graph.Op, and a Lowering with its Register here, which says how its nodes
// become dispatches and has the checks that prove it. A program that embeds this module adds operations of its own in the same way;
// outside_test.go is one.
//
// What always holds:
//
//  1. A program creates nothing after New: recorded once, it may be submitted every step.
//  2. Storages that are in use at the same time never share a buffer, so no dispatch sees one buffer in two roles.
//  3. Sums have a fixed shape. Variants of kernels are a function of adapter and shape.
//  4. What a plan says is what New takes, to the byte.
//  5. Every kernel is held against graph.Eval by the Checks of its lowering, which run on any device.
package compile
