package kron

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/internal/gputest"
)

// TestDenseDispatches: their number follows the classes of blocks, not the leaves; and a dry device plans the bytes that are taken.
func TestDenseDispatches(t *testing.T) {
	count := func(layers int, method Method) (dispatches int) {
		var leaves []Leaf
		for i := range layers {
			for _, l := range denseLeaves {
				leaves = append(leaves, Leaf{Path: fmt.Sprintf("%d.%s", i, l.Path), Shape: l.Shape, Scanned: l.Scanned})
			}
		}
		d := gpu.Dry(gpu.Limits{})
		c := denseConfig(method, buffers.BF16, Stable())
		plan, err := NewPlan(leaves, c)
		require.NoError(t, err)
		var specs []buffers.Spec
		for _, l := range leaves {
			specs = append(specs, buffers.Spec{Path: l.Path, Shape: l.Shape})
		}
		layout, err := buffers.NewLayout(specs, d.Limits())
		require.NoError(t, err)
		tree, err := buffers.NewTree(d, "test", layout, buffers.F32)
		require.NoError(t, err)
		before := d.Counters().LiveBytes
		s, err := NewState(d, plan, layout)
		require.NoError(t, err)
		assert.Equal(t, s.Bytes(), d.Counters().LiveBytes-before)
		rec := d.Record("test")
		s.Record(rec, tree, gpu.Range{}, false)
		s.Release()
		assert.Equal(t, before, d.Counters().LiveBytes)
		return strings.Count(rec.String(), " dispatch ")
	}
	for _, method := range []Method{Quad, Skew} {
		one, many := count(1, method), count(40, method)
		assert.Equal(t, one, many)
		assert.Greater(t, one, 10)
	}

	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		before := d.Counters().LiveBytes
		tree := numbered(t, d, denseLeaves)
		plan, err := NewPlan(denseLeaves, denseConfig(Skew, buffers.F32, Rules{}))
		require.NoError(t, err)
		taken := d.Counters().LiveBytes - before
		s, err := NewState(d, plan, tree.Layout())
		require.NoError(t, err)
		assert.Equal(t, s.Bytes(), d.Counters().LiveBytes-before-taken)
		dry := gpu.Dry(d.Limits())
		planned, err := NewState(dry, plan, tree.Layout())
		require.NoError(t, err)
		assert.Equal(t, planned.Bytes(), s.Bytes())
		s.Release()
	})
}

func TestStateRefuses(t *testing.T) {
	d := gpu.Dry(gpu.Limits{})
	plan, err := NewPlan([]Leaf{{Path: "w", Shape: []int{8, 8}}}, denseConfig(Quad, buffers.F32, Rules{}))
	require.NoError(t, err)
	layout, err := buffers.NewLayout([]buffers.Spec{{Path: "w", Shape: []int{4, 16}}}, d.Limits())
	require.NoError(t, err)
	_, err = NewState(d, plan, layout)
	assert.ErrorContains(t, err, `leaf "w": shape [4 16], wanted the plan's [8 8]`)
	layout, err = buffers.NewLayout([]buffers.Spec{{Path: "v", Shape: []int{4}}, {Path: "w", Shape: []int{8, 8}}}, d.Limits())
	require.NoError(t, err)
	s, err := NewState(d, plan, layout)
	require.NoError(t, err)
	half, err := buffers.NewTree(d, "half", layout, buffers.BF16)
	require.NoError(t, err)
	rec := d.Record("test")
	s.Record(rec, half, gpu.Range{}, false)
	assert.ErrorContains(t, rec.Err(), "dtype bf16")
	assert.Error(t, s.Prepare(0))
	tiny := gpu.Dry(gpu.Limits{BindingBytes: 1024})
	small, err := buffers.NewLayout([]buffers.Spec{{Path: "w", Shape: []int{8, 8}}}, tiny.Limits())
	require.NoError(t, err)
	c := denseConfig(Quad, buffers.F32, Rules{})
	_, err = NewState(tiny, plan, small)
	require.NoError(t, err)
	plan, err = NewPlan([]Leaf{{Path: "w", Shape: []int{16, 16}}}, c)
	require.NoError(t, err)
	small, err = buffers.NewLayout([]buffers.Spec{{Path: "w", Shape: []int{16, 16}}}, tiny.Limits())
	require.NoError(t, err)
	_, err = NewState(tiny, plan, small)
	assert.ErrorContains(t, err, "block of 16 by 16: its factors take 2048 bytes, a binding has 1024")
}
