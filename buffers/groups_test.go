package buffers

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/gpu"
	"gputrain/internal/gputest"
)

// Leaves of a group lie in slabs of their own, with the parts that they have alone; a group of a tree is a part of its memory.
func TestGroupsHaveTheirOwnSlabs(t *testing.T) {
	lim := gpu.DefaultLimits()
	lim.BindingBytes = 4 * 256
	groups := [][]Spec{{{Path: "d", Shape: []int{5, 100}}, {Path: "a", Shape: []int{3}}}, nil, {{Path: "b", Shape: []int{130}}, {Path: "c", Shape: []int{0}}}}
	l, err := NewGroupedLayout(groups, lim)
	require.NoError(t, err)
	assert.Equal(t, 3, l.Groups())
	var paths []string
	for i, leaf := range l.Leaves() {
		paths = append(paths, leaf.Path)
		assert.Equal(t, i, leaf.Index)
	}
	assert.Equal(t, []string{"a", "b", "c", "d"}, paths)
	slabs := 0
	for g, specs := range groups {
		alone, err := NewLayout(specs, lim)
		require.NoError(t, err)
		assert.True(t, alone.Equal(l.Group(g)))
		first, end := l.GroupSlabs(g)
		assert.Equal(t, slabs, first)
		slabs = end
		assert.Equal(t, alone.Slabs(), append([]int(nil), l.Slabs()[first:end]...))
		for _, leaf := range alone.Leaves() {
			whole, _ := l.Leaf(leaf.Path)
			for i, part := range leaf.Parts {
				part.Slab += first
				assert.Equal(t, part, whole.Parts[i])
			}
		}
	}
	assert.Len(t, l.Slabs(), slabs)

	plain, err := NewLayout(groups[0], lim)
	require.NoError(t, err)
	assert.Equal(t, 1, plain.Groups())
	assert.Same(t, plain, plain.Group(0))
	_, err = NewGroupedLayout([][]Spec{groups[0], groups[0]}, lim)
	require.EqualError(t, err, `buffers: layout: leaf "a": found it in two groups, wanted it in one`)

	tree, err := NewTree(gputest.Device(t), "groups", l, F32)
	require.NoError(t, err)
	defer tree.Release()
	require.NoError(t, tree.Group(0).Write("a", []float32{1, 2, 3}))
	got, err := tree.Read(t.Context(), "a")
	require.NoError(t, err)
	assert.Equal(t, []float32{1, 2, 3}, got)
	assert.Empty(t, tree.Group(1).Layout().Slabs())
}
