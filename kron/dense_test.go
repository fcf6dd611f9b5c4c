package kron

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/internal/gputest"
)

// denseLeaves are matrices of all kinds in blocks of 16: odd remainders, smaller than a block, merged, scanned, several slabs.
var denseLeaves = []Leaf{
	{Path: "a.odd", Shape: []int{33, 47}},
	{Path: "b.small", Shape: []int{3, 5}},
	{Path: "c.merged", Shape: []int{5, 4, 3, 2}},
	{Path: "d.scanned", Shape: []int{3, 9, 21}, Scanned: true},
}

func denseConfig(method Method, dtype buffers.DType, rules Rules) Config {
	return Config{
		Method: method, BlockSize: 16, MaxSizeDense: 20000, PreconditionerLR: 0.7, InitScale: 1.25, DType: dtype,
		NoiseScale: 1e-3, Damping: 1e-2, Rules: rules,
	}
}

// everyRule is none, all, and each alone.
func everyRule() map[string]Rules {
	return map[string]Rules{
		"eformer": {}, "stable": Stable(), "aligned": {AlignedBound: true}, "floor": {NoRateFloor: true}, "halved": {HalvedPair: true},
		"damping": {RelativeDamping: true}, "independent": {IndependentNoise: true}, "stochastic": {StochasticRounding: true},
	}
}

func TestDenseFollowsTheTwin(t *testing.T) {
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		for _, method := range []Method{Quad, Skew} {
			for name, rules := range everyRule() {
				t.Run(fmt.Sprint(method, " ", name), func(t *testing.T) {
					r := newRig(t, d, denseConfig(method, buffers.F32, rules), denseLeaves...)
					for n := int64(1); n <= 3; n++ {
						r.update(n, r.gradientsOf(n, 0.1), false, 2e-5, "dense/", Dense)
					}
					r.update(4, r.gradientsOf(4, 0.1), true, 2e-5, "dense/", Dense)
					r.update(100, r.gradientsOf(5, 1), false, 2e-5, "dense/", Dense)
				})
			}
		}
	})
}

// TestDenseDamping has gradients of all sizes, and blocks that are dead: these keep their factors.
func TestDenseDamping(t *testing.T) {
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		for _, method := range []Method{Quad, Skew} {
			for _, scale := range []float64{1e-26, 1e-14, 1e13} {
				r := newRig(t, d, denseConfig(method, buffers.F32, Stable()), denseLeaves...)
				g := r.gradientsOf(1, scale)
				clear(g["b.small"])
				r.update(1, g, false, 2e-5, "dense/", Dense)
				g = r.gradientsOf(2, scale)
				for i := range 16 * 47 { // the first row of blocks
					g["a.odd"][i] = 0
				}
				r.update(2, g, false, 2e-5, "dense/", Dense)
			}
			r := newRig(t, d, denseConfig(method, buffers.F32, Stable()), denseLeaves...)
			r.run(1, r.gradientsOf(1, 0.1), false, false)
			before := r.tensors()
			dead := map[string][]float32{}
			for path, data := range r.gradientsOf(1, 1) {
				dead[path] = make([]float32, len(data))
			}
			r.run(2, dead, false, false)
			for name, data := range r.tensors() {
				if name != "dense/rms" {
					assert.Equal(t, before[name], data, name)
					continue
				}
				for i := range data {
					assert.InEpsilon(t, 0.999*before[name][i], data[i], 1e-6)
				}
			}
		}
	})
}

// In bf16 device and twin round to different sides now and then; so each update begins with the twin's state.
func TestDenseInBF16FollowsTheTwin(t *testing.T) {
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		for _, method := range []Method{Quad, Skew} {
			for _, name := range []string{"eformer", "stable"} {
				t.Run(fmt.Sprint(method, " ", name), func(t *testing.T) {
					r := newRig(t, d, denseConfig(method, buffers.BF16, everyRule()[name]), denseLeaves...)
					differ, total := 0, 0
					for _, n := range []int64{1, 2, 3, 100} {
						r.followTwin()
						// One of 2^8, of the largest; the output has the factors four times.
						r.update(n, r.gradientsOf(n, 0.1), false, 0x1p-6, "dense/", Dense)
						got := r.tensors()
						for _, h := range r.twin.Tensors() {
							if h.Path == "dense/Ql" || h.Path == "dense/Qr" {
								for i, w := range h.Data {
									total++
									if got[h.Path][i] != w {
										differ++
									}
								}
							}
						}
					}
					assert.Less(t, differ, total/100, "%d of %d differ: the same random bits on both sides", differ, total)
				})
			}
		}
	})
}

// TestDenseInSlabs has blocks of a leaf in two parts, and two slabs, and chunks of few blocks.
func TestDenseInSlabs(t *testing.T) {
	leaves := []Leaf{{Path: "a", Shape: []int{300, 71}}, {Path: "b", Shape: []int{257, 255}}, {Path: "c", Shape: []int{7, 5000}}}
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		c := denseConfig(Quad, buffers.F32, Stable())
		c.BlockSize = 50
		r := newRig(t, d, c, leaves...)
		require.Greater(t, len(r.tree.Layout().Slabs()), 6)
		require.Greater(t, len(r.state.paths[0].(*dense).chunks), 3)
		for n := int64(1); n <= 2; n++ {
			r.update(n, r.gradientsOf(n, 0.1), false, 2e-5, "dense/", Dense)
		}
		r.update(3, r.gradientsOf(3, 0.1), true, 2e-5, "dense/", Dense)
	}, gputest.WithLimits(gpu.Limits{BindingBytes: 256 << 10, Workgroups: 100}))
}

// TestDenseChunks: one chunk and many have the same bits, in updates that refresh, balance and reuse.
func TestDenseChunks(t *testing.T) {
	elements, most := chunkElements, mostChunks
	t.Cleanup(func() { chunkElements, mostChunks = elements, most })
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		for _, method := range []Method{Quad, Skew} {
			for _, dtype := range []buffers.DType{buffers.F32, buffers.BF16} {
				c := denseConfig(method, dtype, Stable())
				chunkElements, mostChunks = elements, most
				one := newRig(t, d, c, denseLeaves...)
				require.Len(t, one.state.paths[0].(*dense).chunks, 1)
				chunkElements, mostChunks = 1, 2
				many := newRig(t, d, c, denseLeaves...)
				require.Greater(t, len(many.state.paths[0].(*dense).chunks), 1)
				for n := int64(98); n <= 101; n++ {
					g := one.gradientsOf(n, 0.1)
					require.Equal(t, one.run(n, g, n == 99, false), many.run(n, g, n == 99, false), "%s %s, update %d", method, dtype, n)
					require.Equal(t, one.raw(), many.raw())
				}
			}
		}
	})
}

// TestDenseSkips: with the flag set all state keeps every bit, also in an update that balances and with gradients that are not finite.
func TestDenseSkips(t *testing.T) {
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		for _, method := range []Method{Quad, Skew} {
			for _, rules := range []Rules{{}, Stable()} {
				for _, dtype := range []buffers.DType{buffers.F32, buffers.BF16} {
					a := newRig(t, d, denseConfig(method, dtype, rules), denseLeaves...)
					b := newRig(t, d, denseConfig(method, dtype, rules), denseLeaves...)
					g := a.gradientsOf(1, 0.1)
					a.run(1, g, false, false)
					b.run(1, g, false, false)
					before := a.raw()
					bad := a.gradientsOf(2, 0.1)
					bad["a.odd"][5] = float32(math.NaN())
					bad["b.small"][1] = float32(math.Inf(1))
					a.run(100, bad, false, true)
					a.run(101, bad, true, true)
					require.Equal(t, before, a.raw(), "%s %+v", method, rules)
					// What is derived kept its bits as well.
					assert.Equal(t, b.run(2, g, false, false), a.run(2, g, false, false))
					assert.Equal(t, b.raw(), a.raw())
					assert.NotEqual(t, before, a.raw(), "without the flag it moves")
				}
			}
		}
	})
}

// TestDenseRestores: a state that was written into another resumes with the same bits, from any update on.
func TestDenseRestores(t *testing.T) {
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		for _, method := range []Method{Quad, Skew} {
			c := denseConfig(method, buffers.BF16, Stable())
			a, b := newRig(t, d, c, denseLeaves...), newRig(t, d, c, denseLeaves...)
			for n := int64(98); n <= 100; n++ {
				a.run(n, a.gradientsOf(n, 0.1), false, false)
			}
			saved := a.raw()
			b.restore(saved)
			require.Equal(t, saved, b.raw())
			for n := int64(101); n <= 103; n++ {
				reuse := n == 101
				require.Equal(t, a.run(n, a.gradientsOf(n, 0.1), reuse, false), b.run(n, b.gradientsOf(n, 0.1), reuse, false))
				require.Equal(t, a.raw(), b.raw())
			}
			tensors := b.state.Tensors()
			assert.ErrorContains(t, tensors[0].Write(nil), "dense/Ql: 0 bytes, want")
			for _, x := range tensors {
				if x.Name == "dense/valid_rows" {
					saved[x.Name][0]++
					assert.ErrorContains(t, x.Write(saved[x.Name]), "other sizes")
				}
			}
		}
	})
}

// TestDenseBlocksAreIndependent: another gradient of one block changes no bit of the others, their factors or their outputs, and two
// runs have the same bits.
func TestDenseBlocksAreIndependent(t *testing.T) {
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		for _, method := range []Method{Quad, Skew} {
			c := denseConfig(method, buffers.F32, Stable())
			a, b, same := newRig(t, d, c, denseLeaves...), newRig(t, d, c, denseLeaves...), newRig(t, d, c, denseLeaves...)
			m, _ := a.plan.Leaf("a.odd")
			changed := a.plan.BlocksOf(m)[4] // rows 16 to 31, columns 16 to 31
			var outA, outB, outSame map[string][]float32
			for n := int64(1); n <= 2; n++ {
				g := a.gradientsOf(n, 0.1)
				outA, outSame = a.run(n, g, false, false), same.run(n, g, false, false)
				for r := range changed.Rows {
					for col := range changed.Cols {
						g["a.odd"][(changed.Row+r)*m.Cols+changed.Col+col] += 0.5
					}
				}
				outB = b.run(n, g, false, false)
			}
			require.Equal(t, outA, outSame)
			require.Equal(t, a.raw(), same.raw())
			moved := 0
			for path := range outA {
				for i := range outA[path] {
					row, col := i/m.Cols, i%m.Cols
					if path == "a.odd" && row/16 == 1 && col/16 == 1 {
						if outA[path][i] != outB[path][i] {
							moved++
						}
						continue
					}
					require.Equal(t, outA[path][i], outB[path][i], "%s[%d]", path, i)
				}
			}
			require.Greater(t, moved, 200)
			stateA, stateB := a.tensors(), b.tensors()
			for name, x := range stateA {
				size := len(x) / a.plan.DenseBlocks()
				for block := range a.plan.DenseBlocks() {
					was, is := x[block*size:(block+1)*size], stateB[name][block*size:(block+1)*size]
					if block == changed.Stack && !strings.HasPrefix(name, "dense/valid") {
						assert.NotEqual(t, was, is, name)
					} else {
						assert.Equal(t, was, is, name)
					}
				}
			}
		}
	})
}
