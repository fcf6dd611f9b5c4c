package train

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/gpu"
	"gputrain/internal/gputest"
	"gputrain/model"
	"gputrain/state"
)

// A run whose memory asks for it computes again, says so and records it. It goes on with that where there is more memory, with more of it where there
// is less, and ends with the bits of a run that has kept everything.
func TestRunRecomputesWhatItMust(t *testing.T) {
	bound := func(limit uint64) *gpu.Device { // texels take memory of their own
		return gputest.Device(t, gputest.WithMemoryLimit(limit), func(o *gpu.Options) { o.Texels = gpu.TexelsOff })
	}
	dev := bound(1 << 40)
	def, err := model.NewGPT2(model.GPT2Config{Layers: 3, Heads: 2, Width: 16, Vocab: 256, Context: 16, ResidualDropout: 0.1})
	require.NoError(t, err)
	whole, dir := t.TempDir(), t.TempDir()
	c := tinyRun(t, whole)
	c.State.Definition = def
	ran(t, dev, c)
	want := outcomeOf(t, whole)
	c.Dir, c.State.Recompute = dir, state.RecomputeAuto
	bytesOf := map[string]uint64{}
	job, err := state.NewJob(c.withDefaults().withRows(t.Context()).State)
	require.NoError(t, err)
	for _, choice := range job.Choices() {
		bytesOf[choice.Recompute] = takesOf(t, oneDevice{device: dev}, choice.Config).Bytes()
	}
	require.Less(t, bytesOf[model.RecomputeAttention], bytesOf[model.RecomputeNone])
	require.Less(t, bytesOf[model.RecomputeLayers], bytesOf[model.RecomputeAttention])
	steps := func(step int64, limit uint64) (said, recorded string) {
		var out bytes.Buffer
		c.Output, c.Hooks = &out, nil
		ctx := t.Context()
		if step < c.Steps {
			stop, hook := stopAt(StepBegin, step)
			ctx, c.Hooks = stop, []Hook{hook}
		}
		if _, err := Run(ctx, bound(limit), c); step < c.Steps {
			require.ErrorIs(t, err, ErrStopped)
		} else {
			require.NoError(t, err)
		}
		text := textAt(t, dir, runFile)
		return out.String(), text
	}
	text := func(what string) string {
		return "train.recompute " + what + ", which takes " + gpu.SizeText(bytesOf[what]) + " instead of " + gpu.SizeText(bytesOf[model.RecomputeNone])
	}
	for _, part := range []struct {
		step  int64
		limit uint64
		what  string
		says  string
	}{
		{4, (bytesOf[model.RecomputeAttention] + bytesOf[model.RecomputeNone]) / 2, model.RecomputeAttention, text(model.RecomputeAttention) + "\n"},
		{7, 1 << 40, model.RecomputeAttention, text(model.RecomputeAttention) + ", as before\n"},
		{c.Steps, (bytesOf[model.RecomputeLayers] + bytesOf[model.RecomputeAttention]) / 2, model.RecomputeLayers, text(model.RecomputeLayers) + "\n"},
	} {
		said, recorded := steps(part.step, part.limit)
		assert.Contains(t, said, part.says)
		assert.Regexp(t, `(?m)^  recompute: "`+part.what+`" +# auto of program$`, recorded)
	}
	assert.Equal(t, want, outcomeOf(t, dir))
	report := textAt(t, dir, reportFile)
	assert.Contains(t, report, model.RecomputeLayers+", which takes")
}
