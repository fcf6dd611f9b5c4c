package main

import (
	"encoding/json"
	"fmt"

	"gputrain/buffers"
	"gputrain/kron"
	"gputrain/optim"
)

// kronPlan is the blocks of a model's parameters under an optimizer; nil where it has no Kronecker factors.
func kronPlan(c optim.Config, params []buffers.Spec) (*kron.Plan, error) {
	method := kron.Method(c.Name)
	if method != kron.Quad && method != kron.Skew {
		return nil, nil
	}
	var p struct {
		BlockSize    int `json:"block_size"`
		MaxSizeDense int `json:"max_size_dense"`
	}
	if err := json.Unmarshal(c.Parameters, &p); err != nil {
		return nil, fmt.Errorf("inspect: optimizer %s: parameters: %w", c.Name, err)
	}
	var leaves []kron.Leaf
	for _, s := range params {
		leaves = append(leaves, kron.Leaf{Path: s.Path, Shape: s.Shape})
	}
	// What the plan does not depend on has any value that is allowed.
	return kron.NewPlan(leaves, kron.Config{
		Method: method, BlockSize: p.BlockSize, MaxSizeDense: p.MaxSizeDense, PreconditionerLR: 1, InitScale: 1, DType: buffers.F32,
	})
}
