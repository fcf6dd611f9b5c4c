package train

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/internal/formats"
	"gputrain/internal/gputest"
	"gputrain/model"
	"gputrain/run/data"
	"gputrain/state"
)

// byHand are the updates of a generation as its file says, with advantages that follow from its rewards by the equations once more.
func byHand(t *testing.T, raw []byte, weights []float64, rows, window int, less float64) (updates []data.Batch) {
	t.Helper()
	var g struct {
		Groups []struct {
			Prompt      []int32
			Completions []struct {
				Tokens    []int32
				Truncated bool
				Old       []float32 `json:"old_logps"`
				Rewards   []*float64
				Advantage float64
			}
		}
	}
	require.NoError(t, json.Unmarshal(raw, &g))
	n := 0
	for _, group := range g.Groups {
		var sums []float64
		mean, square := 0.0, 0.0
		for _, c := range group.Completions {
			sum := 0.0
			for i, r := range c.Rewards {
				if r != nil {
					sum += weights[i] * *r
				}
			}
			sums = append(sums, sum)
			mean += sum / float64(len(group.Completions))
		}
		for _, sum := range sums {
			square += (sum - mean) * (sum - mean)
		}
		deviation := math.Sqrt(square / (float64(len(sums)) - less))
		for i, c := range group.Completions {
			if n%rows == 0 {
				b := data.Batch{Rows: rows, Tokens: make([]int32, rows*window), Labels: make([]int32, rows*window), Beside: map[string][]float32{}}
				for i := range b.Labels {
					b.Labels[i] = data.Ignored
				}
				for name, each := range map[string]int{model.InputAdvantages: 1, model.BesideTruncated: 1, model.InputOld: window} {
					b.Beside[name] = make([]float32, rows*each)
				}
				updates = append(updates, b)
			}
			b, row := updates[len(updates)-1], n%rows
			advantage := (sums[i] - mean) / (deviation + 1e-4)
			if less == 1 {
				assert.InDelta(t, advantage, c.Advantage, 1e-9)
			}
			b.Beside[model.InputAdvantages][row] = float32(advantage)
			for j, token := range append(append([]int32{}, group.Prompt...), c.Tokens...) {
				at := row*window + j
				if j < len(group.Prompt)+len(c.Tokens)-1 {
					b.Tokens[at] = token
				}
				if k := j - len(group.Prompt); k >= 0 {
					b.Labels[at-1], b.Beside[model.InputOld][at-1] = token, c.Old[k]
				}
			}
			n++
		}
	}
	return updates
}

// TestUpdatesByHand has the loss and the gradient of both updates of a generation, from what its file says; another deviation, another divisor, the rows of the
// other update, or the prompt among what is learned make another gradient.
func TestUpdatesByHand(t *testing.T) {
	dev := gputest.Device(t)
	c := lettersRun(t, "dapo", 2)
	c.State.Definition = undropped(t)
	c.Rollouts.Drawing.Stop = []int32{10, 65, 66, 67, 68, 69, 70, 71, 72, 73, 74, 75, 76, 77, 78, 79, 80} // of different lengths
	c.Steps, c.EvalEvery, c.SaveEvery = 2, 0, Every(2)
	ran(t, dev, c)
	lines, _, err := ReadMetrics(c.Dir)
	require.NoError(t, err)
	raw, err := os.ReadFile(filepath.Join(c.Dir, generationsDir, generationName(0)))
	require.NoError(t, err)
	weights := []float64{1, 0.01}
	norms := func(less float64, spoil func(b []data.Batch)) (all [2]float64) {
		updates := byHand(t, raw, weights, 8, 16, less)
		require.Len(t, updates, 2)
		spoil(updates)
		s, err := state.Create(t.Context(), dev, c.State)
		require.NoError(t, err)
		defer s.Release()
		for i, b := range updates {
			metrics, err := s.TrainStep(t.Context(), b)
			require.NoError(t, err)
			more, err := s.Drain(t.Context())
			require.NoError(t, err)
			all[i] = append(metrics, more...)[0].GradNorm
		}
		return all
	}
	want := [2]float64{float64(lines[0].GradNorm), float64(lines[1].GradNorm)}
	assert.InEpsilonSlice(t, want[:], func() []float64 { n := norms(1, func([]data.Batch) {}); return n[:] }(), 1e-6)
	for name, found := range map[string][2]float64{
		"deviations over k":       norms(0, func([]data.Batch) {}),
		"rows of the other":       norms(1, func(b []data.Batch) { b[0], b[1] = b[1], b[0] }),
		"the mean not taken away": norms(1, func(b []data.Batch) { b[0].Beside[model.InputAdvantages][0] += 0.5 }),
		"a token less": norms(1, func(b []data.Batch) {
			for i, label := range b[0].Labels {
				if label != data.Ignored {
					b[0].Labels[i] = data.Ignored
					return
				}
			}
		}),
		"the prompt too": norms(1, func(b []data.Batch) { b[0].Labels[0] = b[0].Tokens[1] }),
	} {
		assert.Greater(t, math.Abs(found[0]/want[0]-1), 1e-4, name)
	}
	other := norms(1, func(b []data.Batch) {
		for i := range b[1].Labels {
			b[1].Beside[model.InputOld][i] -= 0.1
		}
	})
	assert.Greater(t, math.Abs(other[1]/want[1]-1), 1e-2, "other log-probabilities")
}

// TestEveryLossDraws: each loss learns from what is drawn, rewards together or apart.
func TestEveryLossDraws(t *testing.T) {
	dev := gputest.Device(t)
	for i, loss := range model.Objectives() {
		if (model.Objective{Loss: loss}).Row().Form != formats.Prompts {
			continue
		}
		c := lettersRun(t, loss, 2)
		c.Steps, c.EvalEvery, c.SaveEvery = 2, 0, Every(2)
		c.Rollouts.Rewarding.Apart = i%2 == 0
		ran(t, dev, c)
		lines, _, err := ReadMetrics(c.Dir)
		require.NoError(t, err)
		require.Len(t, lines, 2, loss)
		for _, l := range lines {
			assert.Positive(t, float64(l.GradNorm), loss)
		}
		assert.Contains(t, lines[0].Rollout, "rewards/short/mean", loss)
		assert.Nil(t, lines[1].Rollout, loss)
	}
}
