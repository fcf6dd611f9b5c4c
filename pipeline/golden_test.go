package pipeline_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/buffers/safetensors"
	"gputrain/gpu"
	"gputrain/hub"
	"gputrain/internal/gputest"
	"gputrain/internal/schedule"
	"gputrain/model"
	"gputrain/optim"
	"gputrain/pipeline"
	"gputrain/run/data"
	"gputrain/state"
	"gputrain/state/checkpoint"
)

// goldens are models whose losses, first gradients and last parameters an independent float64 program made.
const goldens = "../cmd/gputrain/doctor/cases"

// bound is how far a number may be from one of a case, as the case says.
type bound struct {
	RTol, ATol float64
	ATolRelMax float64 `json:"atol_rel_max"` // of the largest number of the tensor
}

type golden struct {
	Steps, Batch int
	SeqLen       int `json:"seq_len"`
	Losses       []float64
	Optimizer    string
	Config       json.RawMessage
	Schedule     optim.ScheduleConfig
	WeightDecay  float64 `json:"weight_decay"`
	Tolerance    struct {
		Loss, Grads bound
		FinalParams bound `json:"final_params"`
	}

	tensors *safetensors.File
	def     model.Definition
	params  []buffers.Host
}

func readGolden(t *testing.T, name string) *golden {
	t.Helper()
	g, dir := &golden{}, filepath.Join(goldens, name)
	raw, err := os.ReadFile(filepath.Join(dir, "case.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(raw, g))
	g.def, g.params, err = hub.ReadHF(dir)
	require.NoError(t, err)
	g.tensors, err = safetensors.Open(filepath.Join(dir, "tensors.safetensors"))
	require.NoError(t, err)
	t.Cleanup(func() { g.tensors.Close() })
	return g
}

// batches are those of all steps.
func (g *golden) batches(t *testing.T) []data.Batch {
	t.Helper()
	all, err := g.tensors.Int32("tokens")
	require.NoError(t, err)
	out := make([]data.Batch, g.Steps)
	for step := range out {
		b := &out[step]
		b.Rows, b.Count = g.Batch, g.Batch*g.SeqLen
		for row := range g.Batch {
			window := all[(step*g.Batch+row)*(g.SeqLen+1):][:g.SeqLen+1]
			b.Tokens = append(b.Tokens, window[:g.SeqLen]...)
			b.Labels = append(b.Labels, window[1:]...)
		}
	}
	return out
}

// near compares a tensor with one of the case.
func (g *golden) near(t *testing.T, name string, got []float32, within bound) {
	t.Helper()
	want, err := g.tensors.Float32(name)
	require.NoError(t, err)
	require.Len(t, got, len(want), name)
	largest := 0.0
	for _, w := range want {
		largest = max(largest, math.Abs(float64(w)))
	}
	for i, w := range want {
		allowed := within.ATol + within.RTol*math.Abs(float64(w)) + within.ATolRelMax*largest
		require.True(t, math.Abs(float64(got[i])-float64(w)) <= allowed, "%s[%d]: got %v, want %v within %v", name, i, got[i], w, allowed)
	}
}

// create makes the case's model on some devices, to be trained by some optimizer in m microbatches.
func (g *golden) create(t *testing.T, devices []*gpu.Device, optimizer optim.Config, kind string, m int) *pipeline.State {
	t.Helper()
	c := state.Config{Definition: g.def, Batch: g.Batch / m, Microbatches: m, Sequence: g.SeqLen, Optimizer: optimizer}
	s, err := pipeline.Create(t.Context(), devices, order(t, c, kind, len(devices)), g.params)
	require.NoError(t, err)
	return s
}

// Models cut in two and in three learn what an independent program learns: the loss of each step, the parameters at the end, and the gradient of the
// first step, which is the first trace of stochastic gradient descent with momentum, as a checkpoint has it.
func TestGoldenModelsInParts(t *testing.T) {
	gputest.Long(t, "doctor.TestStagesFollowFamilies")
	devices := fleet(t, 3)
	for name, microbatches := range map[string]int{"gpt2_tied": 3, "llama_mha": 2, "llama_gqa": 2} {
		g := readGolden(t, name)
		with := g.batches(t)
		for stages := 2; stages <= 3; stages++ {
			kind := []string{schedule.GPipe, schedule.OneForwardOneBackward}[stages-2]
			t.Run(fmt.Sprintf("%s/%d stages", name, stages), func(t *testing.T) {
				s := g.create(t, devices[:stages], optim.Config{Name: g.Optimizer, Parameters: g.Config, Options: optim.Options{
					Schedule: g.Schedule, WeightDecay: g.WeightDecay, Numerics: optim.EFormer,
				}}, kind, microbatches)
				defer s.Release()
				for i, m := range learn(t, s, with) {
					assert.InDelta(t, g.Losses[i], m.Loss, g.Tolerance.Loss.ATol+g.Tolerance.Loss.RTol*g.Losses[i], "step %d", m.Step)
				}
				params := readParams(t, s)
				for path, p := range params {
					g.near(t, "expect/final/params/"+path, p, g.Tolerance.FinalParams)
				}

				tracing := g.create(t, devices[:stages], optim.Config{Name: "sgd", Parameters: json.RawMessage(`{"momentum":0.5}`)}, kind, microbatches)
				defer tracing.Release()
				first := learn(t, tracing, with[:1])[0]
				dir := filepath.Join(t.TempDir(), checkpoint.DirName(1))
				require.NoError(t, tracing.Save(t.Context(), dir, checkpoint.Run{}))
				saved, err := safetensors.Open(filepath.Join(dir, "optimizer.safetensors"))
				require.NoError(t, err)
				defer saved.Close()
				norm := 0.0
				for _, p := range g.def.Params() {
					grad, err := saved.Float32("trace/" + p.Path)
					require.NoError(t, err)
					g.near(t, "expect/0/grads/"+p.Path, grad, g.Tolerance.Grads)
					want, err := g.tensors.Float32("expect/0/grads/" + p.Path)
					require.NoError(t, err)
					for _, w := range want {
						norm += float64(w) * float64(w)
					}
				}
				assert.InEpsilon(t, math.Sqrt(norm), first.GradNorm, g.Tolerance.Grads.RTol)
			})
		}
	}
}
