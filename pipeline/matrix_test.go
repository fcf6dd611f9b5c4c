package pipeline_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/internal/gputest"
	"gputrain/internal/schedule"
	"gputrain/model"
	"gputrain/optim"
	"gputrain/pipeline"
	"gputrain/run/data"
	"gputrain/state"
)

// optimizers are all of them, with parameters that make small leaves take the paths of large ones: those of these rows, and behind them what
// else is registered, with those of its own.
var optimizers = unlisted([]listed{
	{"adafactor", "adafactor", `{"min_dim_size_to_factor":8}`},
	{"adafactor momentum", "adafactor", `{"min_dim_size_to_factor":8,"momentum":0.9}`},
	{"adamw", "adamw", `{"mu_dtype":"bf16"}`},
	{"lion", "lion", `{}`},
	{"mars", "mars", `{"max_grad_norm":0.05}`}, // a second norm, of what is made of the clipped gradient
	{"muon", "muon", `{"adaptive":true,"normuon_b2":0.9}`},
	{"quad", "quad", `{"block_size":8,"max_size_dense":28,"refresh":{"every":2}}`},
	{"rmsprop", "rmsprop", `{"momentum":0.9,"centered":true}`},
	{"sgd", "sgd", `{"momentum":0.9}`},
	{"skew", "skew", `{"block_size":8,"max_size_dense":28,"whiten":"gradient"}`},
})

type listed struct{ label, name, parameters string }

// unlisted adds the registered optimizers that have no row.
func unlisted(rows []listed) []listed {
	for _, name := range optim.Names() {
		if !slices.ContainsFunc(rows, func(r listed) bool { return r.name == name }) {
			rows = append(rows, listed{name, name, smallOf(name)})
		}
	}
	return rows
}

// smallOf are the parameters for small leaves of a registered optimizer.
func smallOf(name string) string {
	o, err := optim.Find(name)
	if err != nil {
		panic(err)
	}
	return cmp.Or(o.Small, "{}")
}

// orders are the schedules, each with what it has besides.
var orders = []struct {
	label, name   string
	chunks, ahead int
}{
	{"gpipe", schedule.GPipe, 1, 0},
	{"1f1b", schedule.OneForwardOneBackward, 1, 0},
	{"1f1b ahead", schedule.OneForwardOneBackward, 1, 1},
	{"interleaved", schedule.Interleaved, 2, 0},
}

const (
	mostStages       = 4
	mostMicrobatches = 8
)

// full tells whether all combinations are asked for.
func full() bool { return os.Getenv("GPUTRAIN_FULL") == "1" }

// cell is a place of the matrix: indices of optimizers and orders, and numbers.
type cell struct{ optimizer, order, stages, microbatches int }

func (c cell) String() string {
	return fmt.Sprintf("%s/%s/%d stages", optimizers[c.optimizer].label, orders[c.order].label, c.stages)
}

// some tells which of the chosen cells are taken with -short: one of each optimizer, with each value of anything.
func some(optimizer, microbatches int) bool { return (optimizer+3*microbatches)%mostMicrobatches == 0 }

// cells of one optimizer and number of microbatches: all of them, or one chosen so that each two values of anything meet somewhere.
func cells(optimizer, microbatches int, all bool) []cell {
	if !all {
		return []cell{{optimizer, (optimizer + microbatches + microbatches/4) % len(orders), 2 + (optimizer+2*microbatches)%(mostStages-1), microbatches}}
	}
	var out []cell
	for order := range orders {
		for stages := 2; stages <= mostStages; stages++ {
			out = append(out, cell{optimizer, order, stages, microbatches})
		}
	}
	return out
}

// The selection leaves out no two values that could go wrong together.
func TestMatrixMeetsEachTwo(t *testing.T) {
	met, short := map[string]bool{}, map[string]bool{}
	for o := range optimizers {
		for m := 1; m <= mostMicrobatches; m++ {
			for _, c := range cells(o, m, false) {
				if some(o, m) {
					for what, value := range map[string]int{"optimizer": c.optimizer, "order": c.order, "stages": c.stages, "microbatches": c.microbatches} {
						short[fmt.Sprint(what, value)] = true
					}
				}
				met[fmt.Sprint("optimizer, order ", c.optimizer, c.order)] = true
				met[fmt.Sprint("optimizer, stages ", c.optimizer, c.stages)] = true
				met[fmt.Sprint("optimizer, microbatches ", c.optimizer, c.microbatches)] = true
				met[fmt.Sprint("order, stages ", c.order, c.stages)] = true
				met[fmt.Sprint("order, microbatches ", c.order, c.microbatches)] = true
				met[fmt.Sprint("stages, microbatches ", c.stages, c.microbatches)] = true
			}
		}
	}
	o, r, s, m := len(optimizers), len(orders), mostStages-1, mostMicrobatches
	assert.Len(t, met, o*r+o*s+o*m+r*s+r*m+s*m)
	assert.Len(t, short, o+r+s+m)
	names := map[string]bool{}
	for _, o := range optimizers {
		names[o.name] = true
	}
	for _, name := range optim.Names() {
		assert.True(t, names[name], name)
	}
}

// deep is a GPT-2 of eight units with a tied head: enough for four stages of two parts.
func deep(t testing.TB) model.Definition {
	t.Helper()
	def, err := model.NewGPT2(model.GPT2Config{Layers: 6, Heads: 2, Width: 8, Vocab: tinyVocab, Context: 4})
	require.NoError(t, err)
	return def
}

// steep is a run of def with rates at which every update counts, from the first, and a clip that is at work.
func steep(def model.Definition, optimizer, parameters string, batch, m int) state.Config {
	clip := 0.3
	return state.Config{
		Definition: def, Batch: batch, Microbatches: m, Seed: 7, Optimizer: optim.Config{
			Name: optimizer, Parameters: json.RawMessage(parameters), Options: optim.Options{
				Schedule: optim.ScheduleConfig{Type: "linear", LearningRate: 2e-2, LearningRateEnd: new(1e-3), Steps: 40}, ClipGrad: &clip, WeightDecay: 0.1,
				WeightDecayMask: optim.MaskMatrices(),
			},
		},
	}
}

// wrapped is a steep run of a GPT-2 with options around the update of its optimizer: matrices on spheres and floors, whose norms are of whole leaves, and
// what moves and remembers the weights.
func wrapped(def model.Definition, optimizer, parameters string, batch, m int) state.Config {
	c := steep(def, optimizer, parameters, batch, m)
	o := &c.Optimizer.Options
	switch optimizer {
	case "adamw", "skew", "soap":
		o.Hyperball, o.CautiousDecay, o.UpdateFloor = optim.Hyperball{Hidden: true}, true, 30
	case "muon", "lion":
		o.UpdateFloor, o.FloorBy = 3, "matrix"
	}
	switch optimizer {
	case "adamw", "quad", "soap":
		o.Lookahead = &optim.Lookahead{Scale: 0.5, Decay: 0.8, From: 1}
		o.Average = &optim.Averaging{From: 2, Horizon: 2, Blend: 0.6, Without: []string{"wpe"}}
	}
	return c
}

// learner is what learns, on however many stages.
type learner interface {
	TrainStep(ctx context.Context, batch data.Batch) ([]state.Metrics, error)
	Drain(ctx context.Context) ([]state.Metrics, error)
}

// learn makes an update with each batch.
func learn(t *testing.T, s learner, batches []data.Batch) []state.Metrics {
	t.Helper()
	var out []state.Metrics
	for _, b := range batches {
		m, err := s.TrainStep(t.Context(), b)
		require.NoError(t, err)
		out = append(out, m...)
	}
	m, err := s.Drain(t.Context())
	require.NoError(t, err)
	out = append(out, m...)
	require.Len(t, out, len(batches))
	return out
}

func batches(c state.Config, steps int) []data.Batch {
	var out []data.Batch
	for i := range steps {
		out = append(out, batch(c, i))
	}
	return out
}

// learnt is all that a run leaves that one can see: metrics of each step, and parameters.
type learnt struct {
	metrics []state.Metrics
	params  map[string][]float32
}

// alone is what one device learns.
func alone(t *testing.T, dev *gpu.Device, c state.Config, with []data.Batch) learnt {
	t.Helper()
	s, err := state.Create(t.Context(), dev, c)
	require.NoError(t, err)
	defer s.Release()
	return learnt{learn(t, s, with), paramsOf(t, s)}
}

func paramsOf(t *testing.T, s *state.TrainState) map[string][]float32 {
	t.Helper()
	out := map[string][]float32{}
	for _, leaf := range s.Params().Layout().Leaves() {
		data, err := s.Params().Read(t.Context(), leaf.Path)
		require.NoError(t, err)
		out[leaf.Path] = data
	}
	return out
}

// together is what stages learn.
func together(t *testing.T, devices []*gpu.Device, c pipeline.Config, with []data.Batch) learnt {
	t.Helper()
	s := create(t, devices, c)
	defer s.Release()
	out := learnt{metrics: learn(t, s, with)}
	out.params = readParams(t, s)
	return out
}

func create(t *testing.T, devices []*gpu.Device, c pipeline.Config) *pipeline.State {
	t.Helper()
	s, err := pipeline.Create(t.Context(), devices, c, nil)
	require.NoError(t, err)
	return s
}

// sameBits finds no difference, not of a NaN either.
func sameBits(t *testing.T, want, got learnt) {
	t.Helper()
	require.Len(t, got.metrics, len(want.metrics))
	for i, w := range want.metrics {
		require.Equal(t, fmt.Sprintf("%+v", w), fmt.Sprintf("%+v", got.metrics[i]), "step %d", i+1) // %v prints a float64 with all its digits
	}
	require.Len(t, got.params, len(want.params))
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

// Whatever the schedule, the number of stages and of microbatches, and the optimizer: stages of one kind of adapter learn what one device does.
// GPUTRAIN_FULL=1 takes all combinations through 20 steps (about half an hour), otherwise each two values meet in some run of 3. With -short
// each value is in some run.
func TestMatrix(t *testing.T) {
	steps := 3
	if full() {
		steps = 20
	}
	devices := fleet(t, mostStages)
	def := deep(t)
	for m := 1; m <= mostMicrobatches; m++ {
		t.Run(fmt.Sprintf("%d microbatches", m), func(t *testing.T) {
			for o, x := range optimizers {
				if testing.Short() && !full() && !some(o, m) {
					continue
				}
				c := wrapped(def, x.name, x.parameters, 1, m)
				with := batches(c, steps)
				want := alone(t, devices[0], c, with)
				moved(t, c, want)
				for _, cell := range cells(o, m, full()) {
					t.Run(cell.String(), func(t *testing.T) {
						order := orders[cell.order]
						sameBits(t, want, together(t, devices[:cell.stages], pipeline.Config{
							State: c, Assignment: assignment(t, c, cell.stages, order.chunks), Schedule: order.name, Ahead: order.ahead, Timeout: gputest.Patience,
						}, with))
					})
				}
			}
		})
	}
}

// Activations in bf16, products of f16 and an optimizer's state in eight bits have the bits of one device too: values are rounded, and blocks are cut, where
// the model says so, not where a stage ends. The matrices are large enough for eight bits.
func TestFewBitsOnStages(t *testing.T) {
	def, err := model.NewGPT2(model.GPT2Config{Layers: 3, Heads: 2, Width: 40, Vocab: tinyVocab, Context: 4})
	require.NoError(t, err)
	c := wrapped(def, "adamw", `{"state_dtype":"8bit"}`, 1, 3)
	c.Storage, c.RoundProducts = buffers.BF16, true
	devices, with := fleet(t, 3), batches(c, 3)
	want := alone(t, devices[0], c, with)
	moved(t, c, want)
	sameBits(t, want, together(t, devices, pipeline.Config{State: c, Assignment: assignment(t, c, 3, 1), Timeout: gputest.Patience}, with))
	if testing.Short() {
		return
	}
	for _, other := range []func(c *state.Config){
		func(c *state.Config) { c.Storage = buffers.F32 },
		func(c *state.Config) { c.RoundProducts = false },
		func(c *state.Config) { c.Optimizer.Parameters = json.RawMessage(`{}`) },
	} {
		o := c
		other(&o)
		require.NotEqual(t, want.params, alone(t, devices[0], o, with).params, "each of the three is at work")
	}
}

// Stages know of the whole model how matrices lie and in which order its leaves draw, which eleven layers tell from the order of paths.
func TestStagesKnowTheModel(t *testing.T) {
	def, err := model.NewLlama(model.LlamaConfig{Layers: 11, Heads: 2, Width: 8, Vocab: tinyVocab, Context: 4})
	require.NoError(t, err)
	devices := fleet(t, 3)
	for _, o := range []listed{{"muon", "muon", `{}`}, {"quad", "quad", `{"block_size":8,"noise_scale":0.1}`}} {
		c := steep(def, o.name, o.parameters, 1, 3)
		c.Optimizer.Options.Numerics = optim.EFormer
		with := batches(c, 2)
		want := alone(t, devices[0], c, with)
		sameBits(t, want, together(t, devices, pipeline.Config{State: c, Assignment: assignment(t, c, 3, 1), Timeout: gputest.Patience}, with))
		c.Optimizer.Options.Edition = optim.First
		require.NotEqual(t, want.params, alone(t, devices[0], c, with).params, "both are at work")
	}
}

// fleet is several devices of one kind.
func fleet(t testing.TB, n int, options ...gputest.Option) []*gpu.Device {
	t.Helper()
	var out []*gpu.Device
	for range n {
		out = append(out, gputest.Device(t, options...))
	}
	return out
}

// moved makes sure that a run did something to every leaf: equal runs that stand still would show nothing.
func moved(t *testing.T, c state.Config, r learnt) {
	t.Helper()
	for _, h := range model.Init(c.Definition, c.Seed) {
		require.NotEqual(t, h.Data, r.params[h.Path], h.Path)
	}
	for _, m := range r.metrics {
		require.True(t, m.Finite)
	}
	require.Greater(t, r.metrics[0].GradNorm, *c.Optimizer.Options.ClipGrad, "the clip is at work at first")
}
