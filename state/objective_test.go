package state

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/buffers/safetensors"
	"gputrain/graph"
	"gputrain/internal/gputest"
	"gputrain/model"
	"gputrain/run/data"
)

// pairCase is a case of package model's testdata: a base with an adapter, and the pairs of its first step.
// adapterCase is a case of package model: its network with adapters, its weights, and a decoder of its files.
func adapterCase(t *testing.T, kind, name string) (def model.Definition, params []buffers.Host, read func(file string) []byte) {
	t.Helper()
	read = func(file string) []byte {
		raw, err := os.ReadFile(filepath.Join("..", "model", "testdata", kind, name, filepath.FromSlash(file)))
		require.NoError(t, err)
		return raw
	}
	base, err := model.ParseConfig(read("base/config.json"))
	require.NoError(t, err)
	weights, err := safetensors.Parse(read("base/model.safetensors"))
	require.NoError(t, err)
	below, err := model.Bind(base, "base", weights.Tensors())
	require.NoError(t, err)
	def, err = model.ParseAdapter(read("adapter/adapter_config.json"), base)
	require.NoError(t, err)
	adapter, err := safetensors.Parse(read("adapter/adapter_model.safetensors"))
	require.NoError(t, err)
	above, err := model.Bind(def, "adapter", adapter.Tensors())
	require.NoError(t, err)
	above.StandOn(below, nil)
	params, err = above.All()
	require.NoError(t, err)
	return def, params, read
}

func pairCase(t *testing.T, name string) (def model.Definition, params []buffers.Host, batch data.Batch, metrics map[string]float64) {
	t.Helper()
	def, params, read := adapterCase(t, "dpo", name)
	var c struct {
		Batch   int
		Metrics []map[string]float64
	}
	require.NoError(t, json.Unmarshal(read("case.json"), &c))
	const seq = 18
	for _, line := range strings.Split(string(read("rows.jsonl")), "\n")[:c.Batch] {
		var row struct{ Prompt, Chosen, Rejected []int32 }
		require.NoError(t, json.Unmarshal([]byte(line), &row))
		for _, completion := range [][]int32{row.Chosen, row.Rejected} {
			ids, at := slices.Concat(row.Prompt, completion), len(batch.Tokens)
			batch.Tokens = append(batch.Tokens, make([]int32, seq)...)
			batch.Labels = append(batch.Labels, slices.Repeat([]int32{graph.IgnoreLabel}, seq)...)
			copy(batch.Tokens[at:], ids[:len(ids)-1])
			copy(batch.Labels[at+len(row.Prompt)-1:], completion)
			batch.Rows++
		}
	}
	return def, params, batch, c.Metrics[0]
}

// TestPairsAgainstCases makes the first step of cases in one microbatch and in three, and with layers computed again: loss, figures and the gradient's norm are
// those of the case.
func TestPairsAgainstCases(t *testing.T) {
	dev := gputest.Device(t)
	for name, prefer := range map[string]model.Objective{
		"dpo_llama_sigmoid": {Loss: "sigmoid", Numbers: map[string]float64{"beta": 0.3}}, "orpo_qwen2": {Loss: "orpo", Numbers: map[string]float64{"orpo_lambda": 0.4}},
	} {
		for _, micro := range []int{1, 3} {
			t.Run(fmt.Sprint(name, micro), func(t *testing.T) {
				def, params, batch, want := pairCase(t, name)
				c := tinyConfig(t)
				c.Definition, c.Objective, c.Sequence, c.Batch, c.Microbatches = def, prefer, 18, batch.Rows/micro, micro
				if micro == 3 {
					c.Recompute = model.RecomputeLayers
				}
				for _, p := range def.Params() {
					if !slices.Contains(model.AdapterParams(def), p.Path) {
						c.Frozen = append(c.Frozen, p.Path)
					}
				}
				s, err := CreateFrom(t.Context(), dev, jobOf(t, c), params)
				require.NoError(t, err)
				t.Cleanup(s.Release)
				all, err := s.TrainStep(t.Context(), batch)
				require.NoError(t, err)
				rest, err := s.Drain(t.Context())
				require.NoError(t, err)
				m := append(all, rest...)[0]
				assert.EqualValues(t, 3, m.Tokens, "pairs")
				near := func(name string, got float64) {
					assert.InDelta(t, want[name], got, 2e-5+1e-5*max(want[name], -want[name]), name)
				}
				figures := c.Objective.Row().Figures(m.Means)
				near("loss", m.Loss)
				assert.InEpsilon(t, want["grad_norm"], m.GradNorm, 1e-4)
				for _, name := range []string{"rewards_chosen", "rewards_rejected", "margin", "accuracy", "logps_chosen", "logps_rejected"} {
					near(name, figures[name])
				}
			})
		}
	}
}

func TestPairsRefused(t *testing.T) {
	def, _, batch, _ := pairCase(t, "orpo_qwen2")
	c := tinyConfig(t)
	c.Definition, c.Objective, c.Sequence, c.Batch = def, model.Objective{Loss: "orpo", Numbers: map[string]float64{"orpo_lambda": 1}}, 18, batch.Rows
	require.NoError(t, c.Validate())
	for want, spoil := range map[string]func(c *Config){
		"preference: found batch 3, wanted an even number": func(c *Config) { c.Batch = 3 },
		"preference: found evaluations of 5 sequences":     func(c *Config) { c.Evaluation = 5 },
		"preference: found sequences of documents":         func(c *Config) { c.Documents = true },
		"model: preference: orpo_lambda: found 0":          func(c *Config) { c.Objective = model.Objective{Loss: "orpo"} },
	} {
		wrong := c
		spoil(&wrong)
		require.ErrorContains(t, wrong.Validate(), want)
	}
	for i := range batch.Labels[18:36] {
		batch.Labels[18+i] = graph.IgnoreLabel
	}
	_, err := jobOf(t, c).count(batch)
	require.ErrorContains(t, err, "batch: pair 0: found a completion without labels, wanted some in both")
}
