package graph

import (
	"errors"
	"fmt"
	"math"

	"gputrain/buffers/array"
)

// Input is a value that is written before each run of the program.
type Input struct {
	Name string `json:"name"`
	Type Type   `json:"type"`
}

func (Input) Kind() string { return "input" }

func (o Input) Infer(in []*Value) ([]Type, error) {
	if err := arity(in, 0); err != nil {
		return nil, err
	}
	if o.Name == "" {
		return nil, fmt.Errorf("it has no name")
	}
	if err := checkShape(o.Type.Shape); err != nil {
		return nil, err
	}
	switch o.Type.DType {
	case array.F32, array.BF16, array.I32, array.U32:
		return []Type{o.Type}, nil
	}
	return nil, fmt.Errorf("dtype %v, want %v, %v, %v or %v", o.Type.DType, array.F32, array.BF16, array.I32, array.U32)
}

// Param is a leaf of the tree of parameters, f32 to the graph whatever it is stored as.
type Param struct {
	Path  string `json:"path"`
	Shape []int  `json:"shape"`
}

func (Param) Kind() string { return "param" }

func (o Param) Infer(in []*Value) ([]Type, error) {
	if err := arity(in, 0); err != nil {
		return nil, err
	}
	if o.Path == "" {
		return nil, fmt.Errorf("it has no path")
	}
	return []Type{F32(o.Shape...)}, checkShape(o.Shape)
}

// Constant is a scalar number, which ends up in the text of the kernels that use it.
type Constant struct {
	Value float64 `json:"value"`
}

func (Constant) Kind() string { return "constant" }

func (o Constant) Infer(in []*Value) ([]Type, error) {
	return []Type{F32()}, errors.Join(arity(in, 0), finite("value", o.Value))
}

// finite refuses what neither JSON nor the text of a kernel can say.
func finite(what string, x float64) error {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return fmt.Errorf("%s %g, want a finite number", what, x)
	}
	return nil
}

// Eval is what was given.
func (o Input) Eval(n *Node, _ []*Array, e *Env) []*Array { return e.feed(n, o.Name) }

// Eval is what was given.
func (o Param) Eval(n *Node, _ []*Array, e *Env) []*Array { return e.feed(n, o.Path) }

// Eval is the number.
func (o Constant) Eval(*Node, []*Array, *Env) []*Array {
	return []*Array{{Shape: []int{}, Data: []float64{o.Value}}}
}
