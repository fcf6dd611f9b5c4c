package optim

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/gpu"
)

// vector is a leaf of one dimension.
func vector(path string, data ...float32) buffers.Host {
	return buffers.Host{Path: path, Shape: []int{len(data)}, Data: data}
}

// after gives the param "w" after calls with these gradients.
func after(t *testing.T, tx Transform, w float32, grads ...float32) float32 {
	twin, err := NewTwin(tx, []buffers.Host{vector("w", w)})
	require.NoError(t, err)
	for _, g := range grads {
		require.NoError(t, twin.Update([]buffers.Host{vector("w", g)}))
	}
	return twin.Params()[0].Data[0]
}

func TestTransformsByHand(t *testing.T) {
	nothing := Adam{}
	for name, c := range map[string]struct {
		tx    Transform
		grads []float32
		want  float64 // of a param that began at 10
	}{
		"empty chain":           {Chain(), []float32{1, 2}, 13},
		"scale":                 {Scale(-2), []float32{1, 2}, 4},
		"order":                 {Chain(Scale(2), AddDecayedWeights(1, nil)), []float32{1}, 22},
		"other order":           {Chain(AddDecayedWeights(1, nil), Scale(2)), []float32{1}, 32},
		"trace":                 {Trace(0.5, false), []float32{1, 1, 0}, 10 + 1 + 1.5 + 0.75},
		"nesterov":              {Trace(0.5, true), []float32{1, 1}, 10 + 1.5 + 1.75},
		"rate before increment": {ScaleByLearningRate(Linear(1, 0, 2)), []float32{1, 1, 1}, 10 - 1 - 0.5},
		"scheduled decay":       {AddScheduledDecay(Linear(1, 0, 2), 0.5, nil), []float32{0, 0}, 10 - 5 - 0.25*5},
		"decay of p before":     {Chain(Scale(-1), AddScheduledDecay(Constant(1), 0.5, nil)), []float32{4}, 10 - 4 - 5},
		"adam, sign":            {Chain(ScaleByAdam(nothing, Stable), Scale(-1)), []float32{3, -7}, 10},
		"adam, step 1":          {ScaleByAdam(Adam{B1: 0.9, B2: 0.999}, Stable), []float32{-5}, 9},
		"adam, eps outside":     {ScaleByAdam(Adam{B1: 0.9, B2: 0.99, Eps: 1}, Stable), []float32{1}, 10.5},
		"adam, eps inside":      {ScaleByAdam(Adam{B1: 0.9, B2: 0.99, EpsRoot: 3}, Stable), []float32{1}, 10.5},
		"adam, nesterov":        {ScaleByAdam(Adam{B1: 0.5, B2: 0.5, Nesterov: true}, Stable), []float32{1}, 10 + 0.5*0.5/0.75 + 1},
		"clip":                  {ClipByGlobalNorm(2), []float32{4, -8, 1.5}, 10 + 2 - 2 + 1.5},
		"clip at the norm":      {ClipByGlobalNorm(3), []float32{3}, 13},
		"clip stage-local":      {ClipStageLocal(2), []float32{4, 1}, 10 + 4*2/(4+1e-6) + 1},
		"accumulate":            {Accumulate(3, Scale(1)), []float32{1, 2, 6, 5, 5}, 13},
		"accumulate one":        {Accumulate(1, Scale(1)), []float32{1, 2}, 13},
		"clip of the mean":      {Accumulate(2, ClipByGlobalNorm(2)), []float32{10, -4, 1, 2}, 10 + 2 + 1.5},
		"counts of updates":     {Accumulate(2, ScaleByLearningRate(Linear(1, 0, 2))), []float32{1, 1, 1, 1}, 10 - 1 - 0.5},
	} {
		assert.InDelta(t, c.want, after(t, c.tx, 10, c.grads...), 3e-6, name)
	}
}

func TestSkipNonFinite(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	sum := Chain(Trace(0.5, false))
	assert.True(t, math.IsNaN(float64(after(t, sum, 10, 1, nan))))
	assert.InDelta(t, 12.5, after(t, SkipNonFinite(sum), 10, 1, nan, 1), 1e-6, "trace stands still")
	assert.InDelta(t, 11, after(t, SkipNonFinite(sum), 10, 1, inf), 1e-6)
	// A window with such a gradient is dropped whole and leaves nothing behind; without skipping it reaches params once.
	windows := Accumulate(2, SkipNonFinite(Scale(1)))
	assert.InDelta(t, 10+2+4, after(t, windows, 10, 1, 3, nan, 5, 4, 4), 1e-6)
	twin, err := NewTwin(windows, []buffers.Host{vector("w", 10)})
	require.NoError(t, err)
	for _, g := range []float32{1, nan} {
		require.NoError(t, twin.Update([]buffers.Host{vector("w", g)}))
	}
	assert.Equal(t, []float32{0}, twin.State("acc")[0].Data, "exact zeros")
	assert.Equal(t, uint32(1), twin.Statistics().Skipped)
	assert.True(t, twin.Statistics().NonFinite)
}

func TestMasksAndRates(t *testing.T) {
	params := []buffers.Host{
		{Path: "wte", Shape: []int{1, 1}, Data: []float32{1}}, vector("h.0.bias", 1), {Path: "h.0.w", Shape: []int{1, 1}, Data: []float32{1}}, {Path: "scale", Data: []float32{1}},
	}
	decayed := func(mask *Mask, rates ...PathRate) map[string]float32 {
		twin, err := NewTwin(AddScheduledDecay(Constant(0.5), 0.5, mask, rates...), params)
		require.NoError(t, err)
		require.NoError(t, twin.Update([]buffers.Host{
			{Path: "wte", Data: []float32{0}}, vector("h.0.bias", 0), {Path: "h.0.w", Data: []float32{0}}, {Path: "scale", Data: []float32{0}},
		}))
		out := map[string]float32{}
		for _, h := range twin.Params() {
			out[h.Path] = h.Data[0]
		}
		return out
	}
	const no, yes = 1, 0.75
	assert.Equal(t, map[string]float32{"wte": yes, "h.0.bias": yes, "h.0.w": yes, "scale": yes}, decayed(nil))
	assert.Equal(t, map[string]float32{"wte": yes, "h.0.bias": no, "h.0.w": yes, "scale": no}, decayed(MaskMatrices()))
	assert.Equal(t, map[string]float32{"wte": no, "h.0.bias": yes, "h.0.w": yes, "scale": yes}, decayed(MaskPatterns(`^h\.`, "scale$")))
	assert.Equal(t, map[string]float32{"wte": no, "h.0.bias": no, "h.0.w": no, "scale": no}, decayed(MaskPatterns()), "an empty list chooses nothing")
	assert.Equal(t, map[string]float32{"wte": yes, "h.0.bias": no, "h.0.w": no, "scale": yes},
		decayed(MaskPaths(map[string]bool{"wte": true, "h.0.bias": false, "h.0.w": false, "scale": true})))
	rates := []PathRate{{Pattern: "bias", Multiplier: 2}, {Pattern: `^h\.`, Multiplier: 0}}
	assert.Equal(t, map[string]float32{"wte": yes, "h.0.bias": 0.5, "h.0.w": no, "scale": yes}, decayed(nil, rates...), "the first match holds")

	for want, tx := range map[string]Transform{
		`mask: pattern "bais": matches none of the 4 paths`:        AddDecayedWeights(1, MaskPatterns("w", "bais")),
		"mask: pattern \"(\": error parsing":                       AddDecayedWeights(1, MaskPatterns("(")),
		`mask: path "wt": found no such leaf, did you mean "wte"?`: AddDecayedWeights(1, MaskPaths(map[string]bool{"wt": true})),
		`mask: leaf "h.0.bias": found no entry`:                    AddDecayedWeights(1, MaskPaths(map[string]bool{"wte": true})),
		`rates: pattern "x": matches none`:                         ScaleByLearningRate(Constant(1), PathRate{Pattern: "x"}),
		`rates: pattern "w": found multiplier -1`:                  ScaleByLearningRate(Constant(1), PathRate{Pattern: "w", Multiplier: -1}),
	} {
		_, err := NewTwin(tx, params)
		assert.ErrorContains(t, err, want)
	}
	// A stage has a part of the paths that rules speak of.
	whole := []buffers.Spec{{Path: "wte"}, {Path: "h.0.bias"}, {Path: "h.0.w"}, {Path: "scale"}}
	_, err := NewTwin(AddDecayedWeights(1, MaskPatterns("scale")), params[:1], whole...)
	assert.NoError(t, err)
}

func TestConstructionErrorsComeOut(t *testing.T) {
	ok := Scale(1)
	for want, tx := range map[string]Transform{
		"clip_by_global_norm: max: found 0":              Chain(ok, ClipByGlobalNorm(0)),
		"clip_stage_local: max: found -1":                SkipNonFinite(ClipStageLocal(-1)),
		"trace: decay: found 1":                          Accumulate(2, Trace(1, false)),
		"scale_by_adam: b2: found 1":                     ScaleByAdam(Adam{B2: 1}, Stable),
		"scale_by_adam: mu_dtype: found \"u32\"":         ScaleByAdam(Adam{MuDType: "u32"}, Stable),
		"accumulate: calls an update: found 0":           Accumulate(0, ok),
		"accumulate: inner: found accumulate":            Accumulate(2, Accumulate(2, ok)),
		"chain: part 1: found accumulate(scale) inside":  Chain(ok, Accumulate(2, ok)),
		"chain: part 0: found skip_non_finite(scale)":    Chain(SkipNonFinite(ok)),
		"skip_non_finite: inner: found accumulate(scale": SkipNonFinite(Accumulate(2, ok)),
	} {
		_, err := NewTwin(tx, nil)
		assert.ErrorContains(t, err, want)
		_, err = tx.Bytes(&buffers.Layout{}, gpu.DefaultLimits())
		assert.ErrorContains(t, err, want)
	}
	assert.Equal(t, "accumulate(skip_non_finite(chain(scale, trace)))",
		Accumulate(2, SkipNonFinite(Chain(ok, Trace(0.5, true)))).Name())
}

func TestTwinRefusesOtherLeaves(t *testing.T) {
	twin, err := NewTwin(Scale(1), []buffers.Host{vector("a", 1, 2), vector("b", 1)})
	require.NoError(t, err)
	assert.ErrorContains(t, twin.Update([]buffers.Host{vector("a", 1), vector("b", 1)}), `leaf "a": found 1 elements`)
	assert.ErrorContains(t, twin.Update([]buffers.Host{vector("a", 1, 2)}), `leaf "b": found none`)
	assert.ErrorContains(t, twin.Update([]buffers.Host{vector("c", 1, 2)}), `leaf "c"`)
	assert.Nil(t, twin.State("mu"))
}

// Trees of one name are counted from 2, as checkpoints have them.
func TestNamesOfState(t *testing.T) {
	tx := Chain(Trace(0.9, false), Trace(0.5, false), Trace(0.1, false))
	twin, err := NewTwin(tx, []buffers.Host{vector("w", 0, 0)})
	require.NoError(t, err)
	var names []string
	for _, h := range twin.Tensors() {
		names = append(names, h.Path)
	}
	assert.Equal(t, []string{"trace/w", "trace_2/w", "trace_3/w"}, names)
}
