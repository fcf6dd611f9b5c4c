package kron

import (
	"context"
	"fmt"
	"math"
	"slices"

	"gputrain/buffers"
	"gputrain/buffers/prng"
	"gputrain/gpu"
)

// State is an engine at work on a device. It is not safe for concurrent use.
type State struct {
	device *gpu.Device
	plan   *Plan
	layout *buffers.Layout
	update *gpu.Buffer // the uniform of an update, Update in shaders/shared/kron.wgsl
	never  *gpu.Buffer // a flag that is never set
	paths  []path
	stale  bool // tensors were written after the values derived from them
}

// A path treats the leaves of some kinds.
type path interface {
	// record records one update of its leaves.
	record(rec *gpu.Recording, c call)
	// derive recomputes the values derived from the tensors.
	derive(rec *gpu.Recording)
	tensors() []buffers.Tensor
	Bytes() uint64
	Release()
}

// A call is one recording of an update.
type call struct {
	updates *buffers.Tree // f32: gradients in, preconditioned gradients out
	flag    gpu.Range     // 16 bytes of storage; word 1 not zero: all state keeps every bit
	refresh bool          // factors follow the gradients
	apply   bool          // the updates are preconditioned; otherwise they stay as they are
	scalars gpu.Range     // the uniform
}

const updateBytes = 64 // of Update

// NewState makes the state before the first update. layout is the updates' layout. Leaves that only the layout or only
// the plan has are left alone. Errors: a leaf whose shape is not the plan's, a block larger than a binding, no memory.
func NewState(dev *gpu.Device, plan *Plan, layout *buffers.Layout) (*State, error) {
	s := &State{device: dev, plan: plan, layout: layout}
	if err := s.open(); err != nil {
		s.Release()
		return nil, fmt.Errorf("kron: %w", err)
	}
	return s, nil
}

func (s *State) open() error {
	paths := []string{} // nil would be all
	for _, leaf := range s.layout.Leaves() {
		m, ok := s.plan.Leaf(leaf.Path)
		if !ok {
			continue
		}
		if !slices.Equal(m.Shape, leaf.Shape) {
			return fmt.Errorf("leaf %q: shape %v, wanted the plan's %v", leaf.Path, leaf.Shape, m.Shape)
		}
		paths = append(paths, leaf.Path)
	}
	part, err := s.plan.part(paths)
	if err != nil {
		return err
	}
	if s.update, err = s.device.NewUniform("gputrain.kron.update", updateBytes); err != nil {
		return err
	}
	if s.never, err = s.device.NewBuffer("gputrain.kron.never", 16); err != nil {
		return err
	}
	own := s.plan.only(part.own)
	for _, open := range []func() (path, error){
		func() (path, error) { return newDense(s.device, s.plan, s.layout, part) },
		func() (path, error) { return newDiagonals(s.device, own, s.layout) },
		func() (path, error) { return newVectors(s.device, own, s.layout) },
	} {
		p, err := open()
		if err != nil {
			return err
		}
		if p != nil {
			s.paths = append(s.paths, p)
		}
	}
	return nil
}

// Prepare begins update n, counted from 1: it writes what changes from update to update, ordered before the next
// submit, and after a restore brings the values derived from the tensors up to date.
func (s *State) Prepare(n int64) error {
	if n < 1 || n > math.MaxUint32 {
		return fmt.Errorf("kron: update %d: they count from 1 to %d", n, uint32(math.MaxUint32))
	}
	if err := s.device.Write(s.update.All(), updateWords(s.plan.Config, n)); err != nil {
		return fmt.Errorf("kron: %w", err)
	}
	if !s.stale || s.device.Dry() {
		return nil
	}
	rec := s.device.Record("gputrain.kron.derive")
	for _, p := range s.paths {
		p.derive(rec)
	}
	if err := rec.Submit(context.Background()); err != nil {
		return fmt.Errorf("kron: derive: %w", err)
	}
	s.stale = false
	return nil
}

// updateWords is Update of update n.
func updateWords(c Config, n int64) []byte {
	balance := uint32(0)
	if balances(n) {
		balance = 1
	}
	words := []uint32{uint32(n), balance, math.Float32bits(float32(c.rate(n))), 0}
	for seed := uint64(42); seed <= 46; seed++ {
		key := prng.NewKey(seed).FoldIn(uint32(n))
		words = append(words, key[0], key[1])
	}
	return gpu.Bytes(append(words, 0, 0)) // unused
}

// Record records one update. updates are f32 and of the state's layout; they hold gradients and receive preconditioned
// gradients. If word 1 of flag (16 bytes of storage, or none) is not zero, all state keeps every bit, and the updates
// are not defined. With reuse the factors are applied and not refreshed. Prepare goes before each submit. Updates of
// another dtype, layout or device are an error of the recording.
func (s *State) Record(rec *gpu.Recording, updates *buffers.Tree, flag gpu.Range, reuse bool) {
	s.record(rec, call{updates: updates, flag: flag, refresh: !reuse, apply: true})
}

// Follow records a refresh alone: the factors follow what updates hold, which stays. Record with reuse applies them to something else.
func (s *State) Follow(rec *gpu.Recording, updates *buffers.Tree, flag gpu.Range) {
	s.record(rec, call{updates: updates, flag: flag, refresh: true})
}

func (s *State) record(rec *gpu.Recording, c call) {
	updates := c.updates
	switch {
	case updates.DType() != buffers.F32:
		rec.Fail(fmt.Errorf("kron: record: updates: dtype %s, wanted f32", updates.DType()))
		return
	case !updates.Layout().Equal(s.layout):
		rec.Fail(fmt.Errorf("kron: record: updates: wanted the layout of the state"))
		return
	case updates.Device() != s.device:
		rec.Fail(fmt.Errorf("kron: record: updates: on another device than the state"))
		return
	}
	if c.flag.Bytes == 0 {
		c.flag = s.never.All()
	}
	c.flag, c.scalars = c.flag.Buffer.Range(c.flag.Offset, 16), s.update.All()
	for _, p := range s.paths {
		p.record(rec, c)
	}
}

// Tensors is the state as it is saved: factors and bounds of the dense stack and of the other leaves, names and shapes as the Twin's
// tensors. What Write has changed counts from the next Prepare on.
func (s *State) Tensors() []buffers.Tensor {
	var out []buffers.Tensor
	for _, p := range s.paths {
		for _, t := range p.tensors() {
			write := t.Write
			t.Write = func(raw []byte) error {
				s.stale = true
				return write(raw)
			}
			out = append(out, t)
		}
	}
	return out
}

// Bytes is the device memory of the state, scratch included.
func (s *State) Bytes() uint64 {
	n := s.update.Bytes() + s.never.Bytes()
	for _, p := range s.paths {
		n += p.Bytes()
	}
	return n
}

// Release gives the memory back.
func (s *State) Release() {
	for _, p := range s.paths {
		p.Release()
	}
	s.update.Release()
	s.never.Release()
	s.paths = nil
}
