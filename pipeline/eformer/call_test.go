package eformer_test

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/optim"
	"gputrain/pipeline/eformer"
	"gputrain/state"
)

var halves = []int{0, 0, 0, 0, 1, 1, 1, 1}

// A gradient that is absent is zero: moments and decay go on, on a stage that has some of them and on one that has none.
func TestStageLocalTakesAbsentGradientsForZero(t *testing.T) {
	devices := several(t, 2)
	clip := 0.5
	for name, o := range map[string]optim.Options{
		"emitted":   {Schedule: optim.ScheduleConfig{LearningRate: 0.05}, ClipGrad: &clip, WeightDecay: 0.1},
		"collected": {Schedule: optim.ScheduleConfig{LearningRate: 0.05}, AccumulationSteps: 2},
	} {
		t.Run(name, func(t *testing.T) {
			tx := stageLocal(t, "adamw", o, `{}`)
			r := rand.New(rand.NewPCG(1, 2))
			start := draw(r, 1)
			zeros, absent := newStaged(t, devices, tx, start, halves), newStaged(t, devices, tx, start, halves)
			absent.bits() // makes the memory that reading takes
			live := liveBytes(devices)
			for call := range 4 {
				grads := draw(r, 1)
				var present []buffers.Host
				for i, h := range grads {
					if call%2 == 1 && i != 1 && (i != 6 || call == 1) { // with the stage that has no gradient in the first of two, a split leaf in the second
						clear(h.Data)
					} else {
						present = append(present, h)
					}
				}
				zeros.call(grads)
				a := eformer.Application{Stages: slices.Clone(absent.stages), ReleaseGradients: true}
				for i := range a.Stages {
					a.Stages[i].Grads = nil
					if some := absent.on(i, present); len(some) > 0 {
						var err error
						a.Stages[i].Grads, err = buffers.Upload(devices[i], "grads", some, buffers.F32)
						require.NoError(t, err)
					}
				}
				require.NoError(t, tx.ApplyGradientsStageLocal(t.Context(), a))
			}
			sameState(t, zeros.bits(), absent.bits())
			assert.Equal(t, live, liveBytes(devices), "what stood for the absent ones is released")
		})
	}
}

// Without weight decay nothing decays, and with it only the leaves of the mask: a gradient of zero leaves the params of a fresh state alone.
func TestStageLocalDecaysWhatItIsToldTo(t *testing.T) {
	devices := several(t, 2)
	for _, name := range optim.Names() {
		row, err := optim.Find(name)
		require.NoError(t, err)
		start := draw(rand.New(rand.NewPCG(7, 8)), 1)
		o := optim.Options{Schedule: optim.ScheduleConfig{LearningRate: 0.25}}
		for _, decay := range []float64{0, 0.5} {
			if o.WeightDecay = decay; decay > 0 {
				o.WeightDecayMask = optim.MaskPatterns("weight")
			}
			s := newStaged(t, devices, stageLocal(t, name, o, cmp.Or(row.Small, "{}")), start, halves)
			s.call(draw(r1(), 0))
			for i, h := range s.params() {
				factor := float32(1)
				if decay > 0 && len(h.Path) > 7 { // "a.weight", "c.weight", "f.weight"
					factor = 1 - 0.125
				}
				for k, v := range h.Data {
					require.Equal(t, factor*start[i].Data[k], v, "%s: %s[%d] with decay %g", name, h.Path, k, decay)
				}
			}
		}
	}
}

// In eformer numerics the stage-local path multiplies by min(1, max/(N + 1e-6)), which shows where N is small, and Update clips as ever, as both do
// in the first edition and in stable numerics. So is it for a path of one's own.
func TestStageLocalClipsByItsOwnRule(t *testing.T) {
	devices := several(t, 2)
	grads, zero := draw(r1(), 0), draw(r1(), 0)
	grads[1].Data[5], grads[6].Data[9] = 3e-6, -4e-6
	for _, c := range []struct {
		numerics optim.Numerics
		edition  optim.Edition
		clip     float64
		want     float64
	}{
		{optim.EFormer, 0, 5.5e-6, -3 * 5.5 / 6}, // N is below the clip and N + 1e-6 is not
		{optim.EFormer, 0, 2e-6, -3. * 2 / 6},
		{optim.EFormer, 0, 7e-6, -3},
		{optim.EFormer, optim.First, 5.5e-6, -3},
		{optim.EFormer, optim.First, 2e-6, -3. * 2 / 5},
		{optim.Stable, 0, 2e-6, -3. * 2 / 5},
	} {
		o := optim.Options{Schedule: optim.ScheduleConfig{LearningRate: 1}, ClipGrad: &c.clip, Numerics: c.numerics, Edition: c.edition}
		tx := stageLocal(t, "sgd", o, `{}`)
		s := newStaged(t, devices, tx, zero, halves)
		s.call(grads)
		assert.InDelta(t, c.want, s.params()[1].Data[5]*1e6, 1e-6, "%+v", c)
		assert.InDelta(t, 5, s.statistics().Norm*1e6, 1e-6, "the norm is the gradient's")

		asEver := -3 * min(1, c.clip/5e-6)
		whole, err := optim.NewTwin(tx.Transform, zero)
		require.NoError(t, err)
		require.NoError(t, whole.Update(grads))
		assert.InDelta(t, asEver, whole.Params()[1].Data[5]*1e6, 1e-6, "%+v", c)
		u, err := state.NewUpdater(tx.Transform, s.stages, state.UpdaterConfig{Label: "whole"})
		require.NoError(t, err)
		require.NoError(t, u.Prepare(t.Context(), nil))
		require.NoError(t, u.Apply(t.Context(), u.Concurrently(t.Context())))
		assert.InDelta(t, c.want+asEver, s.params()[1].Data[5]*1e6, 1e-6, "with the states of a stage-local call: %+v", c)
		u.Release()

		plain, err := optim.Build("sgd", optim.Options{Schedule: o.Schedule}, nil)
		require.NoError(t, err)
		own, err := eformer.MakeStageLocal(plain, tx.Metadata(), eformer.InRounds(plain))
		require.NoError(t, err)
		s = newStaged(t, devices, own, zero, halves)
		s.call(grads)
		assert.InDelta(t, c.want, s.params()[1].Data[5]*1e6, 1e-6, "%+v", c)
	}
}

func TestStageLocalTakesAnotherRate(t *testing.T) {
	devices := several(t, 2)
	r := rand.New(rand.NewPCG(9, 9))
	start, grads := draw(r, 1), draw(r, 1)
	at := func(lr float64) *staged {
		return newStaged(t, devices, stageLocal(t, "adamw", optim.Options{Schedule: optim.ScheduleConfig{LearningRate: lr}, WeightDecay: 0.1}, `{}`), start, halves)
	}
	want, got := at(0.125), at(0.5)
	want.call(grads)
	got.write(grads)
	require.NoError(t, got.tx.ApplyGradientsStageLocal(t.Context(), eformer.Application{Stages: got.stages, LearningRate: optim.Constant(0.125)}))
	sameState(t, want.bits(), got.bits())
	assert.Equal(t, 0.125, got.stages[1].State.LearningRate())
}

func liveBytes(devices []*gpu.Device) uint64 {
	n := uint64(0)
	for _, d := range devices {
		n += d.Counters().LiveBytes
	}
	return n
}

// Gradients go when a call that is asked to has used them, and stay when it fails. Nothing else is left behind.
func TestStageLocalReleasesGradients(t *testing.T) {
	devices := several(t, 2)
	clip := 1.0
	s := newStaged(t, devices, stageLocal(t, "quad", optim.Options{ClipGrad: &clip}, quad), draw(r1(), 1), halves)
	live := func() uint64 { return liveBytes(devices) }
	a := eformer.Application{Stages: s.stages}
	require.NoError(t, s.tx.ApplyGradientsStageLocal(t.Context(), a))
	before, held := live(), s.stages[0].Grads.Bytes()+s.stages[1].Grads.Bytes()
	require.NoError(t, s.tx.ApplyGradientsStageLocal(t.Context(), a))
	assert.Equal(t, before, live())
	a.ReleaseGradients = true
	require.Error(t, s.tx.ApplyGradientsStageLocal(t.Context(), eformer.Application{Stages: s.stages[:1], ReleaseGradients: true}))
	assert.Equal(t, before, live())
	require.NoError(t, s.tx.ApplyGradientsStageLocal(t.Context(), a))
	assert.Equal(t, before-held, live())
}
