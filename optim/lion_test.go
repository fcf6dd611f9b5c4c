package optim

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/internal/gputest"
)

func TestLionByHand(t *testing.T) {
	lion := ScaleByLion(Lion{B1: 0.5, B2: 0.75}, Stable)
	for name, c := range map[string]struct {
		grads []float32
		want  float32 // of a param that began at 10
	}{
		"signs":                   {[]float32{3}, 11},
		"negative":                {[]float32{-1e-30}, 9},
		"zero has none":           {[]float32{0, 0}, 10},
		"cancels to zero":         {[]float32{4, -1}, 11}, // mu is 1: 0.5·(-1) + 0.5·1
		"sign uses the old mu":    {[]float32{4, -1.125}, 10},
		"moment outlives":         {[]float32{4, 0, 0}, 13},
		"the moment decays by b2": {[]float32{4, 0, -0.8}, 11}, // mu is 0.75 by then, not 0.5
	} {
		assert.Equal(t, c.want, after(t, lion, 10, c.grads...), name)
	}
	assert.True(t, math.IsNaN(float64(after(t, lion, 10, float32(math.NaN())))))
}

// Stable numerics have the decay they are given and no other; eformer's decay every leaf by 1e-3 besides, whatever the
// mask says.
func TestLionHasNoHiddenDecay(t *testing.T) {
	params := []buffers.Host{vector("a", 10), vector("b", 10)}
	zero := []buffers.Host{vector("a", 0), vector("b", 0)}
	run := func(o Options) (a, b float32) {
		o.Schedule = rate(0.5)
		twin, err := NewTwin(built(t, "lion", o, ""), params)
		require.NoError(t, err)
		require.NoError(t, twin.Update(zero))
		return twin.Params()[0].Data[0], twin.Params()[1].Data[0]
	}
	only := MaskPatterns("a")
	a, b := run(Options{})
	assert.Equal(t, [2]float32{10, 10}, [2]float32{a, b})
	a, b = run(Options{WeightDecay: 0.2, WeightDecayMask: only})
	assert.Equal(t, [2]float32{9, 10}, [2]float32{a, b})
	a, b = run(Options{WeightDecay: 0.2, WeightDecayMask: only, Numerics: EFormer})
	assert.InDeltaSlice(t, []float32{9 - 0.005, 10 - 0.005}, []float32{a, b}, 1e-6)
}

// Gradients of few bits make every sum exact, so that signs are the same on both sides, even for exact zeros.
func TestLionFollowsTheTwin(t *testing.T) {
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		tx := Chain(ScaleByLion(Lion{B1: 0.5, B2: 0.75}, Stable), ScaleByLearningRate(Constant(0.125)))
		r := rand.New(rand.NewPCG(31, 32))
		params := randomTree(r, oddSpecs, 1)
		dev := newRig(t, d, tx, params, buffers.F32)
		twin, err := NewTwin(tx, params)
		require.NoError(t, err)
		zeros := 0
		for range 4 {
			grads := randomTree(r, oddSpecs, 1)
			for _, h := range grads {
				for i, x := range h.Data {
					h.Data[i] = float32(math.Round(float64(x)))
				}
			}
			before := dev.download(dev.params)
			dev.call(grads)
			require.NoError(t, twin.Update(grads))
			after := dev.download(dev.params)
			sameBits(t, twin.Params(), after)
			sameBits(t, twin.State("mu"), dev.download(dev.state.Trees()[0].Tree))
			for i := range after {
				for k := range after[i].Data {
					if before[i].Data[k] == after[i].Data[k] {
						zeros++
					}
				}
			}
		}
		assert.Greater(t, zeros, 1000)
	}, small)
}

// A bf16 moment is rounded at random in stable numerics and to nearest in eformer's, which rounds the decays and products as well.
func TestLionBF16Moment(t *testing.T) {
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		run := func(n Numerics) (got, want []float32) {
			tx := ScaleByLion(Lion{B1: 0.9, B2: 0.99, MuDType: "bf16"}, n)
			r := rand.New(rand.NewPCG(33, 34))
			start := randomTree(r, oddSpecs, 1)
			dev := newRig(t, d, tx, start, buffers.F32)
			twin, err := NewTwin(tx, start)
			require.NoError(t, err)
			for range 3 {
				grads := randomTree(r, oddSpecs, 1)
				dev.call(grads)
				require.NoError(t, twin.Update(grads))
			}
			for _, h := range twin.State("mu") {
				if h.Path == "w.split" {
					want = h.Data
				}
			}
			return dev.tensors()["mu/w.split"], want
		}
		for _, n := range []Numerics{Stable, EFormer} {
			got, want := run(n)
			require.NotEmpty(t, want)
			differing := 0
			for i := range want {
				require.InDelta(t, want[i], got[i], 1e-3) // a bf16 of the largest, 0.1
				require.Zero(t, math.Float32bits(got[i])&0xffff)
				if got[i] != want[i] {
					differing++
				}
			}
			assert.Less(t, differing, len(want)/200, "the same rounding on both sides")
		}
	}, small)
	// With b2 = 0.99, eformer multiplies by the nearest bf16, 0.98828125; the moment of constant gradients ends at (1-b2)/(1-0.98828125).
	moment := func(n Numerics) float32 {
		tx := ScaleByLion(Lion{B1: 0.9, B2: 0.99, MuDType: "bf16"}, n)
		ones := make([]float32, 256)
		for i := range ones {
			ones[i] = 1
		}
		twin, err := NewTwin(tx, []buffers.Host{vector("w", ones...)})
		require.NoError(t, err)
		sum := float32(0)
		for range 1000 {
			require.NoError(t, twin.Update([]buffers.Host{vector("w", ones...)}))
		}
		for _, x := range twin.State("mu")[0].Data {
			sum += x / 256
		}
		return sum
	}
	assert.InDelta(t, 1, moment(Stable), 0.01)
	assert.Less(t, moment(EFormer), float32(0.9))
}
