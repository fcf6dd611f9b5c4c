package kron

import (
	"fmt"

	"gputrain/buffers"
	"gputrain/gpu"
)

// diagonalPath preconditions the matrices with a diagonal factor on one side or on both. All diagonal factors move in the same dispatches.
type diagonalPath struct {
	diagonals
	both   bothDiagonal
	one    oneDiagonal
	leaves []diagonalLeaf
}

// diagonalLeaf is where the factors of a leaf are. The factors of its left sides follow each other, and so do the right
// ones.
type diagonalLeaf struct {
	matrix      Matrix
	block       int // the first
	left, right int // the first factor; -1 for a dense side
	sides       int // the first of those
}

// newDiagonals makes the state of the matrices of a layout with a diagonal side; nil where it has none.
func newDiagonals(dev *gpu.Device, plan *Plan, layout *buffers.Layout) (path, error) {
	p := &diagonalPath{diagonals: diagonals{Set: dev.NewSet("gputrain.kron.diagonal"), config: plan.Config}}
	var err error
	for _, leaf := range layout.Leaves() {
		m, ok := plan.Leaf(leaf.Path)
		switch {
		case !ok || err != nil:
		case m.Kind == diagonalBoth:
			err = p.addBoth(plan, m, leaf)
		case m.Kind == diagonalLeft || m.Kind == diagonalRight:
			err = p.addOne(plan, m, leaf)
		}
	}
	if len(p.leaves) == 0 && err == nil {
		return nil, nil
	}
	if err == nil {
		err = p.allocate()
	}
	if err != nil {
		p.Release()
		return nil, err
	}
	return p, nil
}

func (p *diagonalPath) allocate() error {
	if err := p.one.arrange(&p.diagonals, p.both.squares); err != nil {
		return err
	}
	p.both.allocate(&p.diagonals)
	p.one.allocate(&p.diagonals)
	return p.diagonals.allocate()
}

// room finds banks for blocks with each fours, all in one bank if they fit, and gives the bank of each block.
func (d *diagonals) room(m Matrix, blocks, each int) (func(block int) int, error) {
	capacity := int(d.Device().Limits().BindingBytes / 16)
	per := capacity / each
	if per == 0 {
		return nil, fmt.Errorf("leaf %q: %w", m.Path,
			&gpu.LimitError{Subject: "diagonal factors of a block", Bytes: 16 * uint64(each), Limit: d.Device().Limits().BindingBytes, Name: "BindingBytes"})
	}
	if last := len(d.banks) - 1; last >= 0 && d.banks[last].fours+blocks*each <= capacity {
		return func(int) int { return last }, nil
	}
	first := len(d.banks)
	for at := 0; at < blocks; at += per {
		d.banks = append(d.banks, &factorBank{})
	}
	return func(block int) int { return first + block/per }, nil
}

func (p *diagonalPath) record(rec *gpu.Recording, c call) {
	d := &p.diagonals
	if c.refresh {
		p.both.balance(d, rec, c)
		p.one.balance(d, rec, c)
		if p.config.Rules.RelativeDamping {
			p.both.measure(d, rec, c)
			p.one.measure(d, rec, c)
			d.damp(rec, c)
		}
		p.both.follow(d, rec, c)
		p.one.follow(d, rec, c)
		d.step(rec, c, true)
	}
	if c.apply {
		p.both.apply(d, rec, c)
		p.one.apply(d, rec, c)
	}
}

// derive is needed by dense factors only: what diagonal ones do is computed from q as it is stored.
func (p *diagonalPath) derive(rec *gpu.Recording) {
	for _, b := range p.one.batches {
		b.square(&p.diagonals).Record(rec, p.Device())
	}
}

func (p *diagonalPath) tensors() []buffers.Tensor {
	var out []buffers.Tensor
	for _, l := range p.leaves {
		m := l.matrix
		if l.left >= 0 {
			out = append(out, p.factorTensors(m.Path, "l", l.left, m.Blocks, m.Rows)...)
		} else {
			out = append(out, p.one.tensors(&p.diagonals, m.Path, "l", p.one.sides[l.sides:][:m.Blocks])...)
		}
		if l.right >= 0 {
			out = append(out, p.factorTensors(m.Path, "r", l.right, m.Blocks, m.Cols)...)
		} else {
			out = append(out, p.one.tensors(&p.diagonals, m.Path, "r", p.one.sides[l.sides:][:m.Blocks])...)
		}
		if p.rms != nil {
			out = append(out, p.rmsTensor(m.Path, l.block, m.Blocks))
		}
	}
	return out
}
