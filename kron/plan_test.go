package kron

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
)

func TestPlanMergesShapes(t *testing.T) {
	for _, c := range []struct {
		shape             []int
		scanned           bool
		kind              Kind
		batch, rows, cols int
	}{
		{nil, false, Vector, 1, 1, 1},
		{[]int{7}, false, Vector, 1, 1, 7},
		{[]int{1, 7}, false, Vector, 1, 1, 7},
		{[]int{7, 1, 1}, false, Vector, 1, 1, 7},
		{[]int{1, 1}, false, Vector, 1, 1, 1},
		{[]int{5, 7}, false, Dense, 1, 5, 7},
		{[]int{3, 9, 6}, false, Dense, 1, 27, 6},    // 3 x 54 is 18 to 1, 27 x 6 is 4.5 to 1
		{[]int{4, 5, 2, 3}, false, Dense, 1, 20, 6}, // 4 x 30, 20 x 6, 40 x 3
		{[]int{5, 4, 3, 2}, false, Dense, 1, 20, 6},
		{[]int{3, 4, 2, 5}, false, Dense, 1, 12, 10},
		{[]int{2, 7, 9}, false, Dense, 1, 14, 9},
		{[]int{3, 2, 3}, false, Dense, 1, 3, 6}, // 3 x 6 and 6 x 3 are equal: the first
		{[]int{3, 5}, true, Vector, 3, 1, 5},
		{[]int{4}, true, Vector, 4, 1, 1},
		{[]int{2, 5, 7}, true, Dense, 2, 5, 7},
		{[]int{101, 7}, false, diagonalLeft, 1, 101, 7},
		{[]int{7, 101}, false, diagonalRight, 1, 7, 101},
		{[]int{101, 102}, false, diagonalBoth, 1, 101, 102},
		{[]int{100, 100}, false, Dense, 1, 100, 100},
		{[]int{1, 5000}, false, Vector, 1, 1, 5000},
		{[]int{0, 7}, false, Empty, 1, 0, 0},
		{[]int{0, 4, 7}, true, Empty, 0, 0, 0},
	} {
		p, err := NewPlan([]Leaf{{Path: "w", Shape: c.shape, Scanned: c.scanned}}, Config{
			Method: Quad, BlockSize: 8, MaxSizeDense: 100, PreconditionerLR: 0.7, InitScale: 1, DType: buffers.F32,
		})
		require.NoError(t, err)
		m := p.Leaves[0]
		assert.Equal(t, c.kind, m.Kind, "%v: %s", c.shape, m.Kind)
		assert.Equal(t, c.batch, m.Batch, "%v", c.shape)
		if c.kind != Empty {
			assert.Equal(t, [2]int{c.rows, c.cols}, [2]int{m.Rows, m.Cols}, "%v", c.shape)
		} else {
			assert.Empty(t, p.Blocks)
		}
	}
}

// TestPlanCoversLeavesOnce: the valid rectangles of blocks are the elements of their leaf, each once, blocks in order.
func TestPlanCoversLeavesOnce(t *testing.T) {
	p := placedPlan(t, plain(Quad, 4))
	for _, m := range p.Leaves {
		seen := make([]int, m.Batch*m.Rows*m.Cols)
		for _, b := range p.BlocksOf(m) {
			assert.Equal(t, m.Index, b.Leaf)
			part := newTwinBlock(p.Config, m, b)
			for r := range b.Rows {
				for c := range b.Cols {
					seen[part.at(r)+c]++
				}
			}
		}
		for i, n := range seen {
			require.Equal(t, 1, n, "%s element %d", m.Path, i)
		}
	}
	stacks := 0
	for _, b := range p.Blocks {
		if p.Leaves[b.Leaf].Kind == Dense {
			assert.Equal(t, stacks, b.Stack)
			stacks++
		}
	}
	assert.Equal(t, p.DenseBlocks(), stacks)
}

// TestPlanOrder: leaves as they are given, in the tree's own order, or by code points of their paths.
func TestPlanOrder(t *testing.T) {
	c := plain(Quad, 4)
	c.Rules.ByPath = true
	paths := []string{"layers.9.w", "e_1", "Wte", "layers.11.c", "e.s"}
	var leaves []Leaf
	for _, path := range paths {
		leaves = append(leaves, Leaf{Path: path, Shape: []int{2, 2}})
	}
	p, err := NewPlan(leaves, c)
	require.NoError(t, err)
	var got []string
	for i, m := range p.Leaves {
		got = append(got, m.Path)
		found, ok := p.Leaf(m.Path)
		assert.True(t, ok)
		assert.Equal(t, i, found.Index)
	}
	assert.Equal(t, []string{"Wte", "e.s", "e_1", "layers.11.c", "layers.9.w"}, got)
	assert.Equal(t, "layers.9.w", leaves[0].Path, "the caller's slice is not sorted")
	_, ok := p.Leaf("w")
	assert.False(t, ok)
	c.Rules.ByPath = false
	p, err = NewPlan(leaves, c)
	require.NoError(t, err)
	for i, m := range p.Leaves {
		assert.Equal(t, paths[i], m.Path)
		assert.Equal(t, i, p.BlocksOf(m)[0].Stack, "and they draw so")
		found, _ := p.Leaf(m.Path)
		assert.Equal(t, i, found.Index)
	}
}

func TestPlanErrors(t *testing.T) {
	good := plain(Quad, 4)
	_, err := NewPlan([]Leaf{{Path: "a"}, {Path: "b"}, {Path: "a"}}, good)
	assert.EqualError(t, err, `kron: plan: leaf "a": given twice`)
	_, err = NewPlan([]Leaf{{Path: "a", Scanned: true}}, good)
	assert.EqualError(t, err, `kron: plan: leaf "a": scanned, but a scalar has no axis to scan`)
	for want, change := range map[string]func(*Config){
		`kron: method: found "shampoo", wanted quad or skew`:            func(c *Config) { c.Method = "shampoo" },
		"kron: block_size: found 0, wanted 1 to 1024":                   func(c *Config) { c.BlockSize = 0 },
		"kron: max_size_dense: found -1, wanted 0 or more":              func(c *Config) { c.MaxSizeDense = -1 },
		"kron: dtype: found i32, wanted f32 or bf16":                    func(c *Config) { c.DType = buffers.I32 },
		"kron: noise_scale: found -1, wanted 0 or more":                 func(c *Config) { c.NoiseScale = -1 },
		"kron: damping: found 1, wanted 0 to less than 1":               func(c *Config) { c.Damping = 1 },
		"kron: preconditioner_lr: found 0, wanted more than 0":          func(c *Config) { c.PreconditionerLR = 0 },
		"kron: preconditioner_init_scale: found -2, wanted more than 0": func(c *Config) { c.InitScale = -2 },
	} {
		c := good
		change(&c)
		_, err := NewPlan(nil, c)
		assert.EqualError(t, err, want)
	}
}
