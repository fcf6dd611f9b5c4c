package state

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/hub"
	"gputrain/internal/gputest"
	"gputrain/model"
	"gputrain/state/checkpoint"
)

// onDevices has tables on devices, where others leave them with the host.
type onDevices struct{ model.Definition }

func (d onDevices) Params() []model.Param {
	params := d.Definition.Params()
	for i := range params {
		params[i].Table = false
	}
	return params
}

// A frozen table of embeddings stays in its file, which its owner may close, and what is trained, evaluated and sampled has the bits that it has with the
// table on the device, in memory that is planned as it is taken and smaller by the table.
func TestTablesStayWithTheHost(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "base")
	raw, err := os.ReadFile(filepath.Join("..", "model", "testdata", "models", "gemma4_small", "config.json"))
	require.NoError(t, err)
	base, err := model.ParseConfig(raw)
	require.NoError(t, err)
	hosts := model.Init(base, 5)
	require.NoError(t, model.Export(dir, base, func(path string) ([]float32, error) {
		for _, h := range hosts {
			if h.Path == path {
				return h.Data, nil
			}
		}
		return nil, nil
	}, model.ExportOptions{}))
	const table = "model.embed_tokens_per_layer.weight"
	gputest.Each(t, func(t *testing.T, dev *gpu.Device) {
		for _, kept := range []buffers.DType{buffers.F32, buffers.BF16, buffers.NF4} {
			if testing.Short() && kept != buffers.BF16 {
				continue
			}
			made := func(def model.Definition) *TrainState {
				c := tinyConfig(t)
				c.Sequence, c.Sampling, c.Evaluation, c.Base, c.FrozenDType = testT, true, 1, dir, kept
				c.Definition, err = model.WithLoRA(def, model.LoRA{Rank: 2})
				require.NoError(t, err)
				j := jobOf(t, c)
				planned, err := Plan(t.Context(), j, dev.Limits())
				require.NoError(t, err)
				files := hub.Open(dir)
				weights, err := files.Weights(def)
				require.NoError(t, err)
				params, _ := weights.ParamsOf(c.Definition, c.Seed)
				s, err := CreateFrom(t.Context(), dev, j, params)
				require.NoError(t, err)
				require.NoError(t, files.Close())
				t.Cleanup(s.Release)
				step, err := j.StepBytes(t.Context(), dev.Limits())
				require.NoError(t, err)
				assert.Equal(t, planned, s.Memory()[0])
				assert.Equal(t, planned.Step, step)
				return s
			}
			there, here := made(onDevices{base}), made(base)
			leaf, _ := frozenOf(here)[0].Layout().Leaf(table)
			assert.True(t, leaf.Table)
			assert.Equal(t, buffers.TableType(kept).Bytes(uint64(leaf.Elements())), there.Memory()[0].Frozen-here.Memory()[0].Frozen)
			assert.Equal(t, train(t, there, 2), train(t, here, 2))
			params, _ := here.Trees()
			whole, _ := there.Trees()
			assert.Equal(t, read(t, whole...), read(t, params...))
			for _, n := range []int{1, 5} {
				want, err := there.Logits(t.Context(), []int32{1, 2, 3, 4, 5}[:n])
				require.NoError(t, err)
				got, err := here.Logits(t.Context(), []int32{1, 2, 3, 4, 5}[:n])
				require.NoError(t, err)
				assert.Equal(t, want, got)
			}
			assert.Equal(t, read(t, frozenOf(there)...)[table], read(t, frozenOf(here)...)[table])
			require.NoError(t, here.Save(t.Context(), filepath.Join(t.TempDir(), "adapters"), checkpoint.Run{}))
		}
	})
}

// The gradient of what all layers have beside them is joined of as many pieces as there are layers, however few operands a kernel of the device may have.
func TestPlanOfManyLayersOfGemma4(t *testing.T) {
	base, err := model.ParseConfig([]byte(`{"model_type": "gemma4_text", "hidden_size": 16, "intermediate_size": 8, "vocab_size": 64, "num_attention_heads": 1, "num_key_value_heads": 1,
		"max_position_embeddings": 16, "head_dim": 8, "global_head_dim": 8, "hidden_size_per_layer_input": 4, "num_hidden_layers": 50}`))
	require.NoError(t, err)
	c := tinyConfig(t)
	c.Definition, c.Sequence = base, testT
	_, err = Plan(t.Context(), jobOf(t, c), gpu.DefaultLimits())
	require.NoError(t, err)
}
