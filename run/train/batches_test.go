package train

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/internal/gputest"
	"gputrain/model"
	"gputrain/run/data"
	"gputrain/run/data/texts"
	"gputrain/state"
	"gputrain/state/checkpoint"
)

// documents opens 30 documents of very different lengths, each with a prompt that does not count, or mixes them with a text.
func documents(t *testing.T, mixed bool) *texts.Corpus {
	t.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	var lines strings.Builder
	for i := range 30 {
		line, err := json.Marshal(map[string]string{"question": strings.Repeat("?", 1+random.IntN(4)), "text": strings.Repeat(fmt.Sprint(i), 1+random.IntN(12))})
		require.NoError(t, err)
		fmt.Fprintf(&lines, "%s\n", line)
	}
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.jsonl"), []byte(lines.String()), 0o666))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "b.txt"), []byte(strings.Repeat("some text. ", 80)), 0o666))
	c := texts.Config{JSONL: []string{filepath.Join(dir, "a.jsonl")}, Fields: data.Fields{Prompt: "question"}, Validation: 0.2, Context: 16}
	if mixed {
		c.Mixture = []texts.Part{{JSONL: c.JSONL, Fields: c.Fields, Weight: 2}, {Text: []string{filepath.Join(dir, "b.txt")}, Weight: 1}}
		c.JSONL, c.MixtureEnd = nil, "first_exhausted"
	}
	corpus, err := texts.Open(t.Context(), c)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, corpus.Close()) })
	return corpus
}

// However often it stops within an epoch, and however far it reads ahead, a run on documents or on a mixture ends the same.
func TestResumeOnEverySource(t *testing.T) {
	dev := gputest.Device(t)
	for _, mixed := range []bool{false, true} {
		corpus := documents(t, mixed)
		run := func(dir string) Config {
			c := tinyRun(t, dir)
			c.Train, c.Validation, c.State.Documents = corpus.Train, corpus.Validation, true
			return c
		}
		dir := t.TempDir()
		ran(t, dev, run(dir))
		want := outcomeOf(t, dir)
		var record struct{ Run checkpoint.Run }
		require.NoError(t, json.Unmarshal([]byte(want.checkpoint["state.json"]), &record))
		require.Positive(t, record.Run.Data.Epoch, "the run is longer than an epoch")

		dir = t.TempDir()
		for depth, step := range []int64{2, 5, 11} {
			c := run(dir)
			ctx, hook := stopAt(StepBegin, step)
			c.Hooks, c.Prefetch = []Hook{hook}, 4*depth
			_, err := Run(ctx, dev, c)
			require.ErrorIs(t, err, ErrStopped)
		}
		ran(t, dev, run(dir))
		assert.Equal(t, want, outcomeOf(t, dir), "mixed %v", mixed)
	}
}

// Windows of documents have few labels or many. A step of 8 of them has the same loss and gradient in 1, 2, 4 or 8 pieces, and an
// evaluation the same loss in batches of 1 to 16.
func TestRaggedBatchesAreTokenWeighted(t *testing.T) {
	dev := gputest.Device(t)
	corpus := documents(t, false)
	type result struct {
		loss, norm float64
		tokens     int64
		grads      []buffers.Host
	}
	var first result
	for _, k := range []int{1, 2, 4, 8} {
		c := tinyRun(t, t.TempDir()).State
		c.Batch, c.Microbatches, c.Evaluation = 8/k, k, 8/k
		c.Definition, c.Documents = undropped(t), true
		s, err := state.Create(t.Context(), dev, c)
		require.NoError(t, err)
		defer s.Release()
		loader, err := data.NewLoader(corpus.Train, data.LoaderConfig{Context: 16, Batch: 8, Seed: 1})
		require.NoError(t, err)
		defer loader.Close()
		batch, err := loader.Next(t.Context())
		require.NoError(t, err)
		counts := map[int]bool{}
		for row := range 8 {
			n := 0
			for _, label := range batch.Labels[16*row : 16*row+16] {
				if label != data.Ignored {
					n++
				}
			}
			counts[n] = true
		}
		require.Greater(t, len(counts), 2, "the batch is ragged")
		_, err = s.TrainStep(t.Context(), batch)
		require.NoError(t, err)
		m, err := s.Drain(t.Context())
		require.NoError(t, err)
		_, trees := s.Trees()
		grads, err := trees[0].Download(t.Context())
		require.NoError(t, err)
		got := result{m[0].Loss, m[0].GradNorm, m[0].Tokens, grads}
		if k == 1 {
			first = got
			assert.EqualValues(t, batch.Count, got.tokens)
			var losses []float64
			for size := 1; size <= 16; size++ {
				e, err := data.NewEvaluation(corpus.Validation, 16, size, 0)
				require.NoError(t, err)
				r, err := s.Evaluate(t.Context(), e)
				require.NoError(t, err)
				losses = append(losses, r.Loss)
				assert.InEpsilon(t, losses[0], r.Loss, 1e-6, "batches of %d", size) // sums of some hundred f32, grouped otherwise
			}
			continue
		}
		// The sums of the loss and of each gradient are grouped otherwise: some eps of f32 (6e-8) apart.
		assert.InEpsilon(t, first.loss, got.loss, 1e-6, "%d pieces", k)
		assert.InEpsilon(t, first.norm, got.norm, 1e-5, "%d pieces", k)
		for i, g := range got.grads {
			largest, apart := 0.0, 0.0
			for j, v := range first.grads[i].Data {
				largest, apart = max(largest, math.Abs(float64(v))), max(apart, math.Abs(float64(v)-float64(g.Data[j])))
			}
			require.Positive(t, largest, g.Path)
			assert.LessOrEqual(t, apart, 1e-5*largest, "%d pieces: gradient of %s", k, g.Path)
		}
		assert.Equal(t, first.tokens, got.tokens)
	}
}

// Tokens a second are those that count, with and without padding; operations a second are those of the batches' shape, whatever counts in them.
func TestRatesCountWhatTheySay(t *testing.T) {
	c := tinyRun(t, t.TempDir())
	corpus := documents(t, false)
	const peak = 1e12
	c.Train, c.Validation, c.State.Documents = corpus.Train, corpus.Validation, true
	c.Peak = func(context.Context) (float64, error) { return peak, nil }
	ran(t, gputest.Device(t), c)
	steps := stepsIn(t, c.Dir)
	tokens, operations := int64(0), 0.0
	for _, m := range steps {
		seconds := float64(m.StepMS) / 1000
		assert.InEpsilon(t, 4*16, float64(m.PaddedTokensPerSecond)*seconds, 1e-9, "every position of 4 windows")
		assert.InEpsilon(t, m.Tokens-tokens, float64(m.TokensPerSecond)*seconds, 1e-9, "the labels that count")
		assert.Less(t, m.Tokens-tokens, int64(4*16))
		if operations == 0 {
			operations = float64(m.MFU) * peak * seconds
		}
		assert.InEpsilon(t, operations, float64(m.MFU)*peak*seconds, 1e-9)
		tokens = m.Tokens
	}
	job, err := state.NewJob(c.State)
	require.NoError(t, err)
	kinds, err := job.FLOPs()
	require.NoError(t, err)
	counted := int64(0)
	for _, n := range kinds {
		counted += n
	}
	assert.InEpsilon(t, counted, operations, 1e-9)
}

// collated are batches of a caller's own: documents with the number of the batch, one a row.
type collated struct {
	*data.Collator
	state  data.State
	closed *int
}

func (c *collated) Next(context.Context) (data.Batch, error) {
	var rows []data.Document
	for row := range 4 {
		rows = append(rows, data.Document{Tokens: data.EncodeBytes(fmt.Sprintf("batch %d of %d", c.state.Position, row))})
	}
	batch, err := c.Collate(rows...)
	c.state.Position++
	batch.State = c.state
	return batch, err
}

func (c *collated) Close() { *c.closed++ }

func TestBatchesOfOnesOwn(t *testing.T) {
	dev := gputest.Device(t)
	closed, froms := 0, []data.State(nil)
	run := func(dir string) Config {
		c := tinyRun(t, dir)
		c.Train = nil
		c.Batches = func(from data.State) (BatchSource, error) {
			froms = append(froms, from)
			collator, err := data.NewCollator(16, data.LongKeepEnd)
			return &collated{collator, from, &closed}, err
		}
		return c
	}
	dir := t.TempDir()
	ran(t, dev, run(dir))
	want := outcomeOf(t, dir)

	dir = t.TempDir()
	c := run(dir)
	ctx, hook := stopAt(StepBegin, 4)
	c.Hooks = []Hook{hook}
	stopped, err := Run(ctx, dev, c)
	require.ErrorIs(t, err, ErrStopped)
	ran(t, dev, run(dir))
	assert.Equal(t, want, outcomeOf(t, dir))
	assert.Equal(t, []data.State{{}, {}, {Position: uint64(stopped.Step)}}, froms)
	assert.Equal(t, 3, closed)
}

// undropped is the tiny model without dropout, whose masks are drawn for each piece of a step.
func undropped(t *testing.T) model.Definition {
	t.Helper()
	def, err := model.NewGPT2(model.GPT2Config{Layers: 1, Heads: 2, Width: 16, Vocab: 256, Context: 16})
	require.NoError(t, err)
	return def
}

// What is wrong with batches of one's own is said as that, and one that does not come in time ends the run as one of a loader does.
func TestBatchesOfOnesOwnThatFail(t *testing.T) {
	dev := gputest.Device(t)
	failing := errors.New("the data base is away")
	for _, test := range []struct {
		name   string
		open   func(from data.State) (BatchSource, error)
		wanted string
	}{
		{"no source", func(data.State) (BatchSource, error) { return nil, nil }, "train: batches: found no source"},
		{"not opened", func(data.State) (BatchSource, error) { return nil, failing }, "train: batches: the data base is away"},
		{"no batch", func(data.State) (BatchSource, error) {
			return sourceOf(func(context.Context) error { return failing }), nil
		}, "train: batches: the data base is away"},
		{"hangs", func(data.State) (BatchSource, error) {
			return sourceOf(func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }), nil
		}, "no batch within 20ms"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := tinyRun(t, t.TempDir())
			c.Batches, c.DataTimeout = test.open, 20*time.Millisecond
			result, err := Run(t.Context(), dev, c)
			require.ErrorContains(t, err, test.wanted)
			assert.Equal(t, KindOf(errors.New("any")), result.Reason)
			if test.name == "hangs" {
				var slow *data.TimeoutError
				require.ErrorAs(t, err, &slow)
			}
		})
	}
}

// sourceOf is a source that never has a batch.
type sourceOf func(ctx context.Context) error

func (s sourceOf) Next(ctx context.Context) (data.Batch, error) { return data.Batch{}, s(ctx) }
func (s sourceOf) Close()                                       {}
