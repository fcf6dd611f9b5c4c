package state

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/graph"
	"gputrain/internal/gputest"
	"gputrain/model"
	"gputrain/optim"
	"gputrain/run/data"
	"gputrain/state/checkpoint"
)

// aheadCase is the network of a case, a configuration of a loss that looks at all rows of an update, the updates of the case, and its metrics.
func aheadCase(t *testing.T, name, loss string) (c Config, params []buffers.Host, updates []data.Batch, metrics []map[string]float64) {
	t.Helper()
	def, params, read := adapterCase(t, "kto", name)
	var of struct {
		Batch       int
		Metrics     []map[string]float64
		Beta        float64
		Undesirable float64 `json:"undesirable_weight"`
	}
	require.NoError(t, json.Unmarshal(read("case.json"), &of))
	const seq = 18
	for i, line := range strings.Split(strings.TrimSpace(string(read("rows.jsonl"))), "\n") {
		var row struct {
			Prompt, Completion []int32
			Label              bool
		}
		require.NoError(t, json.Unmarshal([]byte(line), &row))
		if i%of.Batch == 0 {
			updates = append(updates, data.Batch{Rows: of.Batch, Tokens: make([]int32, of.Batch*seq), Labels: slices.Repeat([]int32{graph.IgnoreLabel}, of.Batch*seq)})
		}
		b, ids := &updates[len(updates)-1], slices.Concat(row.Prompt, row.Completion)
		copy(b.Tokens[i%of.Batch*seq:], ids[:len(ids)-1])
		copy(b.Labels[i%of.Batch*seq+len(row.Prompt)-1:], row.Completion)
		b.SetBeside(model.InputGood, i%of.Batch, map[bool]float32{true: 1}[row.Label])
	}
	c = tinyConfig(t)
	c.Definition, c.Sequence, c.Evaluation, c.Base = def, seq, 4, filepath.Join("..", "model", "testdata", "kto", name, "base")
	c.Optimizer = optim.Config{Name: "adamw", Parameters: json.RawMessage(`{"b1":0.9,"b2":0.999,"eps":1e-5}`), Options: optim.Options{
		Schedule: optim.ScheduleConfig{Type: "constant", LearningRate: 0.004}, Numerics: optim.EFormer,
	}}
	c.Objective = model.Objective{Loss: loss, Numbers: map[string]float64{"beta": of.Beta}}
	if c.Objective.Row().Group == 1 {
		c.Objective.Numbers["desirable_weight"], c.Objective.Numbers["undesirable_weight"] = 1, max(1, of.Undesirable)
	}
	c.Frozen = nil
	return c, params, updates, of.Metrics
}

// updated makes updates, of which a replica is given its share, and leaves a checkpoint in dir.
func updated(t *testing.T, dev *gpu.Device, c Config, params []buffers.Host, updates []data.Batch, dir string) (all []Metrics, files map[string]string) {
	s, err := CreateFrom(t.Context(), dev, jobOf(t, c), params)
	if !assert.NoError(t, err) {
		return nil, nil
	}
	defer s.Release()
	share := s.job.Share()
	for _, b := range updates {
		m, err := s.TrainStep(t.Context(), b.Part(data.Share{First: share.First * c.Batch, Rows: share.Count * c.Batch}))
		if !assert.NoError(t, err) {
			return nil, nil
		}
		all = append(all, m...)
	}
	rest, err := s.Drain(t.Context())
	assert.NoError(t, err)
	assert.NoError(t, s.Save(t.Context(), dir, checkpoint.Run{}))
	files = map[string]string{}
	for _, name := range []string{model.AdapterWeightsFile, "model.safetensors", checkpoint.OptimizerFile, checkpoint.RecordFile} {
		if raw, err := os.ReadFile(filepath.Join(dir, name)); err == nil {
			files[name] = string(raw)
		}
	}
	return append(all, rest...), files
}

// TestAheadOfUpdates: what is found of all rows of an update is the case's, however the update is cut into microbatches, and with the same bits on two and three
// replicas.
func TestAheadOfUpdates(t *testing.T) {
	dev := gputest.Device(t)
	for loss, name := range map[string]string{"kto": "kto_llama", "bco": "bco_qwen3", "aot": "kto_llama", "aot_unpaired": "kto_llama"} {
		var first []Metrics
		for _, micro := range []int{1, 2, 4} {
			t.Run(fmt.Sprint(loss, micro), func(t *testing.T) {
				c, params, updates, want := aheadCase(t, name, loss)
				if c.Batch, c.Microbatches = 4/micro, micro; c.Batch%c.Objective.Row().Group != 0 {
					t.Skip("a pair is not cut")
				}
				c.Evaluation = 4
				got, files := updated(t, dev, c, params, updates, t.TempDir()+"/one")
				require.Len(t, got, len(updates))
				if first == nil {
					first = got
				}
				for i, m := range got {
					figures := c.Objective.Row().Figures(m.Means)
					assert.InDelta(t, first[i].Loss, m.Loss, 1e-5, "step %d", i)
					assert.InDelta(t, first[i].GradNorm, m.GradNorm, 1e-4, "step %d", i)
					if c.Objective.Row().Group == 2 {
						continue
					}
					for name, value := range want[i] {
						switch name {
						case "loss":
							assert.InDelta(t, value, m.Loss, 3e-5, "step %d", i)
						case "grad_norm":
							assert.InEpsilon(t, value, m.GradNorm, 2e-4, "step %d", i)
						default:
							assert.InDelta(t, value, figures[name], 1e-3, "step %d %s", i, name)
						}
					}
				}
				for _, n := range []int{2, 3} { // some without a microbatch
					var all sync.WaitGroup
					for rank, c := range inReplicas(c, n) {
						dir := filepath.Join(t.TempDir(), fmt.Sprint(rank))
						all.Go(func() {
							m, own := updated(t, dev, c, params, updates, dir)
							assert.Equal(t, got, m, "replica %d of %d", rank, n)
							assert.True(t, maps.Equal(files, own), "replica %d of %d: other files", rank, n)
						})
					}
					all.Wait()
				}
			})
		}
	}
}

// TestAheadIsRemembered: the running mean of bco goes on from a checkpoint, and an evaluation uses it as it is.
func TestAheadIsRemembered(t *testing.T) {
	dev := gputest.Device(t)
	c, params, updates, _ := aheadCase(t, "bco_qwen3", "bco")
	whole, files := updated(t, dev, c, params, updates, t.TempDir()+"/whole")
	half := filepath.Join(t.TempDir(), "half")
	_, _ = updated(t, dev, c, params, updates[:2], half)
	for _, forgotten := range []bool{false, true} {
		s, record, err := Load(t.Context(), dev, c, half)
		require.NoError(t, err)
		defer s.Release()
		assert.EqualValues(t, 8, record.Memory["count"])
		if forgotten {
			s.own.Memory = nil
		}
		e, err := data.NewEvaluation(&oneBatch{updates[2]}, c.Sequence, 4, 0)
		require.NoError(t, err)
		found, err := s.Evaluate(t.Context(), e)
		require.NoError(t, err)
		figures := c.Objective.Row().Figures(found.Means)
		assert.InDelta(t, s.own.Memory["mean"], figures["delta"], 1e-6)
		assert.Equal(t, found, measured(t, s, c, s.own.Memory, e))
		m, err := s.TrainStep(t.Context(), updates[2])
		require.NoError(t, err)
		rest, err := s.Drain(t.Context())
		require.NoError(t, err)
		got := append(m, rest...)[0]
		dir := filepath.Join(t.TempDir(), "again")
		require.NoError(t, s.Save(t.Context(), dir, checkpoint.Run{}))
		raw, err := os.ReadFile(filepath.Join(dir, checkpoint.RecordFile))
		require.NoError(t, err)
		assert.Equal(t, !forgotten, got.Means[5] == whole[2].Means[5] && got.Loss == whole[2].Loss, "delta and loss")
		assert.Equal(t, !forgotten, string(raw) == files[checkpoint.RecordFile], "record")
	}
}

// measured is what the model of a state alone gives of an evaluation.
func measured(t *testing.T, s *TrainState, c Config, memory map[string]float64, e *data.Evaluation) EvalResult {
	t.Helper()
	m := borrowing(c.Definition, s.own.Params, s.own.Frozen, c.Sequence)
	defer m.Release()
	require.NoError(t, m.Measure(c.Objective, memory))
	found, err := m.Evaluate(t.Context(), e)
	require.NoError(t, err)
	return found
}

// oneBatch is a source of the rows of a batch.
type oneBatch struct{ data.Batch }

func (b *oneBatch) Vocab() int                            { return 1 << 20 }
func (b *oneBatch) Walk(int, uint64) (data.Walk, error)   { panic("unused") }
func (b *oneBatch) Shelf(context int) (data.Shelf, error) { return b, nil }
func (b *oneBatch) Windows() int64                        { return int64(b.Rows) }
func (b *oneBatch) Fill(to *data.Batch, row int, i int64) error {
	part := b.Part(data.Share{First: int(i), Rows: 1})
	to.Put(row, 0, part.Tokens, part.Labels)
	for name, values := range part.Beside {
		to.SetBeside(name, row, values[0])
	}
	return nil
}

// TestEvaluationLooksAtItsRows: z0 of an evaluation is that of an update of the same rows, in one batch with rows of padding behind them, in several, and in
// a part of the evaluation.
func TestEvaluationLooksAtItsRows(t *testing.T) {
	dev := gputest.Device(t)
	c, params, updates, want := aheadCase(t, "kto_llama", "kto")
	for _, size := range []int{4, 7, 3, 1} {
		c.Evaluation = size
		s, err := CreateFrom(t.Context(), dev, jobOf(t, c), params)
		require.NoError(t, err)
		defer s.Release()
		took, err := s.Rehearse(t.Context(), 1)
		require.NoError(t, err)
		assert.Positive(t, took)
		e, err := data.NewEvaluation(&oneBatch{updates[0]}, c.Sequence, size, 0)
		require.NoError(t, err)
		found, err := s.Evaluate(t.Context(), e)
		require.NoError(t, err)
		assert.InDelta(t, want[0]["loss"], found.Loss, 1e-5)
		assert.InDelta(t, want[0]["kl"], c.Objective.Row().Figures(found.Means)["kl"], 1e-5)
		assert.Equal(t, found, measured(t, s, c, nil, e))
		part, err := e.Part(e.Batches()-1, 1)
		require.NoError(t, err)
		found, err = s.Evaluate(t.Context(), part)
		require.NoError(t, err)
		assert.InDelta(t, want[0]["kl"], c.Objective.Row().Figures(found.Means)["kl"], 1e-5)
	}
}

func TestAheadRefused(t *testing.T) {
	c, _, updates, _ := aheadCase(t, "kto_llama", "kto")
	for want, spoil := range map[string]func(c *Config, b *data.Batch){
		"found updates of one row, wanted two or more":    func(c *Config, _ *data.Batch) { c.Batch = 1 },
		`good: found 0 numbers beside the rows, wanted 4`: func(_ *Config, b *data.Batch) { b.Beside = nil },
		"row 2: label: found 2, wanted 1 (good) or 0":     func(_ *Config, b *data.Batch) { b.Beside[model.InputGood][2] = 2 },
		"row 1: found a completion without labels": func(_ *Config, b *data.Batch) {
			for i := range 18 {
				b.Labels[18+i] = graph.IgnoreLabel
			}
		},
		"row 3: found 21 tokens of its prompt and the completion of the row before it, wanted at most 19": func(_ *Config, b *data.Batch) {
			for i := range 18 {
				b.Labels[2*18+i] = 1
			}
		},
	} {
		c, b := c, updates[0].Part(data.Share{Rows: 4})
		b.Labels = slices.Clone(b.Labels)
		b.Beside = map[string][]float32{model.InputGood: slices.Clone(b.Beside[model.InputGood])}
		spoil(&c, &b)
		j, err := NewJob(c)
		if err == nil {
			_, err = j.count(b)
		}
		require.ErrorContains(t, err, want)
	}
}
