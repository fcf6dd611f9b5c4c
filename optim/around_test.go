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

// around are options with both; the mean begins with update 2.
func around(k int) Options {
	return Options{
		Schedule: ScheduleConfig{LearningRate: 0.05}, WeightDecay: 0.1, SkipNonFinite: true, AccumulationSteps: k,
		Lookahead: &Lookahead{Scale: 0.5, Decay: 0.8, From: 1, Until: new(int64(6))}, Average: &Averaging{From: 2, Horizon: 3, Blend: 0.6, Without: []string{"^four"}},
	}
}

// An update that is left out leaves state as it was, in every bit, and takes the move of its weights back to their rounding. A mean that was to begin with it
// begins all the same. The device and the twin agree on all of that, also where gradients are collected.
func TestWhatIsLeftOutTakesTheMoveBack(t *testing.T) {
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		for _, k := range []int{1, 2} {
			r := rand.New(rand.NewPCG(41, 42))
			start := randomTree(r, everySpecs, 1)
			tx := built(t, "adamw", around(k), "")
			rig := newRig(t, d, tx, start, buffers.F32)
			twin, err := NewTwin(tx, start)
			require.NoError(t, err)
			for update := int64(1); update <= 7; update++ {
				before, state := rig.download(rig.params), rig.slot("ahead")
				for range k {
					g := randomTree(r, everySpecs, 0.1)
					if update == 2 || update == 4 {
						g[7].Data[0] = float32(math.NaN())
					}
					rig.call(g)
					require.NoError(t, twin.Update(g))
				}
				for _, want := range twin.Params() {
					for _, got := range rig.download(rig.params) {
						if got.Path == want.Path {
							assert.InDeltaSlice(t, want.Data, got.Data, 3e-6, "update %d: %s", update, want.Path)
						}
					}
				}
				if update != 2 && update != 4 {
					continue
				}
				after := rig.download(rig.params)
				for i, h := range before {
					for j, v := range h.Data {
						require.InDelta(t, v, after[i].Data[j], 2e-7*(1+math.Abs(float64(v))), "update %d: %s[%d]", update, h.Path, j)
					}
				}
				sameBits(t, state, rig.slot("ahead"))
				if update == 2 {
					mean := rig.slot("average")
					assert.Len(t, mean, len(after)-1)
					for _, a := range mean {
						for _, h := range after {
							if h.Path == a.Path {
								assert.Equal(t, h.Data, a.Data, "the mean begins with an update that is left out")
							}
						}
					}
				}
			}
		}
	})
}

func TestAroundRefuses(t *testing.T) {
	for want, change := range map[string]func(o *Options){
		"lookahead: scale: found -1, wanted 0 or more":                func(o *Options) { o.Lookahead.Scale = -1 },
		"lookahead: decay: found 1, wanted 0 to less than 1":          func(o *Options) { o.Lookahead.Decay = 1 },
		"lookahead: from: found -1, wanted 0 or more":                 func(o *Options) { o.Lookahead.From = -1 },
		"lookahead: until: found 6, wanted 7 or more":                 func(o *Options) { o.Lookahead.From = 7 },
		"average: from: found update 0, wanted 1 or more":             func(o *Options) { o.Average.From = 0 },
		"average: horizon: found 0.5, wanted 1 or more":               func(o *Options) { o.Average.Horizon = 0.5 },
		"average: blend: found 1.5, wanted 0 to 1":                    func(o *Options) { o.Average.Blend = 1.5 },
		`average: without: pattern "^x": matches none of the 1 paths`: func(o *Options) { o.Average.Without = []string{"^x"} },
	} {
		o := around(1)
		change(&o)
		tx, err := Build("lion", o, nil)
		if err == nil {
			err = tx.Check([]buffers.Spec{{Path: "w", Shape: []int{2, 2}}})
		}
		assert.ErrorContains(t, err, want)
	}
}
