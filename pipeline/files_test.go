package pipeline_test

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/gpu"
	"gputrain/hub"
	"gputrain/internal/gputest"
	"gputrain/internal/schedule"
	"gputrain/model"
	"gputrain/pipeline"
	"gputrain/state"
	"gputrain/state/checkpoint"
)

// goldens are models of whose training an independent program tells.
const goldens = "../cmd/gputrain/doctor/cases"

// quantizedFamilies have fused matrices, and weights the other way round; accumulating ones windows and caps, fused matrices, and positions that are learnt.
var (
	quantizedFamilies    = map[string]string{"phi3_fused": "nf4", "gpt2_tied": "affine"}
	accumulatingFamilies = []string{"gemma2_small", "phi3_fused", "gpt2_tied"}
)

// A model of each family that files are read of: it goes on from a checkpoint to the same bits, learns the same in two stages and with its layers computed
// again, and near the same in one microbatch.
func TestFamiliesOfFiles(t *testing.T) {
	gputest.Long(t, "TestFamilies")
	dirs, err := filepath.Glob("../model/testdata/models/*")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(dirs), 10)
	dev := gputest.Device(t)
	for _, from := range gputest.Rows(append(dirs, filepath.Join(goldens, "gpt2_tied")), 5) {
		if filepath.Base(from) == "qwen2_yarn" && !full() { // the family of qwen2_bias, turned by a table as llama_rope_llama3
			continue
		}
		t.Run(filepath.Base(from), func(t *testing.T) { familyOfFile(t, dev, from) })
	}
}

func familyOfFile(t *testing.T, dev *gpu.Device, from string) {
	const saved, end = 3, 6
	def, params, err := hub.ReadHF(from)
	require.NoError(t, err)
	if model.RoutingOf(def).Layers > 0 {
		def, err = model.WithBalance(def, 0.5)
		require.NoError(t, err)
	}
	c := steep(def, "adamw", "{}", 1, 2)
	c.Sequence = 12
	with := batches(c, 20)
	made := func(c state.Config) *state.TrainState {
		job, err := state.NewJob(c)
		require.NoError(t, err)
		s, err := state.CreateFrom(t.Context(), dev, job, params)
		require.NoError(t, err)
		t.Cleanup(s.Release)
		return s
	}
	dir := t.TempDir()
	half := filepath.Join(dir, checkpoint.DirName(saved))
	s := made(c)
	want := learnt{metrics: learn(t, s, with[:saved])}
	require.NoError(t, s.Save(t.Context(), half, checkpoint.Run{}))
	want.metrics = append(want.metrics, learn(t, s, with[saved:end])...)
	want.params = paramsOf(t, s)
	for _, h := range params {
		assert.NotEqual(t, h.Data, want.params[h.Path], "%s stood still", h.Path)
	}

	resumed, _, err := state.Load(t.Context(), dev, c, half)
	require.NoError(t, err)
	defer resumed.Release()
	sameBits(t, learnt{want.metrics[saved:], want.params}, learnt{learn(t, resumed, with[saved:end]), paramsOf(t, resumed)})

	again := c
	again.Recompute = model.RecomputeLayers
	recomputed := made(again)
	sameBits(t, want, learnt{learn(t, recomputed, with[:end]), paramsOf(t, recomputed)})

	cut, err := pipeline.Create(t.Context(), []*gpu.Device{dev, dev}, order(t, c, schedule.GPipe, 2), params)
	require.NoError(t, err)
	defer cut.Release()
	got := learnt{metrics: learn(t, cut, with[:end])}
	got.params = readParams(t, cut)
	sameBits(t, want, got)

	if slices.Contains(accumulatingFamilies, filepath.Base(from)) {
		together := c
		together.Batch, together.Microbatches = 2, 1
		for i, m := range learn(t, made(together), with[:saved]) {
			assert.InDelta(t, float64(want.metrics[i].Loss), float64(m.Loss), 1e-4, "step %d in one microbatch", i+1)
		}
	}
	if mode := quantizedFamilies[filepath.Base(from)]; mode != "" {
		q := c
		q.Definition, err = model.WithQuantization(def, model.Quantization{Mode: mode, Group: 8})
		require.NoError(t, err)
		m := learn(t, made(q), with)
		assert.NotEqual(t, want.metrics[0].Loss, m[0].Loss)
		assert.InDelta(t, float64(want.metrics[0].Loss), float64(m[0].Loss), 1)
		assert.Less(t, float64(m[len(m)-1].Loss), float64(m[0].Loss), "it learns")
	}
}
