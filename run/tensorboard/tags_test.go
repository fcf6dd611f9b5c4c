package tensorboard

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/run/train"
)

// Every number of a line gets a tag in a group, those that are not finite too; what is no number gets none.
func TestScalars(t *testing.T) {
	line := `{
		"step": 7, "loss": "NaN", "grad_norm": "-Infinity", "tokens_per_second": 10, "step_ms": 2.5, "eval_ms": 3, "mfu": 0.5,
		"device_bytes": 4096, "left_out": "not finite", "watched": {"norm/params/w/l2": 4, "norm/params/b/l2": "Infinity"},
		"stage_busy": [0.25, 0.75], "bubble": 0.5, "transfer": 0.125, "cluster": {"passes_ms": [5], "slowest": 0, "transfer": 0.5, "hidden": 0.25, "bytes": 9}, "eval_loss": 6, "figures": {"margin": 1.5}, "eval_figures": {"margin": 0.5}, "of_a_later_version": 1
	}`
	values, err := scalars(json.RawMessage(line))
	require.NoError(t, err)
	found := map[string]float32{}
	for _, v := range values {
		assert.Equal(t, Scalar, v.Kind)
		found[v.Tag] = v.Scalar
	}
	require.Len(t, found, len(values))
	assert.True(t, math.IsNaN(float64(found["train/loss"])))
	delete(found, "train/loss")
	assert.Equal(t, map[string]float32{
		"train/grad_norm": float32(math.Inf(-1)), "speed/tokens_per_second": 10, "speed/step_ms": 2.5, "speed/eval_ms": 3, "speed/mfu": 0.5,
		"memory/device_bytes": 4096, "watched/norm/params/w/l2": 4, "watched/norm/params/b/l2": float32(math.Inf(1)),
		"stages/busy.0": 0.25, "stages/busy.1": 0.75, "stages/bubble": 0.5, "stages/transfer": 0.125, "validation/loss": 6, "train/margin": 1.5, "validation/margin": 0.5,
		"cluster/passes_ms.0": 5, "cluster/slowest": 0, "cluster/transfer": 0.5, "cluster/hidden": 0.25, "cluster/bytes": 9, "train/of_a_later_version": 1,
	}, found)
}

// Elements that are not finite are in no bucket, and are counted by a scalar.
func TestDistributions(t *testing.T) {
	counts := make([]uint32, 64)
	counts[0], counts[63] = 1, 2
	found := distribution(train.Histogram{Name: "grads/w", Elements: 5, NonFinite: 2, Min: -1, Max: 3, Mean: 1, Deviation: 2, Counts: counts})
	require.Len(t, found, 2)
	h := found[0].Histogram
	assert.Equal(t, []float64{-1, 3, 3, 3, 15}, []float64{h.Min, h.Max, h.Count, h.Sum, h.SumOfSquares})
	assert.Equal(t, []float64{-0.9375, 3, 1, 2}, []float64{h.Limits[0], h.Limits[63], h.Counts[0], h.Counts[63]})
	assert.Equal(t, Value{Tag: "nonfinite/grads/w", Kind: Scalar, Scalar: 2}, found[1])

	nan := train.Number(math.NaN())
	found = distribution(train.Histogram{Name: "grads/w", Elements: 4, NonFinite: 4, Min: nan, Max: nan, Mean: nan, Deviation: nan, Counts: make([]uint32, 64)})
	assert.Equal(t, &Histogram{}, found[0].Histogram)
}

// A sample is shown as it is: neither its own Markdown nor bytes that are no text change that.
func TestSamplesAreShownAsTheyAre(t *testing.T) {
	found := sample(train.Sample{Prompt: "# a\n", Text: "*b*\n\n\xff<i>"})
	assert.Equal(t, Value{Tag: "sample", Kind: Text, Text: "    # a\n    *b*\n    \n    �<i>"}, found)
	assert.Equal(t, "asked/who?", sample(train.Sample{Prompt: "who?\n", Asked: true}).Tag)
}
