package train

import (
	"bytes"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/hub"
	"gputrain/internal/gputest"
	"gputrain/model"
	"gputrain/run/data"
	"gputrain/run/fit"
	"gputrain/state"
	"gputrain/state/checkpoint"
)

// quantizedRun is tinyRun with its matrices in 4 bits.
func quantizedRun(t *testing.T, dir string) Config {
	t.Helper()
	c := tinyRun(t, dir)
	var err error
	c.State.Definition, err = model.WithQuantization(c.State.Definition, model.Quantization{Mode: "affine", Group: 32, Match: []string{"weight"}})
	require.NoError(t, err)
	return c
}

// A run that reads its parameters in few bits learns, is resumed to the bit, saves the parameters themselves and is evaluated as it was trained;
// another quantization, or none, is another model.
func TestQuantizedRun(t *testing.T) {
	dev := gputest.Device(t)
	whole := t.TempDir()
	var out bytes.Buffer
	c := quantizedRun(t, whole)
	c.Output = &out
	result := ran(t, dev, c)
	assert.Contains(t, out.String(), "parameters quantized, 9 of 16 read as affine of 4 bits in groups of 32")
	want := outcomeOf(t, whole)
	assert.NotEqual(t, undisturbed(t, dev).metrics[0], want.metrics[0])
	assert.Less(t, result.EvalLoss, 5.5)

	dir := t.TempDir()
	c = quantizedRun(t, dir)
	halted(t, dev, c, StepBegin, 5)
	_, err := Run(t.Context(), dev, tinyRun(t, dir))
	require.ErrorIs(t, err, checkpoint.ErrMismatch)
	other := quantizedRun(t, dir)
	other.State.Definition, err = model.WithQuantization(other.State.Definition, model.Quantization{Mode: "affine", Bits: 3, Group: 32, Match: []string{"weight"}})
	require.NoError(t, err)
	_, err = Run(t.Context(), dev, other)
	require.ErrorIs(t, err, checkpoint.ErrMismatch)
	ran(t, dev, quantizedRun(t, dir))
	require.Equal(t, want, outcomeOf(t, dir))

	checkpoint := filepath.Join(whole, checkpointsDir, checkpoint.DirName(12))
	m, err := state.LoadModel(dev, checkpoint)
	require.NoError(t, err)
	defer m.Release()
	e, err := data.NewEvaluation(c.Validation, 16, fit.EvaluationRows(t.Context(), c.withDefaults().State, c.EvalTokens), 6) // EvalTokens in windows
	require.NoError(t, err)
	again, err := m.Evaluate(t.Context(), e)
	require.NoError(t, err)
	assert.Equal(t, result.EvalLoss, again.Loss)
	_, params, err := hub.ReadHF(checkpoint)
	require.NoError(t, err)
	for _, p := range params {
		if p.Path != "wte.weight" {
			continue
		}
		numbers := map[float32]bool{}
		for _, v := range p.Data[:16] { // a row, which is one group
			numbers[v] = true
		}
		assert.Len(t, numbers, 16, "what is saved has all its bits")
	}
}
