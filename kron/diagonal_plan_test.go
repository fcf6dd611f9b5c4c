package kron

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/buffers/prng"
	"gputrain/gpu"
	"gputrain/internal/gputest"
)

// The dense sides draw with k1 of their blocks, Skew with its two halves.
func TestKeysOfDenseSides(t *testing.T) {
	gputest.Each(t, func(t *testing.T, dev *gpu.Device) {
		for name, config := range some("quad f32 eformer", "skew f32 stable") {
			t.Run(name, func(t *testing.T) {
				leaves := []Leaf{{Path: "a", Shape: []int{4, 30}}, {Path: "b", Shape: []int{2, 30, 5}, Scanned: true}}
				r := newPathRig(t, dev, newDiagonals, config, leaves, nil)
				r.update(r.gradients(rand.New(rand.NewPCG(1, 1))), false, false)
				read := func(b *gpu.Buffer) []uint32 {
					raw := make([]byte, b.Bytes())
					require.NoError(t, dev.Read(t.Context(), raw, b.All()))
					var out []uint32
					for ; len(raw) > 0; raw = raw[4:] {
						out = append(out, binary.LittleEndian.Uint32(raw))
					}
					return out
				}
				// The batch of the scanned leaf is the last one.
				one := r.path.(*diagonalPath).one
				var bounds, turns []uint32
				for i := range 2 {
					key := prng.NewKey(44).FoldIn(1)
					if config.Rules.IndependentNoise {
						key = key.FoldIn(1)
					}
					key = key.Split(2)[i].Split(2)[0]
					if config.Method == Skew {
						halves := key.Split(2)
						key, turns = halves[0], append(turns, halves[1][:]...)
					}
					bounds = append(bounds, key[:]...)
				}
				assert.Equal(t, bounds, read(one.scratch.boundKeys))
				if config.Method == Skew {
					assert.Equal(t, turns, read(one.scratch.turnKeys))
				}
			})
		}
	})
}

// The number of dispatches depends on kinds, slabs and shapes, and not on the number of leaves. Plans on a dry device
// are the same as on a real one.
func TestDispatchesOfManyLeaves(t *testing.T) {
	for name, config := range configs() {
		t.Run(name, func(t *testing.T) {
			dispatches := func(layers int) (vectors, diagonals int) {
				var leaves []Leaf
				for i := range layers {
					for k, shape := range [][]int{{33}, {7}, {40, 37}, {50, 13}, {11, 45}} {
						leaves = append(leaves, Leaf{Path: fmt.Sprintf("%02d.%d", i, k), Shape: shape})
					}
				}
				r := newPathRig(t, gpu.Dry(gpu.Limits{}), newVectors, config, leaves, nil)
				vectors = r.program(false).Dispatches()
				r = newPathRig(t, gpu.Dry(gpu.Limits{}), newDiagonals, config, leaves, nil)
				return vectors, r.program(false).Dispatches()
			}
			v1, d1 := dispatches(1)
			v, d := dispatches(40)
			assert.Equal(t, []int{v1, d1}, []int{v, d})
			want := 4 // T, L, q, u
			if config.Rules.RelativeDamping {
				want += 2
			}
			assert.Equal(t, want, v)
		})
	}
	gputest.Each(t, func(t *testing.T, dev *gpu.Device) {
		for _, c := range pathCases {
			dry := newPathRig(t, gpu.Dry(dev.Limits()), c.make, configs()["skew bf16 stable"], c.leaves, nil)
			there := newPathRig(t, dev, c.make, configs()["skew bf16 stable"], c.leaves, nil)
			assert.Equal(t, there.path.Bytes(), dry.path.Bytes())
			assert.Equal(t, there.program(false).Dispatches(), dry.program(false).Dispatches())
		}
	})
}

// All kinds at once, through the state.
func TestStateOfAllKinds(t *testing.T) {
	gputest.Each(t, func(t *testing.T, dev *gpu.Device) {
		leaves := []Leaf{
			{Path: "a", Shape: []int{13, 7}},
			{Path: "b", Shape: []int{40, 37}},
			{Path: "c", Shape: []int{50, 13}},
			{Path: "d", Shape: []int{11, 45}},
			{Path: "e", Shape: []int{3, 29}, Scanned: true},
			{Path: "f", Shape: []int{2, 9, 5}, Scanned: true},
			{Path: "g"},
		}
		for name, config := range some("quad f32 eformer", "skew f32 stable") {
			t.Run(name, func(t *testing.T) {
				r := newRig(t, dev, config, leaves...)
				kinds := []Kind{Vector, Dense, diagonalBoth, diagonalLeft, diagonalRight}
				for n := int64(1); n <= 4; n++ {
					r.update(n, r.gradientsOf(n, 1), n == 3, 1e-4, "", kinds...)
				}
				raw := r.raw()
				again := newRig(t, dev, config, leaves...)
				again.restore(raw)
				g := r.gradientsOf(5, 1)
				assert.Equal(t, r.run(5, g, false, false), again.run(5, g, false, false))
				assert.Equal(t, r.raw(), again.raw())
			})
		}
	})
}

// What no binding can hold is refused, by leaf and limit.
func TestPathsRefuse(t *testing.T) {
	for _, c := range []struct {
		binding   uint64
		blockSize int
		shape     []int
		want      string
	}{
		{1024, 8, []int{200, 70}, "diagonal factors of a block: 1088 bytes, limit BindingBytes 1024"},
		{4096, 8, []int{100, 100}, "partial sums of a matrix"},
		{1024, 8, []int{260, 4}, "diagonal factors of a block: 1040 bytes"},
		{1024, 100, []int{110, 100}, "a dense factor: 40000 bytes"},
	} {
		config := configs()["quad f32 stable"]
		config.BlockSize, config.MaxSizeDense = c.blockSize, max(16, c.blockSize)
		dev := gpu.Dry(gpu.Limits{BindingBytes: c.binding})
		plan, err := NewPlan([]Leaf{{Path: "leaf", Shape: c.shape}}, config)
		require.NoError(t, err)
		layout, err := buffers.NewLayout([]buffers.Spec{{Path: "leaf", Shape: c.shape}}, dev.Limits())
		require.NoError(t, err)
		_, err = newDiagonals(dev, plan, layout)
		require.ErrorContains(t, err, `leaf "leaf": `+c.want)
		var limit *gpu.LimitError
		assert.ErrorAs(t, err, &limit)
		assert.Zero(t, dev.Counters().LiveBytes, "nothing is left")
	}
}
