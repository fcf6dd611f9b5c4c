package state

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/graph"
	"gputrain/internal/gputest"
	"gputrain/model"
	"gputrain/optim"
	"gputrain/run/data"
	"gputrain/run/data/texts"
	"gputrain/state/checkpoint"
)

// The tiny model of these tests: vocabulary V, context T.
const testV, testT = 32, 16

func tinyModel(t testing.TB, dropout float64) model.Definition {
	t.Helper()
	def, err := model.NewGPT2(model.GPT2Config{Layers: 2, Heads: 2, Width: 16, Vocab: testV, Context: testT, EmbeddingDropout: dropout, ResidualDropout: dropout})
	require.NoError(t, err)
	return def
}

// wideModel has leaves that are large enough for state in eight bits, and others.
func wideModel(t testing.TB) model.Definition {
	t.Helper()
	def, err := model.NewGPT2(model.GPT2Config{Layers: 2, Heads: 2, Width: 36, Vocab: testV, Context: testT})
	require.NoError(t, err)
	return def
}

func tinyOptimizer() optim.Config {
	clip := 1.0
	return optim.Config{Name: "adamw", Options: optim.Options{
		Schedule: optim.ScheduleConfig{Type: "cosine", LearningRate: 1e-2, LearningRateEnd: new(1e-3), WarmupSteps: 2, Steps: 20},
		ClipGrad: &clip, WeightDecay: 0.1, WeightDecayMask: optim.MaskMatrices(),
	}}
}

func tinyConfig(t testing.TB) Config {
	return Config{Definition: tinyModel(t, 0), Optimizer: tinyOptimizer(), Batch: 4, Seed: 7}
}

// tinyBatch is a batch that is a function of its number: a sequence that can be learned, in which, when ragged, more and more labels of
// each row are ignored.
func tinyBatch(number, rows int, ragged bool) data.Batch {
	b := data.Batch{Rows: rows}
	for r := range rows {
		for i := range testT {
			b.Tokens = append(b.Tokens, int32((number*7+r*5+i*3)%testV))
			label := int32((number*7 + r*5 + i*3 + 3) % testV)
			if ragged && i > testT-2*r {
				label = graph.IgnoreLabel
			} else {
				b.Count++
			}
			b.Labels = append(b.Labels, label)
		}
	}
	return b
}

func create(t *testing.T, dev *gpu.Device, c Config) *TrainState {
	t.Helper()
	s, err := Create(t.Context(), dev, c)
	require.NoError(t, err)
	t.Cleanup(s.Release)
	return s
}

// train makes steps up to a number and returns all their metrics.
func train(t *testing.T, s *TrainState, to int64) []Metrics {
	t.Helper()
	var all []Metrics
	for s.Step() < to {
		m, err := s.TrainStep(t.Context(), tinyBatch(int(s.Step()), s.job.Batch*s.job.Microbatches, false))
		require.NoError(t, err)
		all = append(all, m...)
	}
	m, err := s.Drain(t.Context())
	require.NoError(t, err)
	return append(all, m...)
}

func TestTrainStepLearns(t *testing.T) {
	gputest.Each(t, func(t *testing.T, dev *gpu.Device) {
		s := create(t, dev, tinyConfig(t))
		got := train(t, s, 20)
		require.Len(t, got, 20)
		for i, m := range got {
			assert.EqualValues(t, i+1, m.Step)
			assert.EqualValues(t, 4*testT, m.Tokens)
			assert.True(t, m.Finite)
			assert.Greater(t, m.GradNorm, 0.0)
		}
		assert.InDelta(t, math.Log(testV), got[0].Loss, 0.1, "an untrained model knows nothing")
		assert.Less(t, got[19].Loss, got[0].Loss-1)
		assert.InDelta(t, 1e-3, got[19].LearningRate, 5e-4)
		assert.Contains(t, s.String(), "gpt2 with")
	})
}

// The loss and the gradient norm of the first step are those of the graph's float64 twin.
func TestFirstStepAgainstTwin(t *testing.T) {
	dev := gputest.Device(t)
	c := tinyConfig(t)
	s := create(t, dev, c)
	batch := tinyBatch(0, c.Batch, true)
	_, err := s.TrainStep(t.Context(), batch)
	require.NoError(t, err)
	got, err := s.Drain(t.Context())
	require.NoError(t, err)

	built, err := c.Definition.Build(c.Batch, testT, model.Options{Loss: true})
	require.NoError(t, err)
	grads, err := graph.Gradients(built.Graph, built.Loss, built.Params)
	require.NoError(t, err)
	feeds := map[string]*graph.Array{model.InputLossScale: {Data: []float64{1 / float64(batch.Count)}}}
	feeds[model.InputTokens] = &graph.Array{Shape: []int{c.Batch, testT}}
	feeds[model.InputLabels] = &graph.Array{Shape: []int{c.Batch * testT}}
	for i := range batch.Tokens {
		feeds[model.InputTokens].Data = append(feeds[model.InputTokens].Data, float64(batch.Tokens[i]))
		feeds[model.InputLabels].Data = append(feeds[model.InputLabels].Data, float64(batch.Labels[i]))
	}
	for _, h := range model.Init(c.Definition, c.Seed) {
		a := &graph.Array{Shape: h.Shape}
		for _, v := range h.Data {
			a.Data = append(a.Data, float64(v))
		}
		feeds[h.Path] = a
	}
	want, err := graph.Eval(built.Graph, feeds, append([]*graph.Value{built.Loss}, grads...)...)
	require.NoError(t, err)
	square := 0.0
	for _, g := range want[1:] {
		for _, v := range g.Data {
			square += v * v
		}
	}
	// f32 sums of some thousand terms: a few eps of 6e-8 each.
	assert.InEpsilon(t, want[0].Data[0], got[0].Loss, 1e-5)
	assert.InEpsilon(t, math.Sqrt(square), got[0].GradNorm, 1e-5)
	assert.EqualValues(t, batch.Count, got[0].Tokens)
	assert.NotEqual(t, c.Batch*testT, batch.Count, "the batch is ragged")
}

// k microbatches are one large batch, token by token, on data whose microbatches have different numbers of labels.
func TestAccumulationIsTokenWeighted(t *testing.T) {
	dev := gputest.Device(t)
	type outcome struct {
		metrics []Metrics
		params  []buffers.Host
	}
	run := func(batch, accumulate int) outcome {
		c := tinyConfig(t)
		c.Batch, c.Microbatches = batch, accumulate
		s := create(t, dev, c)
		var o outcome
		for i := range 3 {
			m, err := s.TrainStep(t.Context(), tinyBatch(i, 4, true))
			require.NoError(t, err)
			o.metrics = append(o.metrics, m...)
		}
		m, err := s.Drain(t.Context())
		require.NoError(t, err)
		o.metrics = append(o.metrics, m...)
		o.params, err = s.Params().Download(t.Context())
		require.NoError(t, err)
		return o
	}
	one := run(4, 1)
	for _, k := range []int{2, 4} {
		other := run(4/k, k)
		for i, m := range other.metrics {
			// The sums are grouped otherwise, and steps of Adam divide by small second moments.
			assert.InEpsilon(t, one.metrics[i].Loss, m.Loss, 1e-5, "k %d step %d", k, i+1)
			assert.InEpsilon(t, one.metrics[i].GradNorm, m.GradNorm, 1e-4, "k %d step %d", k, i+1)
			assert.Equal(t, one.metrics[i].Tokens, m.Tokens)
		}
		worst := 0.0
		for i, h := range other.params {
			for j, v := range h.Data {
				worst = max(worst, math.Abs(float64(v)-float64(one.params[i].Data[j])))
			}
		}
		assert.Less(t, worst, 2e-3, "k %d: parameters after three steps of up to 0.01", k)
	}
}

// A step after the second makes nothing, and does the same amount of work every time.
func TestStepCreatesNothing(t *testing.T) {
	for _, accumulate := range []int{1, 3} {
		t.Run(fmt.Sprint(accumulate), func(t *testing.T) {
			dev := gputest.Device(t)
			c := tinyConfig(t)
			c.Microbatches = accumulate
			s := create(t, dev, c)
			step := func() gpu.Counters {
				before := dev.Counters()
				_, err := s.TrainStep(t.Context(), tinyBatch(int(s.Step()), c.Batch*accumulate, false))
				require.NoError(t, err)
				<-s.awaited
				after := dev.Counters()
				assert.Equal(t, before.LiveBytes, after.LiveBytes)
				return gpu.Counters{
					Pipelines: after.Pipelines - before.Pipelines, BindGroups: after.BindGroups - before.BindGroups, Buffers: after.Buffers - before.Buffers,
					Dispatches: after.Dispatches - before.Dispatches, Submits: after.Submits - before.Submits, Readbacks: after.Readbacks - before.Readbacks,
					WrittenBytes: after.WrittenBytes - before.WrittenBytes, ReadBytes: after.ReadBytes - before.ReadBytes,
				}
			}
			step()
			step()
			third := step()
			assert.Zero(t, third.Pipelines)
			assert.Zero(t, third.BindGroups)
			assert.Zero(t, third.Buffers)
			assert.EqualValues(t, accumulate, third.Submits, "one a microbatch")
			assert.EqualValues(t, 1, third.Readbacks)
			assert.EqualValues(t, s.results.Bytes(), third.ReadBytes)
			sums := (accumulate - 1) * len(s.Params().Layout().Slabs()) // behind all but the first of three
			assert.EqualValues(t, uint64(accumulate*s.passes.(*onDevice).compute.Dispatches()+sums+s.updater.stages[0].pieces[optim.Emit][0].Dispatches()), third.Dispatches)
			// Norm of each slab, by leaf, their total, what it is held to, and one update a slab.
			slabs := len(s.Params().Layout().Slabs())
			assert.Equal(t, 2*slabs+3, s.updater.stages[0].pieces[optim.Emit][0].Dispatches())
			assert.Less(t, third.WrittenBytes, uint64(accumulate*4*testT*4*10), "inputs and what is derived from them")
			for range 3 {
				assert.Equal(t, third, step())
			}
		})
	}
}

// A batch that cannot be meant is refused before anything is submitted, and the state goes on.
func TestWrongBatchesAreRefused(t *testing.T) {
	s := create(t, gputest.Device(t), tinyConfig(t))
	for _, wrong := range []struct {
		change func(*data.Batch)
		says   string
	}{
		{func(b *data.Batch) { b.Tokens[testT+3] = testV }, "batch: row 1: token 3: found 32, wanted 0 to 31"},
		{func(b *data.Batch) { b.Tokens[0] = -1 }, "batch: row 0: token 0: found -1, wanted 0 to 31"},
		{func(b *data.Batch) { b.Labels[2*testT] = testV + 9 }, "batch: row 2: label 0: found 41, wanted 0 to 31, or -100 for one that does not count"},
		{func(b *data.Batch) { b.Labels[5] = -1 }, "batch: row 0: label 5: found -1"},
		{func(b *data.Batch) { b.Labels = b.Labels[1:] }, "labels, want 4 rows of 16 tokens"},
		{func(b *data.Batch) { *b = tinyBatch(0, 3, false) }, "3 rows"},
		{func(b *data.Batch) { b.Labels = slices.Repeat([]int32{graph.IgnoreLabel}, len(b.Labels)) }, "0 labels"},
	} {
		b := tinyBatch(0, 4, false)
		wrong.change(&b)
		_, err := s.TrainStep(t.Context(), b)
		require.ErrorContains(t, err, wrong.says)
		require.Zero(t, s.Step())
	}
	train(t, s, 2)
	require.EqualValues(t, 2, s.Step())
}

// The device is at work on a step from its submit on, and on one after the other.
func TestDeviceTime(t *testing.T) {
	s := create(t, gputest.Device(t), tinyConfig(t))
	begin := time.Now()
	for i := range 3 {
		_, err := s.TrainStep(t.Context(), tinyBatch(i, 4, false))
		require.NoError(t, err)
	}
	<-s.awaited
	most := time.Since(begin)
	time.Sleep(most) // in which the device has nothing to do
	_, err := s.Drain(t.Context())
	require.NoError(t, err)
	sum := time.Duration(0)
	for step := range int64(3) {
		worked, done := s.DeviceTime(step + 1)
		assert.Positive(t, worked, "step %d", step+1)
		assert.WithinRange(t, done, begin.Add(sum+worked), begin.Add(most))
		sum += worked
	}
	assert.LessOrEqual(t, sum, most)
}

// The end of a step is noticed when it comes, though submits behind it are under way, which take until what is before them has ended: not
// with the end of those, after which the next step would seem to take no time. What is behind takes half a second of arithmetic, however busy
// the machine is.
func TestDeviceTimeBesideOtherWork(t *testing.T) {
	dev := gputest.Device(t)
	gputest.Asynchronous(t, dev)
	s, busy := create(t, dev, tinyConfig(t)), gputest.Busy(t, dev)
	for i := range 4 { // a submit may let it be noticed by chance
		begin := time.Now()
		_, err := s.TrainStep(t.Context(), tinyBatch(i, 4, false))
		require.NoError(t, err)
		for range 3 {
			require.NoError(t, dev.Submit(t.Context(), busy, busy, busy))
		}
		require.NoError(t, dev.Wait(t.Context()))
		took := time.Since(begin)
		_, err = s.Drain(t.Context())
		require.NoError(t, err)
		_, done := s.DeviceTime(s.Step())
		assert.Less(t, done.Sub(begin), took/4, "of %v", took)
	}
}

func TestMetricsComeOneStepLate(t *testing.T) {
	s := create(t, gputest.Device(t), tinyConfig(t))
	for i := range 5 {
		m, err := s.TrainStep(t.Context(), tinyBatch(i, 4, false))
		require.NoError(t, err)
		if i < 2 {
			require.LessOrEqual(t, len(m), i)
		}
		require.LessOrEqual(t, s.ring.Pending(), inFlight)
		for _, x := range m {
			assert.GreaterOrEqual(t, x.Step, s.Step()-inFlight)
		}
	}
	rest, err := s.Drain(t.Context())
	require.NoError(t, err)
	assert.EqualValues(t, 5, rest[len(rest)-1].Step)
	again, err := s.Drain(t.Context())
	require.NoError(t, err)
	assert.Empty(t, again)
}

func TestNonFiniteIsLeftOutAndNotSaved(t *testing.T) {
	gputest.Each(t, func(t *testing.T, dev *gpu.Device) {
		s := create(t, dev, tinyConfig(t))
		train(t, s, 3)
		bad, err := s.FirstNonFinite(t.Context())
		require.NoError(t, err)
		assert.Empty(t, bad)
		const path = "h.1.mlp.c_fc.bias"
		before, err := s.Params().Read(t.Context(), path)
		require.NoError(t, err)
		poisoned := append([]float32{}, before...)
		poisoned[3] = float32(math.NaN())
		require.NoError(t, s.Params().Write(path, poisoned))
		kept, err := s.Params().Read(t.Context(), "wte.weight")
		require.NoError(t, err)

		got := train(t, s, 5)
		require.Len(t, got, 2)
		for i, m := range got {
			assert.False(t, m.Finite)
			assert.True(t, math.IsNaN(m.Loss), "reported as it is")
			assert.EqualValues(t, i+1, m.Skipped)
		}
		after, err := s.Params().Read(t.Context(), "wte.weight")
		require.NoError(t, err)
		assert.Equal(t, kept, after, "the update is left out")
		bad, err = s.FirstNonFinite(t.Context())
		require.NoError(t, err)
		assert.Equal(t, "params/"+path, bad)
		dir := filepath.Join(t.TempDir(), "x")
		err = s.Save(t.Context(), dir, checkpoint.Run{})
		require.ErrorIs(t, err, checkpoint.ErrNonFinite)
		assert.ErrorContains(t, err, "element 3")
		assert.NoDirExists(t, dir)

		// Mended, training goes on.
		require.NoError(t, s.Params().Write(path, before))
		m := train(t, s, 6)
		assert.True(t, m[0].Finite)
		require.NoError(t, s.Save(t.Context(), dir, checkpoint.Run{}))
		record, err := checkpoint.ReadRecord(checkpoint.OS, dir)
		require.NoError(t, err)
		assert.EqualValues(t, 2, record.Skipped)
		loaded, _, err := Load(t.Context(), dev, tinyConfig(t), dir)
		require.NoError(t, err)
		defer loaded.Release()
		assert.EqualValues(t, 2, loaded.Skipped())
	})
}

func TestConfigErrors(t *testing.T) {
	for says, edit := range map[string]func(*Config){
		"definition":         func(c *Config) { c.Definition = nil },
		"batch: 0":           func(c *Config) { c.Batch = 0 },
		"microbatches: -1":   func(c *Config) { c.Microbatches = -1 },
		"sequence: 17":       func(c *Config) { c.Sequence = 17 },
		"accumulation_steps": func(c *Config) { c.Optimizer.Options.AccumulationSteps = 2 },
		`"adamm"`:            func(c *Config) { c.Optimizer.Name = "adamm" },
	} {
		c := tinyConfig(t)
		edit(&c)
		assert.ErrorContains(t, c.Validate(), says)
	}
	mlp, err := model.NewMLP(model.MLPConfig{Sizes: []int{4, 8, 3}})
	require.NoError(t, err)
	c := tinyConfig(t)
	c.Definition = mlp
	assert.ErrorContains(t, c.Validate(), "want a language model")
	c.Definition = stray{tinyModel(t, 0)}
	assert.ErrorContains(t, c.Validate(), `state: config: definition: model: config: model_type: "stray", want one of`, "nobody could load it")
}

// stray is of no registered family.
type stray struct{ model.Definition }

func (stray) Kind() string { return "stray" }

// corpus writes a text and opens it as bytes below the vocabulary of the tiny model.
func corpus(t *testing.T, bytes int) *texts.Corpus {
	t.Helper()
	text := make([]byte, bytes)
	for i := range text {
		text[i] = byte(i * i % testV)
	}
	path := filepath.Join(t.TempDir(), "text")
	require.NoError(t, os.WriteFile(path, text, 0o666))
	c, err := texts.Open(t.Context(), texts.Config{Text: []string{path}, Tokens: "bytes", Validation: 0.5, Context: testT})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, c.Close()) })
	return c
}

func TestEvaluationDoesNotDependOnTheBatch(t *testing.T) {
	s := create(t, gputest.Device(t), tinyConfig(t))
	text := corpus(t, 500)
	results := map[int]EvalResult{}
	for _, batch := range []int{1, 3, 4, 16} {
		e, err := data.NewEvaluation(text.Validation, testT, batch, 0)
		require.NoError(t, err)
		results[batch], err = s.Evaluate(t.Context(), e)
		require.NoError(t, err)
		assert.EqualValues(t, text.Validation.(*data.Tokens).Len()-1, results[batch].Tokens, "every token counts once")
		assert.InEpsilon(t, results[1].Loss, results[batch].Loss, 1e-6)
	}
	assert.InDelta(t, math.Log(testV), results[1].Loss, 0.2)

	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(assert.AnError)
	e, err := data.NewEvaluation(text.Validation, testT, 4, 0)
	require.NoError(t, err)
	_, err = s.Evaluate(ctx, e)
	require.ErrorIs(t, err, assert.AnError)
	again, err := s.Evaluate(t.Context(), e)
	require.NoError(t, err, "an interrupted evaluation leaves nothing behind")
	assert.Equal(t, results[4], again)
}

func TestLogits(t *testing.T) {
	dev := gputest.Device(t)
	s := create(t, dev, tinyConfig(t))
	dir := filepath.Join(t.TempDir(), "x")
	require.NoError(t, s.Save(t.Context(), dir, checkpoint.Run{}))
	m, err := LoadModel(dev, dir)
	require.NoError(t, err)
	defer m.Release()
	window := tinyBatch(0, 1, false).Tokens
	for _, n := range []int{1, 5, testT} {
		a, err := s.Logits(t.Context(), window[:n])
		require.NoError(t, err)
		b, err := m.Logits(t.Context(), window[:n])
		require.NoError(t, err)
		assert.Equal(t, a, b)
		assert.Len(t, a, testV)
	}
	_, err = s.Logits(t.Context(), nil)
	assert.ErrorContains(t, err, "0 tokens")
	_, err = s.Logits(t.Context(), make([]int32, testT+1))
	assert.ErrorContains(t, err, "17 tokens")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), []byte("{}"), 0o666))
	_, err = LoadModel(dev, dir)
	require.ErrorIs(t, err, checkpoint.ErrCorrupt)
}

// Memory, on the device and in the process, does not grow with the number of steps.
func TestSoak(t *testing.T) {
	dev := gputest.Device(t)
	s := create(t, dev, tinyConfig(t))
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	steps := int64(2000)
	if testing.Short() {
		steps = 500
	}
	train(t, s, 100)
	device, before := dev.Counters(), heap()
	got := train(t, s, steps)
	require.Len(t, got, int(steps)-100)
	after := dev.Counters()
	assert.Equal(t, device.LiveBytes, after.LiveBytes)
	assert.Equal(t, device.Buffers, after.Buffers)
	got = nil
	assert.Less(t, heap(), before+256<<10)
}

// A training state is for one goroutine: two that step it at the same time are told so, and neither waits for ever.
func TestTwoCallsAtOnce(t *testing.T) {
	s := create(t, gputest.Device(t), tinyConfig(t))
	batch := tinyBatch(0, s.job.Batch*s.job.Microbatches, false)
	require.NoError(t, s.turn.take())
	_, err := s.TrainStep(t.Context(), batch)
	require.ErrorIs(t, err, errTwoCalls)
	s.turn.give()

	refused := make(chan error, 2)
	for range cap(refused) {
		go func() {
			var last error
			for range 20 {
				if _, err := s.TrainStep(t.Context(), batch); err != nil {
					last = err
				}
			}
			refused <- last
		}()
	}
	for range cap(refused) {
		if err := <-refused; err != nil {
			require.ErrorIs(t, err, errTwoCalls)
		}
	}
	train(t, s, s.Step()+1)
}
