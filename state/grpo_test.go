package state

import (
	"maps"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/graph"
	"gputrain/internal/gputest"
	"gputrain/model"
	"gputrain/run/data"
	"gputrain/state/checkpoint"
)

// drawnBatch has completions of all lengths, some cut off, and the numbers beside them.
func drawnBatch(rows int) data.Batch {
	random := rand.New(rand.NewPCG(91, 92))
	b := tinyBatch(1, rows, false)
	b.Beside = map[string][]float32{}
	for name, each := range map[string]int{model.InputAdvantages: 1, model.InputOld: testT, model.InputReference: testT} {
		b.Beside[name] = make([]float32, rows*each)
	}
	for row := range rows {
		for i := range testT {
			if i < row%3 || i >= 2+row%3+row {
				b.Labels[row*testT+i] = graph.IgnoreLabel
			}
			b.Beside[model.InputOld][row*testT+i] = float32(-3 + random.NormFloat64()/2)
			b.Beside[model.InputReference][row*testT+i] = float32(-3 + random.NormFloat64()/2)
		}
		b.Beside[model.InputAdvantages][row] = float32(random.NormFloat64())
		b.Beside[model.BesideTruncated] = append(b.Beside[model.BesideTruncated], float32(row%4/3))
	}
	return b
}

// TestDrawnInParts has the loss, the figures and the gradient of an update whole, in two parts and in four.
func TestDrawnInParts(t *testing.T) {
	dev := gputest.Device(t)
	batch := drawnBatch(8)
	for _, loss := range []string{"grpo", "dapo", "dr_grpo", "gspo", "cispo"} {
		t.Run(loss, func(t *testing.T) {
			o := model.Objective{Loss: loss, Numbers: map[string]float64{}}
			for _, n := range o.Row().Numbers {
				o.Numbers[n.Name] = map[string]float64{
					"temperature": 0.9, "epsilon": 0.1, "epsilon_high": 0.2, "delta": 1.5, "beta": 0.1, "mask_truncated_completions": 1, "max_completion_length": 12,
				}[n.Name]
			}
			var whole Metrics
			for i, micro := range []int{1, 2, 4, 2, 2} {
				c := tinyConfig(t)
				c.Objective, c.Batch, c.Microbatches = o, batch.Rows/micro, micro
				within := 2e-6
				switch i {
				case 3:
					c.Recompute = model.RecomputeLayers
				case 4:
					c.Storage, c.RoundProducts, within = buffers.BF16, true, 0.05
				}
				s := create(t, dev, c)
				all, err := s.TrainStep(t.Context(), batch)
				require.NoError(t, err)
				rest, err := s.Drain(t.Context())
				require.NoError(t, err)
				m := append(all, rest...)[0]
				if micro == 1 {
					whole = m
					assert.Positive(t, m.GradNorm)
				}
				assert.EqualValues(t, 8, m.Tokens, "completions")
				assert.InDelta(t, whole.Loss, m.Loss, within)
				assert.InEpsilon(t, whole.GradNorm, m.GradNorm, within)
				assert.InDeltaSlice(t, whole.Means, m.Means, within)
			}
		})
	}
}

func TestDrawnRefused(t *testing.T) {
	c := tinyConfig(t)
	c.Objective, c.Batch = model.Objective{Loss: "grpo", Numbers: map[string]float64{"temperature": 1, "beta": 0.1}}, 4
	for want, spoil := range map[string]func(b data.Batch){
		"batch: advantages: found 0 numbers beside the rows, wanted 4: grpo of this network reads 1 a row": func(b data.Batch) { delete(b.Beside, model.InputAdvantages) },
		"batch: old: found 3 numbers beside the rows":                                                      func(b data.Batch) { b.Beside[model.InputOld] = b.Beside[model.InputOld][:3] },
		"batch: reference: found 0 numbers":                                                                func(b data.Batch) { delete(b.Beside, model.InputReference) },
		"batch: row 3: found +Inf among advantages":                                                        func(b data.Batch) { b.Beside[model.InputAdvantages][3] = float32(math.Inf(1)) },
	} {
		b := drawnBatch(4)
		b.Beside[model.InputAdvantages][3] = 1
		spoil(b)
		_, err := jobOf(t, c).count(b)
		require.ErrorContains(t, err, want)
	}
	_, err := jobOf(t, c).count(drawnBatch(4))
	require.NoError(t, err)
}

// TestOldByTheNetworkItself: with the log-probabilities that a pass before the update gives, the update is that of a loss which takes its own for them, on any
// number of rows in a pass.
func TestOldByTheNetworkItself(t *testing.T) {
	dev := gputest.Device(t)
	step := func(micro int, onPolicy float64) Metrics {
		c := tinyConfig(t)
		c.Objective = model.Objective{Loss: "dapo", Numbers: map[string]float64{"temperature": 0.9, "epsilon": 0.1, "epsilon_high": 0.2, "on_policy": onPolicy}}
		c.Batch, c.Microbatches = 8/micro, micro
		s, batch := create(t, dev, c), drawnBatch(8)
		old, err := s.LogProbs(t.Context(), batch)
		if onPolicy == 1 {
			require.ErrorContains(t, err, "wanted one that reads them")
		} else {
			require.NoError(t, err)
			some, err := s.LogProbs(t.Context(), batch.Part(data.Share{First: 3, Rows: 3}))
			require.NoError(t, err)
			assert.Equal(t, old[3*testT:6*testT], some, "a row's are its own")
			batch.Beside[model.InputOld] = old
		}
		all, err := s.TrainStep(t.Context(), batch)
		require.NoError(t, err)
		rest, err := s.Drain(t.Context())
		require.NoError(t, err)
		return append(all, rest...)[0]
	}
	for _, micro := range []int{1, 2, 4} {
		want, found := step(micro, 1), step(micro, 0)
		assert.InDelta(t, want.Loss, found.Loss, 1e-6)
		assert.InEpsilon(t, want.GradNorm, found.GradNorm, 1e-5)
		assert.Zero(t, found.Means[2], "nothing is clipped")
	}
}

// TestNothingToLearn: microbatches of rows without an advantage are not computed, and all is as if they were: parameters and the optimizer's states have the
// same bits.
func TestNothingToLearn(t *testing.T) {
	dev := gputest.Device(t)
	batch := drawnBatch(8)
	for row := range 8 {
		if row != 1 && row != 6 {
			batch.Beside[model.InputAdvantages][row] = 0
		}
	}
	for _, accumulation := range accumulations {
		for _, loss := range []string{"dapo", "gspo"} {
			var want Metrics
			var bits map[string]string
			for skip := range 2 {
				c := tinyConfig(t)
				c.Objective = model.Objective{Loss: loss, Numbers: map[string]float64{"temperature": 0.9, "epsilon": 0.1, "epsilon_high": 0.2, "skip_flat": float64(skip)}}
				c.Batch, c.Microbatches, c.Accumulation = 2, 4, accumulation
				for i := range 4 {
					f := FeedOf(c.Objective, batch.Part(data.Share{First: 2 * i, Rows: 2}))
					assert.Equal(t, skip == 1 && (i == 1 || i == 2), f.Idle, "microbatch %d", i)
				}
				s := create(t, dev, c)
				var all []Metrics
				for range 3 {
					some, err := s.TrainStep(t.Context(), batch)
					require.NoError(t, err)
					all = append(all, some...)
				}
				rest, err := s.Drain(t.Context())
				require.NoError(t, err)
				m := append(all, rest...)[2]
				copied, err := s.CopyToHost(t.Context(), checkpoint.Run{})
				require.NoError(t, err)
				found := map[string]string{}
				for _, of := range copied.Sources {
					if strings.HasSuffix(of.Name, ".safetensors") {
						var out strings.Builder
						require.NoError(t, of.Write(&out))
						found[of.Name] = out.String()
					}
				}
				if skip == 0 {
					want, bits = m, found
					continue
				}
				assert.Equal(t, []any{want.Loss, want.GradNorm, want.Tokens}, []any{m.Loss, m.GradNorm, m.Tokens})
				assert.Equal(t, want.Means[2:4], m.Means[2:4], "nothing of them is clipped")
				assert.Less(t, m.Means[0], want.Means[0]/2, "the entropy is over the others")
				assert.Len(t, found, 2)
				assert.True(t, maps.Equal(bits, found), "%s %s", accumulation, loss)
			}
		}
	}
}
