package cluster

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/internal/gputest"
	"gputrain/internal/ranks/mesh"
	"gputrain/internal/ranks/transport"
	"gputrain/state"
)

// together runs do on each of n ranks, and returns their errors.
func together(n int, do func(rank int, g *mesh.Mesh) error) []error {
	errs := make([]error, n)
	var all sync.WaitGroup
	for rank, ranks := range transport.Local(n) {
		all.Go(func() {
			g := mesh.New(ranks, mesh.Config{Timeout: time.Minute, Code: func(error) int { return 5 }})
			errs[rank] = do(rank, g)
		})
	}
	all.Wait()
	return errs
}

// model is the gradients of microbatches on stages: a tree of several slabs' worth of buckets, and a small one.
var model = [][]buffers.Spec{
	{{Path: "a", Shape: []int{33, 10}}, {Path: "b", Shape: []int{7}}},
	{{Path: "c", Shape: []int{2}}},
}

// newTree makes a tree for gradients.
func newTree(t *testing.T, dev *gpu.Device, layout *buffers.Layout) *buffers.Tree {
	t.Helper()
	tree, err := buffers.NewTree(dev, "test", layout, buffers.F32)
	require.NoError(t, err)
	t.Cleanup(tree.Release)
	return tree
}

// trees makes one tree a stage.
func trees(t *testing.T, dev *gpu.Device) (out []*buffers.Tree) {
	for _, specs := range model {
		layout, err := buffers.NewLayout(specs, dev.Limits())
		require.NoError(t, err)
		out = append(out, newTree(t, dev, layout))
	}
	return out
}

// gradient draws the gradient of a microbatch: numbers of all sizes, denormal ones too.
func gradient(micro int) (out []float32) {
	rng := rand.New(rand.NewPCG(15, uint64(micro)))
	for _, specs := range model {
		for _, s := range specs {
			n := 1
			for _, d := range s.Shape {
				n *= d
			}
			for range n {
				out = append(out, float32(math.Ldexp(rng.NormFloat64(), rng.IntN(12)-rng.IntN(2)*135)))
			}
		}
	}
	return out
}

func put32(t *testing.T, to []*buffers.Tree, values []float32) {
	for i, specs := range model {
		for _, s := range specs {
			leaf, ok := to[i].Layout().Leaf(s.Path)
			require.True(t, ok)
			require.NoError(t, to[i].Write(s.Path, values[:leaf.Elements()]))
			values = values[leaf.Elements():]
		}
	}
}

func get32(t *testing.T, from []*buffers.Tree) (out []float32) {
	for i, specs := range model {
		for _, s := range specs {
			values, err := from[i].Read(t.Context(), s.Path)
			require.NoError(t, err)
			out = append(out, values...)
		}
	}
	return out
}

func bitsOf(values []float32) (out []uint32) {
	for _, v := range values {
		out = append(out, math.Float32bits(v))
	}
	return out
}

// onDevice adds two gradients with the kernel that training adds with.
func onDevice(t *testing.T, dev *gpu.Device, left, right []float32) []float32 {
	a, b := trees(t, dev), trees(t, dev)
	put32(t, a, left)
	put32(t, b, right)
	rec := dev.Record("gputrain.test.add")
	for i := range a {
		require.NoError(t, buffers.Sum(rec, nil, b[i], a[i], b[i]))
	}
	require.NoError(t, rec.Submit(t.Context()))
	return get32(t, b)
}

// summed is what a span of microbatches comes to on the device.
func summed(t *testing.T, dev *gpu.Device, microbatches int, span state.Span) []float32 {
	var nodes []state.Span
	for i := range span.Count {
		nodes = append(nodes, state.Span{First: span.First + i, Count: 1})
	}
	if span.Count == 1 {
		return gradient(span.First)
	}
	return state.Fold(microbatches, nodes, func(i int) []float32 { return gradient(nodes[i].First) }, func(left, right []float32) []float32 {
		return onDevice(t, dev, left, right)
	})
}

// Any number of ranks leaves the device's bits of the sum in every rank's gradients, and sends and receives what the formula of tools/lab-book.md says.
func TestSumHasTheBitsOfOneDevice(t *testing.T) {
	gputest.Each(t, func(t *testing.T, dev *gpu.Device) {
		for _, microbatches := range []int{1, 3, 8} {
			want := summed(t, dev, microbatches, state.Span{Count: microbatches})
			for _, ranks := range []int{2, 3, 4} {
				t.Run(fmt.Sprintf("%d of %d", ranks, microbatches), func(t *testing.T) {
					partials := make([][]state.Partial, ranks)
					grads := make([][]*buffers.Tree, ranks)
					for rank := range ranks {
						grads[rank] = trees(t, dev)
						nodes := state.Share(microbatches, rank, ranks).Nodes(microbatches)
						for i, node := range nodes {
							p := state.Partial{Span: node, Trees: grads[rank]}
							if i < len(nodes)-1 {
								p.Trees = trees(t, dev)
							}
							put32(t, p.Trees, summed(t, dev, microbatches, node))
							partials[rank] = append(partials[rank], p)
						}
					}
					uses := make([]Use, ranks)
					for rank, err := range together(ranks, func(rank int, g *mesh.Mesh) error {
						r, err := NewReducer(t.Context(), g, Sums{Microbatches: microbatches, Bucket: 400}, dev)
						if err == nil {
							err = r.Sum(t.Context(), grads[rank], partials[rank])
							uses[rank] = r.use
						}
						return err
					}) {
						require.NoError(t, err, "rank %d", rank)
						require.Equal(t, bitsOf(want), bitsOf(get32(t, grads[rank])), "rank %d", rank)
						sent, received := travels(grads[rank], rank, ranks, microbatches, 400, 4)
						require.Equal(t, []uint64{sent, received}, []uint64{uses[rank].Sent, uses[rank].Received}, "rank %d", rank)
						assert.LessOrEqual(t, uses[rank].Hidden, uses[rank].Transfer)
						assert.LessOrEqual(t, uses[rank].Transfer, uses[rank].Sum)
						assert.Positive(t, uses[rank].Transfer)
					}
				})
			}
		}
	})
}

// travels is the formula: a rank sends its piece of its partial sums' n elements to each other, and the total of its own piece to all of them; w bytes each.
func travels(grads []*buffers.Tree, rank, ranks, microbatches, bucket int, w uint64) (sent, received uint64) {
	nodes := func(rank int) uint64 {
		return uint64(len(state.Share(microbatches, rank, ranks).Nodes(microbatches)))
	}
	elements, own, others := uint64(0), uint64(0), uint64(0)
	for _, tree := range grads {
		for _, n := range tree.Layout().Slabs() {
			for at := 0; at < n; at += bucket / 4 {
				count := min(bucket/4, n-at)
				elements += uint64(count)
				own += uint64((rank+1)*count/ranks - rank*count/ranks)
			}
		}
	}
	for other := range ranks {
		if other != rank {
			others += nodes(other)
		}
	}
	return w * (nodes(rank)*(elements-own) + uint64(ranks-1)*own), w * (others*own + elements - own)
}

// With bf16 on the wire all ranks have the same bits, half the bytes travel, and the sum is within the bound that Wire states.
func TestSumInHalfTheBytes(t *testing.T) {
	const ranks, microbatches = 3, 8
	dev := gputest.Device(t)
	exact, sizes := make([]float64, len(gradient(0))), make([]float64, len(gradient(0)))
	all := make([][]float32, ranks)
	grads, partials := make([][]*buffers.Tree, ranks), make([][]state.Partial, ranks)
	for rank := range ranks {
		grads[rank] = trees(t, dev)
		nodes := state.Share(microbatches, rank, ranks).Nodes(microbatches)
		for i, node := range nodes {
			p := state.Partial{Span: node, Trees: grads[rank]}
			if i < len(nodes)-1 {
				p.Trees = trees(t, dev)
			}
			values := summed(t, dev, microbatches, node)
			for i, v := range values {
				exact[i] += float64(v)
				sizes[i] += math.Abs(float64(v))
			}
			put32(t, p.Trees, values)
			partials[rank] = append(partials[rank], p)
		}
	}
	for rank, err := range together(ranks, func(rank int, g *mesh.Mesh) error {
		r, err := NewReducer(t.Context(), g, Sums{Microbatches: microbatches, Wire: BF16, Bucket: 400}, dev)
		if err == nil {
			err = r.Sum(t.Context(), grads[rank], partials[rank])
		}
		if err == nil {
			sent, received := travels(grads[rank], rank, ranks, microbatches, 400, 2)
			assert.Equal(t, []uint64{sent, received}, []uint64{r.use.Sent, r.use.Received}, "rank %d", rank)
		}
		return err
	}) {
		require.NoError(t, err)
		all[rank] = get32(t, grads[rank])
		require.Equal(t, bitsOf(all[0]), bitsOf(all[rank]))
	}
	rounded := 0
	for i, v := range all[0] {
		bound := 0x1p-8*(math.Abs(exact[i])+sizes[i])*(1+0x1p-7) + 0x1p-126 // and what is denormal
		require.LessOrEqual(t, math.Abs(float64(v)-exact[i]), bound, "element %d", i)
		if float64(v) != exact[i] {
			rounded++
		}
	}
	assert.Greater(t, rounded, len(exact)/2)
}

func TestBfloat(t *testing.T) {
	for bits, want := range map[uint32]uint16{
		0x3f800000: 0x3f80, 0x3f808000: 0x3f80, 0x3f818000: 0x3f82, 0x3f808001: 0x3f81, 0x7f7fffff: 0x7f80, 0xff800000: 0xff80, 0x7f800001: 0x7fc0, 0x00000001: 0,
		0x80000000: 0x8000,
	} {
		raw := make([]byte, 2)
		BF16.encode(raw, []float32{math.Float32frombits(bits)})
		assert.Equal(t, want, binary.LittleEndian.Uint16(raw), "%#x", bits)
	}
}

// A device that flushes what it reads, what it writes, or both is found out, and one that adds otherwise is too.
func TestFindAddition(t *testing.T) {
	left, right := probes()
	for _, want := range additions {
		sums := append([]float32(nil), left...)
		want.add(sums, right)
		found, ok := findAddition(sums)
		require.True(t, ok)
		assert.Equal(t, want, found)
	}
	sums := append([]float32(nil), left...)
	for i, r := range right {
		sums[i] = float32(math.Nextafter32(sums[i]+r, 0)) // towards zero
	}
	_, ok := findAddition(sums)
	assert.False(t, ok)
}
