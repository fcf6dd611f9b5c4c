package optim

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/internal/gputest"
)

// whitenSpecs are a leaf of each kind with a max_size_dense of 30.
var whitenSpecs = []buffers.Spec{
	{Path: "both", Shape: []int{33, 35}},
	{Path: "dense", Shape: []int{19, 11}},
	{Path: "left", Shape: []int{41, 9}},
	{Path: "right", Shape: []int{5, 2, 31}},
	{Path: "scanned", Shape: []int{2, 3, 5}},
	{Path: "vector", Shape: []int{37}},
}

func TestWhitenedGradientsFollowTheTwin(t *testing.T) {
	clip := 1.0
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		for name, c := range map[string]struct {
			optimizer, parameters string
			options               Options
			allowed               float64
		}{
			"quad":       {"quad", `"refresh":{"every":2},"scanned_layers":["scanned"]`, Options{ClipGrad: &clip, WeightDecay: 0.1}, 2e-4},
			"skew":       {"skew", `"normalize_grads":true`, Options{AccumulationSteps: 2, ClipGrad: &clip}, 2e-4},
			"normalized": {"quad", `"normalize_grads":true,"dtype":"bf16"`, Options{Numerics: EFormer}, 0x1p-5},
			"skipping":   {"quad", `"normalize_grads":true`, Options{SkipNonFinite: true, MeasureNorm: true}, 2e-4},
		} {
			t.Run(name, func(t *testing.T) {
				c.options.Schedule = rate(0.05)
				tx := built(t, c.optimizer, c.options, `{"block_size":16,"max_size_dense":30,"whiten":"gradient",`+c.parameters+`}`)
				followTwin(t, d, tx, whitenSpecs, 4, tolerance{c.allowed, c.allowed}, tolerance{c.allowed, c.allowed})
			})
		}
	}, small)
}

// Momentum is the default, without a momentum both are one, and with one they are two.
func TestWhitenIsMomentumUnlessSaid(t *testing.T) {
	d := gputest.Device(t, small)
	after := func(parameters string) []buffers.Host {
		r := rand.New(rand.NewPCG(51, 52))
		rig := newRig(t, d, built(t, "quad", Options{Schedule: rate(0.05)}, `{"block_size":16`+parameters+`}`), randomTree(r, whitenSpecs, 1), buffers.F32)
		for range 3 {
			rig.call(randomTree(r, whitenSpecs, 0.1))
		}
		return rig.download(rig.params)
	}
	sameBits(t, after(``), after(`,"whiten":"momentum"`))
	sameBits(t, after(`,"b1":0`), after(`,"b1":0,"whiten":"gradient"`))
	assert.NotEqual(t, after(``), after(`,"whiten":"gradient"`))
}

// A block without a gradient keeps its factors, and so it does where it has a momentum.
func TestWhitenedGradientsLeaveDeadBlocksAlone(t *testing.T) {
	d := gputest.Device(t, small)
	specs := []buffers.Spec{{Path: "a", Shape: []int{12, 4}}, {Path: "b", Shape: []int{4, 12}}}
	rig := newRig(t, d, built(t, "quad", Options{Schedule: rate(0.05)}, `{"block_size":16,"whiten":"gradient"}`), randomTree(rand.New(rand.NewPCG(53, 54)), specs, 1), buffers.F32)
	for call := range 3 {
		grads := randomTree(rand.New(rand.NewPCG(55, uint64(call))), specs, 0.1)
		if call != 1 {
			clear(grads[0].Data)
		}
		before := rig.tensors()["dense/Ql"]
		params := rig.download(rig.params)[0]
		rig.call(grads)
		after := rig.tensors()["dense/Ql"]
		half := len(after) / 2
		if call == 1 {
			assert.NotEqual(t, before[:half], after[:half])
		} else {
			assert.Equal(t, before[:half], after[:half], call)
		}
		assert.NotEqual(t, before[half:], after[half:])
		if call == 0 {
			sameBits(t, []buffers.Host{params}, rig.download(rig.params)[:1])
		}
	}
}
