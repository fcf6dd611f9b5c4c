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

func adamw(t testing.TB, o Options) Transform {
	return built(t, "adamw", o, "")
}

func rate(lr float64) ScheduleConfig { return ScheduleConfig{LearningRate: lr} }

func TestDispatches(t *testing.T) {
	d := gputest.Device(t, small)
	params := randomTree(rand.New(rand.NewPCG(1, 1)), oddSpecs, 1)
	clip := 1.0
	for name, c := range map[string]struct {
		options Options
		emit    func(slabs int) int
		collect func(slabs int) int
	}{
		"plain":      {Options{Schedule: rate(1), WeightDecay: 0.1, WeightDecayMask: MaskMatrices()}, func(n int) int { return n }, nil},
		"norm":       {Options{Schedule: rate(1), ClipGrad: &clip, MeasureNorm: true, SkipNonFinite: true}, func(n int) int { return 2*n + 2 }, nil},
		"accumulate": {Options{Schedule: rate(1), ClipGrad: &clip, AccumulationSteps: 3}, func(n int) int { return 2*n + 2 }, func(n int) int { return n }},
	} {
		r := newRig(t, d, adamw(t, c.options), params, buffers.F32)
		slabs := len(r.params.Layout().Slabs())
		require.Greater(t, slabs, 2)
		assert.Equal(t, c.emit(slabs), r.programs[Emit].Dispatches(), name)
		if c.collect != nil {
			assert.Equal(t, c.collect(slabs), r.programs[Collect].Dispatches(), name)
		}
	}
}

// sameBits tells -0 from 0, and takes a NaN for any NaN: its sign and payload come from the operand that is first in
// the driver's code, and kernels with texels and without may order operands differently.
func sameBits(t testing.TB, want, got []buffers.Host) {
	require.Len(t, got, len(want))
	for i, w := range want {
		require.Equal(t, w.Path, got[i].Path)
		require.Len(t, got[i].Data, len(w.Data))
		for k, v := range w.Data {
			if g := got[i].Data[k]; math.Float32bits(v) != math.Float32bits(g) && (v == v || g == g) {
				require.Fail(t, "other bits", "%s[%d]: found %g, wanted %g", w.Path, k, g, v)
			}
		}
	}
}

func TestTwoRunsHaveTheSameBits(t *testing.T) {
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		clip := 0.5
		tx := built(t, "adamw", Options{Schedule: rate(0.1), ClipGrad: &clip, WeightDecay: 0.1, Rates: []PathRate{{Pattern: "w", Multiplier: 2}}}, `{"mu_dtype":"bf16"}`)
		run := func() map[string][]buffers.Host {
			r := rand.New(rand.NewPCG(7, 7))
			rig := newRig(t, d, tx, randomTree(r, oddSpecs, 1), buffers.F32)
			for range 3 {
				rig.call(randomTree(r, oddSpecs, 1))
			}
			return rig.everything()
		}
		first, second := run(), run()
		for name := range first {
			sameBits(t, first[name], second[name])
		}
	}, small)
}

func TestSetCountsRefuses(t *testing.T) {
	d := gpu.Dry(gpu.DefaultLimits())
	params, err := buffers.NewTree(d, "params", layoutOf(t, d), buffers.F32)
	require.NoError(t, err)
	s, err := adamw(t, Options{AccumulationSteps: 2}).Init(params)
	require.NoError(t, err)
	counts := s.Counts()
	assert.Equal(t, map[string]int64{"updates": 0, "mini_step": 0, "scale_by_adam": 0, "scale_by_learning_rate": 0}, counts)
	counts["scale_by_adam"] = -1
	assert.ErrorContains(t, s.SetCounts(counts), `"scale_by_adam": found -1`)
	counts = s.Counts()
	counts["mini_step"] = 2
	assert.ErrorContains(t, s.SetCounts(counts), "less than the 2 calls")
	counts = s.Counts()
	counts["other"] = 2
	assert.ErrorContains(t, s.SetCounts(counts), `found "other"`)
	delete(counts, "other")
	delete(counts, "updates")
	assert.ErrorContains(t, s.SetCounts(counts), `"updates"`)
}

func layoutOf(t testing.TB, d *gpu.Device) *buffers.Layout {
	layout, err := buffers.NewLayout(oddSpecs, d.Limits())
	require.NoError(t, err)
	return layout
}

// A gradient that is not a number in one of k calls drops that window, leaves an accumulation of zeros and no trace in
// the next.
func TestAccumulationForgetsNaN(t *testing.T) {
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		tx := adamw(t, Options{Schedule: rate(0.1), SkipNonFinite: true, AccumulationSteps: 2})
		r := rand.New(rand.NewPCG(10, 10))
		params := randomTree(r, oddSpecs, 1)
		rig := newRig(t, d, tx, params, buffers.F32)
		bad, good := randomTree(r, oddSpecs, 1), randomTree(r, oddSpecs, 1)
		bad[6].Data[5] = float32(math.NaN())
		rig.call(bad)
		rig.call(good)
		want := rig.everything()
		for _, h := range want["acc"] {
			for _, v := range h.Data {
				require.Zero(t, math.Float32bits(v))
			}
		}
		sameBits(t, newRig(t, d, Chain(), params, buffers.F32).everything()["params"], want["params"])
		rig.call(good)
		rig.call(good)
		assert.False(t, rig.statistics().NonFinite)
		for _, h := range rig.download(rig.params) {
			for _, v := range h.Data {
				require.False(t, math.IsNaN(float64(v)))
			}
		}
	}, small)
}

func TestClipKeepsBitsBelowAndDividesFromTheNormOn(t *testing.T) {
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		grads := []buffers.Host{vector("a", 3, 0, 0, 0, 0), vector("b", 0, 4)}
		zero := []buffers.Host{vector("a", 0, 0, 0, 0, 0), vector("b", 0, 0)}
		for _, c := range []struct {
			max  float64
			want float32
		}{{5.0001, 3}, {5, 3}, {4.9999, 2.99994}, {2.5, 1.5}} {
			rig := newRig(t, d, ClipByGlobalNorm(c.max), zero, buffers.F32)
			rig.call(grads)
			got := rig.download(rig.params)[0].Data[0]
			assert.Equal(t, float32(5), rig.statistics().Norm)
			assert.Equal(t, float32(25), rig.statistics().SumOfSquares)
			if c.max > 5 {
				assert.Equal(t, c.want, got, "every bit")
			} else {
				assert.InEpsilon(t, c.want, got, 3e-7)
			}
		}
	})
}

// At the norm itself the gradient is divided and multiplied, as optax does, which is not the same in every bit.
func TestClipAtTheNormDivides(t *testing.T) {
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		rig := newRig(t, d, ClipByGlobalNorm(85), []buffers.Host{vector("a", 0, 0)}, buffers.F32)
		rig.call([]buffers.Host{vector("a", 13, 84)})
		require.Equal(t, float32(85), rig.statistics().Norm)
		got, exact := rig.download(rig.params)[0].Data[0], float32(13)
		assert.InEpsilon(t, exact, got, 3e-7)
		if d.Limits().Software { // others may divide by 2.5 units in the last place
			assert.NotEqual(t, exact, got)
		}
	})
}

func TestTreeWithoutElements(t *testing.T) {
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		clip := 1.0
		tx := adamw(t, Options{Schedule: rate(0.1), ClipGrad: &clip, AccumulationSteps: 2})
		params := []buffers.Host{{Path: "empty", Shape: []int{0, 3}, Data: []float32{}}}
		rig := newRig(t, d, tx, params, buffers.F32)
		for range 2 {
			rig.call(params)
		}
		assert.Equal(t, Statistics{}, rig.statistics())
	})
}

// What lies between leaves stays zero, and is not counted if it should not be.
func TestPadding(t *testing.T) {
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		params := []buffers.Host{vector("a", 1, 2, 3), vector("b", 1, 1, 1, 1, 1)}
		// Without eps the update of an element with a gradient of zero is 0/0.
		rig := newRig(t, d, Chain(globalNorm(), ScaleByAdam(Adam{B1: 0.9, B2: 0.9}, Stable)), params, buffers.F32)
		image := make([]byte, rig.grads.Slab(0).Bytes)
		for i := range image {
			image[i] = 0xff // NaN everywhere
		}
		require.NoError(t, d.Write(rig.grads.Slab(0), image))
		require.NoError(t, rig.grads.Write("a", []float32{3, 0, 0}))
		require.NoError(t, rig.grads.Write("b", []float32{0, 0, 0, 0, 4}))
		_, err := rig.state.Prepare()
		require.NoError(t, err)
		require.NoError(t, rig.programs[Emit].Submit(t.Context()))
		assert.Equal(t, float32(5), rig.statistics().Norm)
		for _, tree := range []*buffers.Tree{rig.params, rig.state.Trees()[0].Tree, rig.state.Trees()[1].Tree} {
			require.NoError(t, d.Read(t.Context(), image, tree.Slab(0)))
			for i, b := range image {
				element := i / 4
				if inside := element < 3 || element >= 128 && element < 133; !inside {
					require.Zero(t, b, "element %d", element)
				}
			}
		}
	})
}

func TestUpdateRefuses(t *testing.T) {
	d, other := gpu.Dry(gpu.DefaultLimits()), gpu.Dry(gpu.DefaultLimits())
	tree := func(d *gpu.Device, dtype buffers.DType, specs ...buffers.Spec) *buffers.Tree {
		layout, err := buffers.NewLayout(specs, d.Limits())
		require.NoError(t, err)
		tree, err := buffers.NewTree(d, "t", layout, dtype)
		require.NoError(t, err)
		return tree
	}
	a, b := buffers.Spec{Path: "a", Shape: []int{2, 3}}, buffers.Spec{Path: "b", Shape: []int{4}}
	params := tree(d, buffers.F32, a, b)
	tx := Chain(ClipByGlobalNorm(1), Scale(2), ClipByGlobalNorm(1))
	s, err := tx.Init(params)
	require.NoError(t, err)
	rec := d.Record("test")
	for want, grads := range map[string]*buffers.Tree{
		`grads: leaf "b" is missing`:                  tree(d, buffers.F32, a),
		`grads: leaf "c" is not one`:                  tree(d, buffers.F32, a, b, buffers.Spec{Path: "c"}),
		`grads: leaf "a": shape [3 2] does not match`: tree(d, buffers.F32, buffers.Spec{Path: "a", Shape: []int{3, 2}}, b),
		"grads: dtype i32":                            tree(d, buffers.I32, a, b),
		"grads: found a tree of another device":       tree(other, buffers.F32, a, b),
	} {
		assert.ErrorContains(t, tx.Update(rec, grads, s, params), want)
	}
	grads := tree(d, buffers.F32, a, b)
	assert.ErrorContains(t, tx.Record(rec, Collect, grads, s, params), "needs an accumulation")
	assert.ErrorContains(t, tx.RecordRound(rec, Collect, 0, grads, s, params), "needs an accumulation")
	assert.ErrorContains(t, tx.RecordRound(rec, Reuse, 0, grads, s, params), "nothing to reuse")
	assert.ErrorContains(t, tx.RecordRound(rec, Emit, 3, grads, s, params), "round: found 3 of emit, wanted one of 0 to 2")
	assert.ErrorContains(t, tx.RecordRound(rec, Emit, -1, grads, s, params), "round: found -1")
	stage, err := tx.InitStage(params, []buffers.Spec{b, {Path: "c"}, a})
	require.NoError(t, err)
	assert.ErrorContains(t, tx.Update(rec, grads, stage, params), "state: found 2 of the 3 leaves of a model whose norm is measured")
	_, err = tx.InitStage(params, []buffers.Spec{a, {Path: "b", Shape: []int{5}}})
	assert.ErrorContains(t, err, `params: leaf "b" of shape [4]: found no such leaf in the whole model of 2`)
	assert.ErrorContains(t, Scale(1).Update(rec, grads, s, params), "state: found that of chain(")
	_, err = tx.Init(tree(d, buffers.U32, a))
	assert.ErrorContains(t, err, "params: dtype u32")
	require.NoError(t, tx.Update(rec, grads, s, params))
	assert.NoError(t, rec.Err())
	_, err = ParseStatistics(make([]byte, 15))
	assert.ErrorContains(t, err, "found 15 bytes")
}
