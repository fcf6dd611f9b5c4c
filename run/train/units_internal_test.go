package train

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/gpu"
	"gputrain/internal/gputest"
	"gputrain/model"
)

// withUnits is a target whose device says that it has such matrix units.
type withUnits struct {
	Target
	units gpu.MatrixUnits
}

func (w withUnits) Devices() []*gpu.Device {
	d := w.Target.Devices()[0]
	l := d.Limits()
	l.Matrix = w.units
	return []*gpu.Device{gpu.DryOf(d.Adapter(), l)}
}

func unitsOf(m, n, k, lanes int) gpu.MatrixUnits {
	return gpu.MatrixUnits{Shapes: []gpu.MatrixShape{{M: m, N: n, K: k}}, Lanes: lanes, Subgroups: 64}
}

// A run does not resume on other matrix units than those that made its products, and in f32 it does not matter which there are.
func TestOtherUnits(t *testing.T) {
	dev := gputest.Device(t)
	for _, rounds := range []bool{true, false} {
		c := killedRun(t, t.TempDir())
		c.State.RoundProducts = rounds
		c.Steps = 2
		ran(t, dev, c)
		o := &opening{trainer: &trainer{config: c, team: &team{}}}
		o.team.target = withUnits{oneDevice{device: dev}, unitsOf(8, 8, 8, 8)}
		if !rounds {
			assert.Empty(t, o.units())
			continue
		}
		assert.Equal(t, "8x8x8", o.units())
		_, err := RunOn(t.Context(), withUnits{oneDevice{device: dev}, unitsOf(8, 8, 8, 8)}, c)
		var changed *ChangedError
		require.ErrorAs(t, err, &changed)
		assert.Equal(t, []string{"device.matrix (products of f16)", "no matrix units", "matrix units of 8x8x8"}, []string{changed.Key, changed.Found, changed.Wanted})
	}
}

// One line says what matrix units make of a run's products, and where they do not, why.
func TestLinesOfUnits(t *testing.T) {
	dev := gputest.Device(t)
	const plain = "products of f16 are made by f32 operations, which takes longer than f32 alone: found "
	for _, c := range []struct {
		units gpu.MatrixUnits
		width int
		lines []string
	}{
		{unitsOf(8, 8, 8, 8), 32, []string{"products of f16 are made by matrix units of 8x8x8"}},
		{unitsOf(8, 8, 8, 8), 24, []string{"products of f16 are made by matrix units of 8x8x8", "attention is made by f32 operations, or in part: matrix units take no heads of 12 on "}},
		{unitsOf(8, 8, 8, 8), 0, []string{"products of f16 are made by matrix units of 8x8x8", "attention is made by f32 operations, or in part: matrix units take no heads of 512 on "}},
		{gpu.MatrixUnits{}, 32, []string{plain + "no matrix units on "}},
		{unitsOf(8, 8, 16, 8), 32, []string{plain + "matrix units of 8x8x16 by 8 invocations, wanted one of [16x16x16 8x8x8] on "}},
		{unitsOf(16, 16, 16, 8), 32, []string{plain + "matrix units of 16x16x16 by 8 invocations, whose products take 336 registers an invocation, wanted at most 204 on "}},
	} {
		config := tinyRun(t, t.TempDir())
		config.State.RoundProducts = true
		var err error
		config.State.Definition, err = model.NewGPT2(model.GPT2Config{Layers: 1, Heads: 2, Width: c.width, Vocab: 256, Context: 16})
		if c.width == 0 {
			config.State.Definition, err = model.ParseConfig([]byte(`{"model_type": "gemma4_text", "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 16, "hidden_size": 32,
				"intermediate_size": 32, "vocab_size": 256, "num_hidden_layers": 2, "max_position_embeddings": 16}`))
		}
		require.NoError(t, err)
		var text strings.Builder
		o := &opening{trainer: &trainer{config: config, team: &team{}, display: &display{Progress: newClocked(lineProgress{&text})}}}
		o.team.target = withUnits{oneDevice{device: dev}, c.units}
		o.noteUnits()
		said := strings.Split(strings.TrimSpace(text.String()), "\n")
		require.Len(t, said, len(c.lines), "%s", text.String())
		for i, want := range c.lines {
			assert.True(t, strings.HasPrefix(said[i], want), "found %q, wanted %q", said[i], want)
		}
	}
}
