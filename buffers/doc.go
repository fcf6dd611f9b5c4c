// Package buffers keeps trees of named arrays on a device.
//
// A [Layout] says where each leaf lives, a [Tree] is the memory: a few slabs, each one buffer that fits one binding, so
// that work over a whole tree is one dispatch a slab whatever the number of leaves. A layout counts in elements, not bytes:
// params, gradients and moments share it, whatever their dtypes. A leaf larger than a slab is split by rows into parts.
//
//	params, err := buffers.Upload(dev, "params", leaves, buffers.F32)
//	half, err := buffers.NewTree(dev, "half", params.Layout(), buffers.BF16)
//	rec := dev.Record("halve")
//	err = buffers.Map(rec, params, "a * 0.5", params) // recorded, nothing runs yet
//	err = buffers.Copy(rec, half, params)             // rounds to nearest even
//	err = rec.Submit(ctx)
//	leaves, err = half.Download(ctx)                  // waits
//
// What others may rely on:
//
//  1. The leaves are in order of their paths by Unicode code points, and a layout depends on the leaves and the limits alone.
//  2. A part begins at a multiple of [BlockElements] elements of its slab, so it can be bound on its own and no block of that
//     size has elements of two leaves.
//  3. A slab is a whole number of blocks. What no leaf uses of it is zero, and every operation here leaves it zero; kernels
//     of other packages that write a slab must do the same.
//  4. The parts of a leaf hold its rows in order. Where a leaf has several, each but the last has a multiple of 64 rows, or
//     of the largest power of two that fits a slab.
//  5. bf16 is stored two to a word, the element of the lower index in the low half, and rounded by integers: the same bits
//     on every adapter and in Go.
package buffers
