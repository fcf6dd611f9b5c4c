package main

import (
	"fmt"
	"regexp"

	"gputrain/buffers"
	"gputrain/kron"
	"gputrain/optim"
)

// kronPlan is the blocks of a model's parameters under an optimizer; nil where it has no Kronecker factors.
func kronPlan(c optim.Config, params []buffers.Spec) (*kron.Plan, error) {
	parameters, err := c.Decode()
	if err != nil {
		return nil, fmt.Errorf("inspect: %w", err)
	}
	p, ok := parameters.(*optim.Kron)
	if !ok {
		return nil, nil
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
		Method: kron.Method(c.Name), BlockSize: p.BlockSize, MaxSizeDense: p.MaxSizeDense, PreconditionerLR: 1, InitScale: 1, DType: buffers.F32,
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
