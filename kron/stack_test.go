package kron

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/buffers/array"
	"gputrain/gpu"
	"gputrain/internal/gputest"
)

// small makes slabs of 16,384 f32.
var small = gpu.Limits{BindingBytes: 64 << 10}

func TestSizeClass(t *testing.T) {
	classes := map[int]bool{}
	last := 0
	for n := 1; n <= 1024; n++ {
		c := sizeClass(n, 1024)
		require.True(t, c >= n && c%4 == 0 && c >= last, n)
		require.LessOrEqual(t, c-n, max(3, n/4), n)
		classes[c], last = true, c
	}
	assert.Len(t, classes, 8+4*5, "eight up to 32, four an octave from there")
	assert.Equal(t, 100, sizeClass(98, 100), "no larger than a full block")
	assert.Equal(t, 104, sizeClass(102, 102))
}

// oddLeaves are matrices of all kinds: scanned, merged, one that several slabs share, odd sides.
var oddLeaves = []Leaf{
	{Path: "a", Shape: []int{3, 5}},
	{Path: "b.split", Shape: []int{300, 71}},
	{Path: "c.scanned", Shape: []int{3, 9, 21}, Scanned: true},
	{Path: "d.merged", Shape: []int{5, 4, 3, 2}},
	{Path: "e.wide", Shape: []int{2, 13000}},
	{Path: "f.rows", Shape: []int{7, 5000}}, // three rows a slab
	{Path: "g.vector", Shape: []int{130}},
	{Path: "h.empty", Shape: []int{0, 4}},
}

// numbered is a tree whose elements are their own numbers.
func numbered(t testing.TB, d *gpu.Device, leaves []Leaf) *buffers.Tree {
	var hosts []buffers.Host
	next := float32(1)
	for _, l := range leaves {
		h := buffers.Host{Path: l.Path, Shape: l.Shape, Data: make([]float32, array.Elements(l.Shape))}
		for i := range h.Data {
			h.Data[i] = next
			next++
		}
		hosts = append(hosts, h)
	}
	var specs []buffers.Spec
	for _, h := range hosts {
		specs = append(specs, buffers.Spec{Path: h.Path, Shape: h.Shape})
	}
	layout, err := buffers.NewLayout(specs, small)
	require.NoError(t, err)
	tree, err := buffers.NewTree(d, "test", layout, buffers.F32)
	require.NoError(t, err)
	t.Cleanup(tree.Release)
	require.NoError(t, tree.WriteAll(hosts))
	return tree
}

func downloaded(t testing.TB, tree *buffers.Tree) map[string][]float32 {
	hosts, err := tree.Download(t.Context())
	require.NoError(t, err)
	out := map[string][]float32{}
	for _, h := range hosts {
		out[h.Path] = h.Data
	}
	return out
}

func TestTransport(t *testing.T) {
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		for _, blockSize := range []int{16, 50, 6} {
			t.Run(fmt.Sprint(blockSize), func(t *testing.T) {
				plan, err := NewPlan(oddLeaves, Config{Method: Quad, BlockSize: blockSize, MaxSizeDense: 20000, PreconditionerLR: 0.7, InitScale: 1})
				require.NoError(t, err)
				tree := numbered(t, d, oddLeaves)
				require.Greater(t, len(tree.Layout().Slabs()), 3)
				before := downloaded(t, tree)

				var spots []spot
				at := 0
				for _, b := range byClass(plan.Blocks, blockSize) {
					if plan.Leaves[b.Leaf].Kind != Dense {
						continue
					}
					s := spot{block: b, height: sizeClass(b.Rows, blockSize), width: sizeClass(b.Cols, blockSize), at: at}
					at += s.height * s.width
					spots = append(spots, s)
				}
				require.Len(t, spots, plan.DenseBlocks())
				carrier, err := newTransport(d.NewSet("test"), tree.Layout(), plan, spots)
				require.NoError(t, err)
				defer carrier.table.Release()
				junk := make([]float64, at)
				for i := range junk {
					junk[i] = -1
				}
				stack := uploadStack(t, d, 1, 1, at, buffers.F32, junk)
				rec := d.Record("test")
				carrier.gather(rec, stack.Range, tree)
				require.NoError(t, rec.Submit(t.Context()))

				got := downloadStack(t, d, stack)
				for _, s := range spots {
					m := plan.Leaves[s.block.Leaf]
					for r := range s.height {
						for c := range s.width {
							want := float32(0)
							if r < s.block.Rows && c < s.block.Cols {
								want = before[m.Path][((s.block.Batch*m.Rows+s.block.Row+r)*m.Cols)+s.block.Col+c]
							}
							require.Equal(t, want, float32(got[s.at+r*s.width+c]), "%s %+v (%d, %d)", m.Path, s.block, r, c)
						}
					}
				}

				// Back with another sign.
				for i := range got {
					got[i] = -got[i] - 0.5
				}
				stack = uploadStack(t, d, 1, 1, at, buffers.F32, got)
				rec = d.Record("test")
				carrier.scatter(rec, tree, stack.Range)
				require.NoError(t, rec.Submit(t.Context()))
				for path, data := range downloaded(t, tree) {
					m, _ := plan.Leaf(path)
					for i, x := range data {
						want := before[path][i]
						if m.Kind == Dense {
							want = -want - 0.5
						}
						require.Equal(t, want, x, "%s[%d]", path, i)
					}
				}
				for s := range tree.Layout().Slabs() { // what lies between the leaves is still zero
					raw := make([]byte, tree.Slab(s).Bytes)
					require.NoError(t, d.Read(t.Context(), raw, tree.Slab(s)))
					for i := tail(tree.Layout(), s); i < len(raw); i++ {
						require.Zero(t, raw[i])
					}
				}
			})
		}
	}, gputest.WithLimits(gpu.Limits{Workgroups: 60})) // folds grids
}

// tail is the byte after the last leaf of a slab.
func tail(l *buffers.Layout, slab int) int {
	end := 0
	for _, leaf := range l.Leaves() {
		for _, p := range leaf.Parts {
			if p.Slab == slab {
				end = max(end, 4*(p.Offset+p.Count))
			}
		}
	}
	return end
}
