package state

import (
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/graph"
	"gputrain/hub"
	"gputrain/internal/gputest"
	"gputrain/model"
	"gputrain/optim"
	"gputrain/run/data"
	"gputrain/state/checkpoint"
)

// headedBatch has rows of several lengths, each with one of so many labels at its last token.
func headedBatch(rows, labels int) data.Batch {
	b := data.Batch{Rows: rows, Beside: map[string][]float32{}}
	for r := range rows {
		n := 3 + (r*5)%(testT-3)
		for i := range testT {
			token, label := int32(0), int32(graph.IgnoreLabel)
			if i < n {
				token = int32((r*7 + i*i*3 + i) % (testV - 1))
			}
			if i == n-1 {
				token, label = testV-1, int32((r*r+1)%labels)
			}
			b.Tokens, b.Labels = append(b.Tokens, token), append(b.Labels, label)
		}
		b.Beside[model.InputMargin] = append(b.Beside[model.InputMargin], float32(r/2)/8)
	}
	return b
}

func headed(t *testing.T, head model.Head) model.Definition {
	t.Helper()
	def, err := model.WithHead(tinyModel(t, 0), head)
	require.NoError(t, err)
	return def
}

var (
	scored = model.Objective{Loss: "reward", Numbers: map[string]float64{"center_rewards_coefficient": 0.02}}
	near   = model.Objective{Loss: "embed", Numbers: map[string]float64{"temperature": 0.2, "negatives": 2}}
)

// An update of rows with scores is the same in one microbatch, two and four: the divisor is the number of pairs, or rows, of the whole update.
func TestHeadsInMicrobatches(t *testing.T) {
	dev := gputest.Device(t)
	for _, c := range []struct {
		learned model.Objective
		labels  int
		counts  int64
	}{{scored, 1, 4}, {model.Objective{Loss: "classes"}, 5, 8}} {
		var want Metrics
		for _, micro := range []int{1, 2, 4} {
			t.Run(fmt.Sprint(c.learned.Loss, micro), func(t *testing.T) {
				config := tinyConfig(t)
				config.Definition, config.Objective = headed(t, model.Head{Kind: model.HeadScores, Labels: c.labels}), c.learned
				config.Batch, config.Microbatches, config.Recompute = 8/micro, micro, map[int]string{4: model.RecomputeLayers}[micro]
				s := create(t, dev, config)
				_, err := s.Rehearse(t.Context(), 1)
				require.NoError(t, err)
				_, err = s.TrainStep(t.Context(), headedBatch(8, c.labels))
				require.NoError(t, err)
				_, err = s.TrainStep(t.Context(), headedBatch(8, c.labels))
				require.NoError(t, err)
				all, err := s.Drain(t.Context())
				require.NoError(t, err)
				got := all[len(all)-1]
				assert.Equal(t, c.counts, got.Tokens)
				if micro == 1 {
					want = got
				}
				assert.InDelta(t, want.Loss, got.Loss, 2e-5)
				assert.InEpsilon(t, want.GradNorm, got.GradNorm, 1e-4)
				assert.InDeltaSlice(t, want.Means, got.Means, 2e-5)
			})
		}
	}
}

// An update of vectors is the same in one microbatch, two and four: each query is held against the candidates of all rows, with one negative missing. Any number
// of replicas has the same bits.
func TestVectorsInMicrobatches(t *testing.T) {
	dev := gputest.Device(t)
	for _, pooling := range []string{model.PoolingLast, model.PoolingMean} {
		b := headedBatch(16, 1)
		for i := range testT {
			b.Labels[7*testT+i] = graph.IgnoreLabel
		}
		config := tinyConfig(t)
		config.Definition, config.Objective = headed(t, model.Head{Kind: model.HeadVectors, Pooling: pooling}), near
		config.Optimizer, config.Evaluation = optim.Config{Name: "sgd", Options: optim.Options{Schedule: optim.ScheduleConfig{Type: "constant", LearningRate: 0.5}}}, 8
		var want []Metrics
		for _, micro := range []int{1, 2, 4} {
			config.Batch, config.Microbatches, config.Recompute = 16/micro, micro, map[int]string{4: model.RecomputeLayers}[micro]
			got, files := updated(t, dev, config, nil, []data.Batch{b, b, b}, t.TempDir()+"/one")
			require.Len(t, got, 3)
			if micro == 1 {
				want = got
			}
			for i := range got {
				assert.EqualValues(t, 4, got[i].Tokens)
				assert.InDelta(t, want[i].Loss, got[i].Loss, 2e-5, "%s, %d microbatches, step %d", pooling, micro, i)
				assert.InEpsilon(t, want[i].GradNorm, got[i].GradNorm, 1e-4, "%s, %d microbatches, step %d", pooling, micro, i)
				assert.InDeltaSlice(t, want[i].Means, got[i].Means, 2e-5, "%s, %d microbatches, step %d", pooling, micro, i)
			}
			if micro == 1 {
				continue
			}
			for _, n := range []int{2, 3} { // with 2 microbatches one has none
				var all sync.WaitGroup
				for rank, c := range inReplicas(config, n) {
					dir := filepath.Join(t.TempDir(), fmt.Sprint(rank))
					all.Go(func() {
						m, own := updated(t, dev, c, nil, []data.Batch{b, b, b}, dir)
						assert.Equal(t, got, m, "replica %d of %d", rank, n)
						assert.True(t, maps.Equal(files, own), "replica %d of %d: other files", rank, n)
					})
				}
				all.Wait()
			}
		}
	}
}

// The vectors of both passes are the same where parts of them are dropped: the loss of the first is that of the second.
func TestVectorsWithDropout(t *testing.T) {
	dev := gputest.Device(t)
	config := tinyConfig(t)
	def, err := model.WithHead(tinyModel(t, 0.5), model.Head{Kind: model.HeadVectors})
	require.NoError(t, err)
	config.Definition, config.Objective, config.Batch, config.Microbatches = def, near, 4, 4
	s, b, losses := create(t, dev, config), headedBatch(16, 1), map[float64]bool{}
	for range 3 {
		found, err := s.look(t.Context(), rowsOf(b))
		require.NoError(t, err)
		rows, want, width := eachOf(found, b.Rows), 0.0, len(found)/b.Rows-1
		laid, _ := s.job.Objective.Row().Ahead.Lay(near.Numbers, model.Seen{Rows: rows}, nil)
		for _, all := range laid {
			for i, slopes := range eachOf(all, b.Rows) {
				for j, x := range rows[i][:width] {
					want += float64(x) * float64(slopes[j]) / 4
				}
				want += float64(slopes[width]) / 4
			}
		}
		_, err = s.TrainStep(t.Context(), b)
		require.NoError(t, err)
		all, err := s.Drain(t.Context())
		require.NoError(t, err)
		got := all[len(all)-1].Loss
		assert.InDelta(t, want, got, 1e-5)
		losses[got] = true
	}
	assert.Len(t, losses, 3)
}

// An evaluation of vectors holds each row against those of its batch, however updates are cut.
func TestEvaluationOfVectors(t *testing.T) {
	dev := gputest.Device(t)
	config := tinyConfig(t)
	config.Definition, config.Objective, config.Batch, config.Evaluation = headed(t, model.Head{Kind: model.HeadVectors}), near, 8, 8
	var all []EvalResult
	for _, config.Microbatches = range []int{1, 2} {
		e, err := data.NewEvaluation(&oneBatch{headedBatch(16, 1)}, testT, 8, 0)
		require.NoError(t, err)
		found, err := create(t, dev, config).Evaluate(t.Context(), e)
		require.NoError(t, err)
		all = append(all, found)
	}
	assert.Equal(t, all[0], all[1])
	assert.EqualValues(t, 4, all[0].Tokens)
}

// Scores and similarities stay in f32 where all else is stored in bfloat16: their differences are what is learned.
func TestHeadsInBF16(t *testing.T) {
	dev := gputest.Device(t)
	for _, c := range []struct {
		head    model.Head
		learned model.Objective
	}{
		{model.Head{Kind: model.HeadScores, Labels: 1}, scored},
		{model.Head{Kind: model.HeadVectors}, model.Objective{Loss: "embed", Numbers: map[string]float64{"temperature": 0.02, "negatives": 2}}},
	} {
		var losses []float64
		for _, storage := range []buffers.DType{buffers.F32, buffers.BF16} {
			config := tinyConfig(t)
			config.Definition, config.Objective, config.Batch, config.Storage = headed(t, c.head), c.learned, 8, storage
			built, err := jobOf(t, config).Build()
			require.NoError(t, err)
			built.Graph.StoreBF16(built.LossSum)
			for _, f := range built.Figures {
				assert.Equal(t, buffers.F32, f.Value.DType(), f.Name)
			}
			s := create(t, dev, config)
			_, err = s.TrainStep(t.Context(), headedBatch(8, 1))
			require.NoError(t, err)
			all, err := s.Drain(t.Context())
			require.NoError(t, err)
			losses = append(losses, all[0].Loss)
		}
		assert.InEpsilon(t, losses[0], losses[1], 0.05)
	}
}

// What heads do not go with is refused before anything is computed, and rows by their numbers.
func TestHeadsRefused(t *testing.T) {
	vectors, scores := headed(t, model.Head{Kind: model.HeadVectors}), headed(t, model.Head{Kind: model.HeadScores, Labels: 3})
	c := tinyConfig(t)
	c.Definition, c.Objective, c.Batch = vectors, near, 8
	require.NoError(t, c.Validate())
	c.Batch = 6
	require.ErrorContains(t, c.Validate(), "found batch 6, wanted a multiple of 4")
	c.Definition, c.Objective, c.Batch = scores, model.Objective{Loss: "classes"}, 4
	b := headedBatch(4, 3)
	b.Labels[2] = 3
	_, err := jobOf(t, c).count(b)
	require.ErrorContains(t, err, "batch: row 0: label 2: found 3, wanted 0 to 2")
	b.Labels[2] = 1
	_, err = jobOf(t, c).count(b)
	require.NoError(t, err)
	raw, err := model.ConfigJSON(scores, "F32")
	require.NoError(t, err)
	c.Definition, err = model.ParseConfig([]byte(strings.Replace(string(raw), "{", fmt.Sprintf(`{"pad_token_id": %d,`, testV-1), 1)))
	require.NoError(t, err)
	_, err = jobOf(t, c).count(b)
	require.ErrorContains(t, err, "batch: row 0: found the padding 31 as its last token, wanted another")
}

// A state with a head is saved and goes on, to the bit, and its directory is a model of transformers' layout.
func TestHeadsAreSaved(t *testing.T) {
	dev := gputest.Device(t)
	for _, c := range []struct {
		head    model.Head
		learned model.Objective
	}{
		{model.Head{Kind: model.HeadScores, Labels: 1}, scored},
		{model.Head{Kind: model.HeadScores, Labels: 3, Names: []string{"a", "b", "c"}}, model.Objective{Loss: "classes"}},
		{model.Head{Kind: model.HeadVectors, Pooling: model.PoolingMean}, near},
	} {
		config := tinyConfig(t)
		config.Definition, config.Objective, config.Batch = headed(t, c.head), c.learned, 8
		s := create(t, dev, config)
		labels := max(1, c.head.Labels)
		_, err := s.TrainStep(t.Context(), headedBatch(8, labels))
		require.NoError(t, err)
		dir := filepath.Join(t.TempDir(), "step")
		require.NoError(t, s.Save(t.Context(), dir, checkpoint.Run{}))
		again, _, err := Load(t.Context(), dev, config, dir)
		require.NoError(t, err)
		t.Cleanup(again.Release)
		for _, state := range []*TrainState{s, again} {
			_, err := state.TrainStep(t.Context(), headedBatch(8, labels))
			require.NoError(t, err)
		}
		want, err := s.Params().Download(t.Context())
		require.NoError(t, err)
		got, err := again.Params().Download(t.Context())
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
}

// A checkpoint of adapters with a head has that among them, upon a language model that has none, and goes on to the bit.
func TestCheckpointsOfAdaptersWithHeads(t *testing.T) {
	dev := gputest.Device(t)
	for _, c := range []struct {
		head    model.Head
		learned model.Objective
	}{
		{model.Head{Kind: model.HeadScores, Labels: 3}, model.Objective{Loss: "classes"}},
		{model.Head{Kind: model.HeadVectors, Pooling: model.PoolingMean}, near},
	} {
		config, _, _ := adaptedConfig(t, model.LoRA{Rank: 2})
		files := hub.Open(config.Base)
		defer files.Close()
		weights, err := files.Weights(tinyModel(t, 0))
		require.NoError(t, err)
		config.Definition, err = model.WithLoRA(headed(t, c.head), model.LoRA{Rank: 2})
		require.NoError(t, err)
		config.Objective, config.Batch = c.learned, 8
		params, drawn := weights.ParamsOf(config.Definition, 1)
		assert.ElementsMatch(t, model.AdapterParams(config.Definition), drawn)
		s, err := CreateFrom(t.Context(), dev, jobOf(t, config), params)
		require.NoError(t, err)
		defer s.Release()
		labels := max(1, c.head.Labels)
		_, err = s.TrainStep(t.Context(), headedBatch(8, labels))
		require.NoError(t, err)
		dir := filepath.Join(t.TempDir(), "step")
		require.NoError(t, s.Save(t.Context(), dir, checkpoint.Run{}))
		def, all, err := hub.ReadHF(dir)
		require.NoError(t, err)
		assert.Equal(t, c.head.Kind, model.HeadOf(def).Kind)
		assert.Len(t, all, len(config.Definition.Params()))
		again, _, err := Load(t.Context(), dev, config, dir)
		require.NoError(t, err)
		defer again.Release()
		for _, state := range []*TrainState{s, again} {
			_, err := state.TrainStep(t.Context(), headedBatch(8, labels))
			require.NoError(t, err)
		}
		want, err := s.Params().Download(t.Context())
		require.NoError(t, err)
		got, err := again.Params().Download(t.Context())
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
}
