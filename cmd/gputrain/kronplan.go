package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"

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
	p := optim.DefaultQuad() // skew has the same
	if given := bytes.TrimSpace(c.Parameters); len(given) > 0 {
		if err := json.Unmarshal(given, &p); err != nil {
			return nil, fmt.Errorf("inspect: optimizer %s: parameters: %w", c.Name, err)
		}
	}
	var leaves []kron.Leaf
	for _, s := range params {
		scanned, err := inMask(p.ScannedLayers, s)
		if err != nil {
			return nil, fmt.Errorf("inspect: optimizer %s: scanned_layers: %w", c.Name, err)
		}
		leaves = append(leaves, kron.Leaf{Path: s.Path, Shape: s.Shape, Scanned: scanned})
	}
	// What the plan does not depend on has any value that is allowed.
	return kron.NewPlan(leaves, kron.Config{
		Method: method, BlockSize: p.BlockSize, MaxSizeDense: p.MaxSizeDense, PreconditionerLR: 1, InitScale: 1, DType: buffers.F32,
	})
}

// inMask tells whether a mask chooses a leaf; nil chooses none.
func inMask(m *optim.Mask, s buffers.Spec) (bool, error) {
	switch {
	case m == nil:
		return false, nil
	case m.Matrices:
		return len(s.Shape) >= 2, nil
	case m.Paths != nil:
		return m.Paths[s.Path], nil
	}
	for _, pattern := range m.Patterns {
		if match, err := regexp.MatchString(pattern, s.Path); match || err != nil {
			return match, err
		}
	}
	return false, nil
}
