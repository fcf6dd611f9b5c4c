package window

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/internal/gputest"
)

// tally is the twin of the three kernels, in float64.
func tallied(data []float32) (limit float64, bins [binCount]uint32, nonFinite uint32) {
	finite := 0
	for _, x := range data {
		if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
			nonFinite++
		} else {
			finite++
		}
	}
	outside := func(limit float64) (n int) {
		for _, x := range data {
			if a := math.Abs(float64(x)); a >= limit && !math.IsInf(a, 0) {
				n++
			}
		}
		return n
	}
	limit = math.Ldexp(1, 126)
	for limit > math.Ldexp(1, -124) && outside(limit/2) <= finite/1000 {
		limit /= 2
	}
	for _, x := range data {
		if v := float64(x); !math.IsNaN(v) && !math.IsInf(v, 0) {
			bins[int(min(max(math.Floor(v/limit*32), -32), 31))+32]++
		}
	}
	return limit, bins, nonFinite
}

func TestTallyIsItsTwin(t *testing.T) {
	dev := gputest.Device(t)
	random := rand.New(rand.NewPCG(1, 2))
	normal := func(n int, deviation float64) []float32 {
		out := make([]float32, n)
		for i := range out {
			out[i] = float32(deviation * random.NormFloat64())
		}
		return out
	}
	wild := normal(5000, 1)
	copy(wild, []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)), math.MaxFloat32, -math.MaxFloat32, math.SmallestNonzeroFloat32})
	edges := make([]float32, 0, 2*binCount)
	for i := -binCount; i < binCount; i++ {
		edges = append(edges, float32(i)/32, math.Nextafter32(float32(i)/32, -9))
	}
	leaves := map[string][]float32{
		"a.weight": normal(4096*3+1, 0.02), "b.weight": wild, "c.weight": edges, "d.weight": make([]float32, 100),
		"e.weight": {0.75}, "f.weight": normal(4096, 1e-30), "g.weight": normal(100, 1e30),
		"h.0.weight": normal(1000, 1), "h.1.weight": normal(1000, 3),
	}
	var hosts []buffers.Host
	for path, data := range leaves {
		hosts = append(hosts, buffers.Host{Path: path, Shape: []int{1, len(data)}, Data: data})
	}
	hosts = append(hosts, buffers.Host{Path: "norm", Shape: []int{4}, Data: []float32{1, 1, 1, 1}})
	tree, err := buffers.Upload(dev, "params", hosts, buffers.F32)
	require.NoError(t, err)
	defer tree.Release()
	counts, err := newTally(context.Background(), tree, 20)
	require.NoError(t, err)
	defer counts.Release()
	leaves["h.*.weight"] = append(leaves["h.0.weight"], leaves["h.1.weight"]...)
	for round := range 2 { // the second begins from nothing too
		require.NoError(t, counts.count(context.Background()))
		found, err := counts.take(context.Background())
		require.NoError(t, err)
		require.Len(t, found, 8)
		for _, h := range found {
			data := leaves[h.Label]
			limit, bins, nonFinite := tallied(data)
			name := fmt.Sprintf("%s, round %d", h.Label, round)
			assert.Equal(t, len(data), h.Elements, name)
			assert.Equal(t, limit, h.rangeOf(), name)
			assert.Equal(t, bins[:], h.words[binsAt:rangeAt], name)
			assert.Equal(t, nonFinite, h.nonFinite(), name)
		}
	}
}

func TestGroupsKeepsTheLargestInOrder(t *testing.T) {
	leaf := func(path string, shape ...int) buffers.Leaf { return buffers.Leaf{Path: path, Shape: shape} }
	all := groups([]buffers.Leaf{leaf("h.0.a", 2, 2), leaf("h.0.b", 100, 1), leaf("h.1.a", 2, 2), leaf("h.10.n", 1000), leaf("w", 3, 3)}, 2)
	require.Len(t, all, 2)
	assert.Equal(t, "h.*.b", all[0].label)
	assert.Equal(t, "w", all[1].label)
	assert.Equal(t, []group{{label: "n", leaves: []buffers.Leaf{leaf("n", 5)}, elements: 5}}, groups([]buffers.Leaf{leaf("n", 5)}, 4))
}
