package optim

import (
	"gputrain/buffers"
	"gputrain/gpu"
)

// An Operator is a step of a chain that is not elementwise. It rewrites the update of its leaves in place, between two fused kernels, and
// has state of its own. An operator that can tell without a device that a Scene does not fit it implements Check(Scene) error; one that multiplies
// matrices implements Work(Scene) ([]float64, error), which counts the multiply-adds of an update by leaf.
type Operator interface {
	// Open makes the state on a device.
	Open(s Scene) (Operation, error)
	// Twin is the definition, in float64, without a device.
	Twin(s Scene) (OperatorTwin, error)
	// Cost is its cost for each parameter of its leaves.
	Cost() Cost
}

// Operate makes a transformation of an operator. name is the name of its count, and appears in messages.
func Operate(name string, o Operator) Transform {
	return Elementwise(Element{Name: name, operator: o})
}

// asideOf makes a transformation of an operator that reads the update and leaves it as it is: what parts change is changed for it alone.
func asideOf(name string, o Operator, parts ...Transform) Transform {
	t := Chain(append(parts, Operate(name, o))...)
	for i := range t.elements {
		t.elements[i].aside = true
	}
	t.name = name
	return t
}

// A Scene is the leaves that an operator works on. The twin has no device and no layout.
type Scene struct {
	Device *gpu.Device
	Layout *buffers.Layout
	Leaves []buffers.Leaf // of Layout, or the same without places
	Chosen []bool         // by index: the operator is for this leaf
	Whole  []buffers.Spec // all leaves of the model that the operator is for; Leaves may be a stage's
	Frozen func(path string) bool

	earlier []Operation    // of the operators before this one in the chain
	twins   []OperatorTwin // likewise
}

// An Operation is an operator at work on a device.
type Operation interface {
	// Reuses tells whether some updates keep values that are costly to refresh; Reuse records such updates.
	Reuses() bool
	// Prepare writes what changes from update to update, ordered before the next submit; t counts completed updates. It tells whether
	// this update reuses.
	Prepare(t int64) (reuse bool, err error)
	// Record records one update.
	Record(rec *gpu.Recording, c OperatorCall)
	// Tensors is the state as it is saved; values derived from a tensor are brought up to date at the latest in
	// Prepare.
	Tensors() []buffers.Tensor
	Bytes() uint64
	Release()
}

// An OperatorCall is what Operation.Record gets.
type OperatorCall struct {
	Updates *buffers.Tree // f32, rewritten in place for the chosen leaves; the padding stays zero
	Params  *buffers.Tree // from before the update
	// Flag is a Statistics entry; with its word 1 not zero, state must keep every bit (the update then goes nowhere). An empty range
	// where updates are never skipped.
	Flag  gpu.Range
	Reuse bool // keep values that are costly to refresh
}

// An OperatorTwin is an operator at work in float64.
type OperatorTwin interface {
	// Update rewrites u of the chosen leaves; p is the params from before the update, both by leaf. With skip the state stays.
	Update(t int64, u, p [][]float64, skip bool)
	// Tensors gives the state by the names and in the shapes of Operation.Tensors.
	Tensors() []buffers.Host
}
