package optim

import (
	"gputrain/buffers"
	"gputrain/gpu"
)

// An operator is a step of a chain that is not elementwise: it rewrites the update of the leaves it is for, in place, between two
// fused kernels, and has its own state.
type operator interface {
	// open makes the state on a device.
	open(s scene) (operation, error)
	// twin is the definition, in float64, without a device.
	twin(s scene) (operatorTwin, error)
	// cost is what it takes a parameter of its leaves.
	cost() Cost
}

// A scene is the leaves that an operator works on. The twin has no device and no layout.
type scene struct {
	device *gpu.Device
	layout *buffers.Layout
	leaves []buffers.Leaf // of layout, or the same without places
	chosen []bool         // by index: the operator is for this leaf
	whole  []buffers.Spec // those of the whole model that the operator is for; leaves may be a stage
}

// An operation is an operator at work on a device.
type operation interface {
	// reuses tells whether some updates keep what is costly to refresh, which is recorded with reuse.
	reuses() bool
	// prepare writes what changes from update to update, ordered before the next submit; t counts completed updates. It tells whether
	// this update reuses.
	prepare(t int64) (reuse bool, err error)
	// record records one update.
	record(rec *gpu.Recording, c operatorCall) error
	// tensors is the state as it is saved; what is derived from a tensor is brought up to date at the latest in prepare.
	tensors() []buffers.Tensor
	bytes() uint64
	release()
}

// An operatorCall is what a recording is made of.
type operatorCall struct {
	updates *buffers.Tree // f32, rewritten in place for the chosen leaves; the padding stays zero
	params  *buffers.Tree // from before the update
	// flag is a Statistics entry; with its word 1 not zero, state must keep every bit (the update then goes nowhere). An empty range
	// where updates are never skipped.
	flag  gpu.Range
	reuse bool // keep what is costly to refresh
}

// An operatorTwin is an operator at work in float64.
type operatorTwin interface {
	// update rewrites u of the chosen leaves; p is the params from before the update, both by leaf. With skip the state stays.
	update(t int64, u, p [][]float64, skip bool)
	// tensors gives the state by the names and in the shapes of operation.tensors.
	tensors() []buffers.Host
}
