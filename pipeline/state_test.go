package pipeline_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/gpu"
	"gputrain/graph"
	"gputrain/internal/gputest"
	"gputrain/internal/schedule"
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

// trained is losses, gradient norms and parameters after some steps.
type trained struct {
	losses, norms []float64
	params        map[string][]float32
}

func unpipelined(t *testing.T, dev *gpu.Device, c state.Config, steps int) trained {
	t.Helper()
	s, err := state.Create(t.Context(), dev, c)
	require.NoError(t, err)
	defer s.Release()
	var out trained
	for i := range steps {
		m, err := s.TrainStep(t.Context(), batch(c, i))
		require.NoError(t, err)
		out.add(m)
	}
	m, err := s.Drain(t.Context())
	require.NoError(t, err)
	out.add(m)
	out.params = map[string][]float32{}
	for _, p := range c.Definition.Params() {
		out.params[p.Path], err = s.Params().Read(t.Context(), p.Path)
		require.NoError(t, err)
	}
	return out
}

func (r *trained) add(metrics []state.Metrics) {
	for _, m := range metrics {
		r.losses, r.norms = append(r.losses, m.Loss), append(r.norms, m.GradNorm)
	}
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

func pipelined(t *testing.T, devices []*gpu.Device, c pipeline.Config, steps int) trained {
	t.Helper()
	s, err := pipeline.Create(t.Context(), devices, c, nil)
	require.NoError(t, err)
	defer s.Release()
	var out trained
	for i := range steps {
		m, err := s.TrainStep(t.Context(), batch(c.State, i))
		require.NoError(t, err)
		out.add(m)
	}
	m, err := s.Drain(t.Context())
	require.NoError(t, err)
	out.add(m)
	out.params = readParams(t, s)
	return out
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

func requireSame(t *testing.T, want, got trained) {
	t.Helper()
	require.Equal(t, want.losses, got.losses, "losses")
	require.Equal(t, want.norms, got.norms, "norms")
	for path, w := range want.params {
		g := got.params[path]
		require.Len(t, g, len(w), path)
		for i := range w {
			if math.Float32bits(w[i]) != math.Float32bits(g[i]) {
				require.Failf(t, "other bits", "%s element %d: %v, want %v", path, i, g[i], w[i])
			}
		}
	}
}

func TestPipelineWithoutAnAssignment(t *testing.T) {
	_, err := pipeline.Create(t.Context(), gputest.Several(t, 2), pipeline.Config{State: state.Config{Definition: tiny(t), Batch: 1, Optimizer: optim.Config{Name: "lion"}}}, nil)
	require.ErrorContains(t, err, "assignment: found none, wanted one")
}

func TestPipelineLearnsTheSameBits(t *testing.T) {
	devices := []*gpu.Device{gputest.Device(t), gputest.Device(t), gputest.Device(t), gputest.Device(t)}
	for _, m := range []int{1, 3} {
		c := config(tiny(t), "adamw", m)
		want := unpipelined(t, devices[0], c, 4)
		for _, name := range schedule.Names() {
			for stages := 2; stages <= 4; stages++ {
				chunks := 1
				if name == schedule.Interleaved {
					chunks = 2
					if stages*chunks > tinyLayers {
						continue
					}
				}
				t.Run(fmt.Sprintf("%d microbatches/%s/%d stages", m, name, stages), func(t *testing.T) {
					got := pipelined(t, devices[:stages], pipeline.Config{State: c, Assignment: assignment(t, c, stages, chunks), Schedule: name}, 4)
					requireSame(t, want, got)
					assert.Len(t, got.losses, 4)
				})
			}
		}
	}
}
