package pipeline_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gputrain/gpu"
	"gputrain/graph"
	"gputrain/internal/gputest"
	"gputrain/model"
	"gputrain/optim"
	"gputrain/pipeline"
	"gputrain/pipeline/partition"
	"gputrain/run/data"
	"gputrain/state"
)

const tinyLayers, tinyVocab, tinySequence = 4, 29, 16

// tiny is a GPT-2 whose head is its embedding.
func tiny(t testing.TB) model.Definition {
	t.Helper()
	def, err := model.NewGPT2(model.GPT2Config{Layers: tinyLayers, Heads: 2, Width: 16, Vocab: tinyVocab, Context: tinySequence})
	require.NoError(t, err)
	return def
}

// config is a run of def with m microbatches an update, clipped.
func config(def model.Definition, optimizer string, m int) state.Config {
	clip := 0.5
	return state.Config{
		Definition: def, Batch: 2, Microbatches: m, Seed: 7, Optimizer: optim.Config{Name: optimizer, Options: optim.Options{
			Schedule: optim.ScheduleConfig{Type: "cosine", LearningRate: 3e-3, WarmupSteps: 3, Steps: 40}, ClipGrad: &clip, WeightDecay: 0.1,
			WeightDecayMask: optim.MaskMatrices(),
		}},
	}
}

// batches are of c's shape, some labels left out, so that microbatches do not weigh the same.
func batch(c state.Config, step int) data.Batch {
	job, _ := state.NewJob(c) // for its defaults
	c = job.Config
	rows := c.Batch * c.Microbatches
	b := data.Batch{Rows: rows}
	for i := range rows * c.Sequence {
		b.Tokens = append(b.Tokens, int32((i*i+31*i+17*step)%tinyVocab))
		label := int32((i*i + 32*i + 17*step + 5) % tinyVocab)
		if (i+step)%7 == 0 {
			label = graph.IgnoreLabel
		} else {
			b.Count++
		}
		b.Labels = append(b.Labels, label)
	}
	return b
}

func assignment(t testing.TB, c state.Config, stages, chunks int) partition.Assignment {
	t.Helper()
	job, err := state.NewJob(c)
	require.NoError(t, err)
	built, err := c.Definition.Build(c.Batch, job.Sequence, model.Options{Loss: true})
	require.NoError(t, err)
	units, err := partition.Units(built)
	require.NoError(t, err)
	power := make([]partition.Power, stages)
	for i := range power {
		power[i] = partition.Power{Speed: gpu.Speed{FLOPS: 1e9, BytesPerSecond: 1e9}}
	}
	a, err := partition.Auto(units, stages, chunks, power)
	require.NoError(t, err)
	return a
}

// readParams reads all parameters.
func readParams(t *testing.T, s *pipeline.State) map[string][]float32 {
	t.Helper()
	out := map[string][]float32{}
	params, _ := s.Trees()
	for _, tree := range params {
		for _, leaf := range tree.Layout().Leaves() {
			var err error
			out[leaf.Path], err = tree.Read(t.Context(), leaf.Path)
			require.NoError(t, err)
		}
	}
	return out
}

func TestPipelineWithoutAnAssignment(t *testing.T) {
	_, err := pipeline.Create(t.Context(), gputest.Several(t, 2), pipeline.Config{State: state.Config{Definition: tiny(t), Batch: 1, Optimizer: optim.Config{Name: "lion"}}}, nil)
	require.ErrorContains(t, err, "assignment: found none, wanted one")
}
