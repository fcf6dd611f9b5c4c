package pipeline_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/gpu"
	"gputrain/internal/gputest"
	"gputrain/internal/ranks/mesh"
	"gputrain/internal/ranks/transport"
	"gputrain/internal/schedule"
	"gputrain/pipeline"
	"gputrain/run/data"
	"gputrain/state"
	"gputrain/state/checkpoint"
)

// onRanks runs do on every rank of a pipeline whose stages are on these ranks, with the devices and the configuration of each.
func onRanks(t *testing.T, all []transport.Ranks, devices []*gpu.Device, c pipeline.Config, stages []int, do func(r transport.Ranks, devices []*gpu.Device, c pipeline.Config)) {
	t.Helper()
	var wait sync.WaitGroup
	for _, r := range all {
		own, perPipeline := make([]*gpu.Device, len(stages)), 1
		for _, rank := range stages {
			perPipeline = max(perPipeline, rank+1)
		}
		for i, rank := range stages {
			own[i] = devices[i]
			if rank != r.Rank()%perPipeline {
				own[i] = gpu.DryOf(devices[i].Adapter(), devices[i].Limits())
			}
		}
		mine := c
		mine.State.Mesh = mesh.New(r, mesh.Config{})
		require.NoError(t, mine.State.Mesh.Divide(stages))
		wait.Go(func() {
			done := false
			defer func() {
				if !done {
					r.Fail(fmt.Errorf("the test has failed"))
				}
			}()
			do(r, own, mine)
			done = true
		})
	}
	wait.Wait()
}

// Stages on several ranks learn what one device does, with a tied head whose shares cross ranks, whatever the schedule and optimizer: metrics on all
// ranks, losses of a text, logits, and the bytes of a checkpoint, which goes on on other ranks. Each knows how all stages were used.
func TestStagesOnRanks(t *testing.T) {
	devices := fleet(t, 3)
	for _, x := range []struct {
		optimizer, parameters, order string
		stages                       []int
	}{
		{"adamw", `{}`, schedule.GPipe, []int{0, 1}},
		{"quad", `{"block_size":8,"refresh":{"every":2}}`, schedule.OneForwardOneBackward, []int{0, 1, 0}},
		{"adamw", `{}`, schedule.Interleaved, []int{1, 2, 0}},
	} {
		t.Run(fmt.Sprint(x.optimizer, " ", x.order, " ", x.stages), func(t *testing.T) {
			c := wrapped(families(t)["gpt2"], x.optimizer, x.parameters, 1, 3)
			c.Evaluation, c.Sampling, c.Rows = 2, true, 3
			with := batches(c, 5)
			how := order(t, c, x.order, len(x.stages))
			want := create(t, devices[:len(x.stages)], how)
			defer want.Release()
			dir := t.TempDir()
			metrics := learn(t, want, with[:3])
			middle := saved(t, want, filepath.Join(dir, "middle"))
			evaluation := evaluationOf(t, 130, c.Evaluation)
			loss, err := want.Evaluate(t.Context(), evaluation)
			require.NoError(t, err)
			logits, err := want.Logits(t.Context(), []int32{5, 7, 1})
			require.NoError(t, err)
			next, err := want.Decode(t.Context(), 3)
			require.NoError(t, err)
			rows := inRows(t, want)
			later := learn(t, want, with[3:])
			end := saved(t, want, filepath.Join(dir, "end"))

			n := 0
			for _, rank := range x.stages {
				n = max(n, rank+1)
			}
			uses := make([]state.StageUse, n)
			onRanks(t, transport.Local(n), devices, how, x.stages, func(r transport.Ranks, devices []*gpu.Device, c pipeline.Config) {
				s := create(t, devices, c)
				defer s.Release()
				assert.Equal(t, metrics, learn(t, s, with[:3]))
				use, _ := s.StageUse()
				uses[r.Rank()] = use
				got, err := s.Evaluate(t.Context(), evaluation)
				assert.NoError(t, err)
				assert.Equal(t, loss, got)
				first, err := s.Logits(t.Context(), []int32{5, 7, 1})
				assert.NoError(t, err)
				assert.Equal(t, logits, first)
				second, err := s.Decode(t.Context(), 3)
				assert.NoError(t, err)
				assert.Equal(t, next, second)
				assert.Equal(t, rows, inRows(t, s))
				files := savedByRanks(t, s, r, filepath.Join(dir, "middle of ranks"))
				assert.Equal(t, middle, files)
			})
			mean := 0.0
			for _, busy := range uses[0].Busy {
				assert.Positive(t, busy, "a stage that nobody has seen at work")
				mean += busy / float64(len(x.stages))
			}
			assert.Len(t, uses[0].Busy, len(x.stages))
			assert.InDelta(t, 1-mean, uses[0].Bubble, 1e-12)
			assert.Positive(t, uses[0].Transfer)
			for _, other := range uses {
				assert.Equal(t, uses[0], other)
			}
			onRanks(t, transport.Local(n), devices, how, x.stages, func(r transport.Ranks, devices []*gpu.Device, c pipeline.Config) {
				s, _, err := pipeline.Load(t.Context(), devices, c, filepath.Join(dir, "middle"))
				if !assert.NoError(t, err) {
					return
				}
				defer s.Release()
				assert.Equal(t, later, learn(t, s, with[3:]))
				assert.Equal(t, end, savedByRanks(t, s, r, filepath.Join(dir, "end of ranks")))
			})
		})
	}
}

// evaluationOf is an evaluation of a text of n tokens.
func evaluationOf(t *testing.T, n, rows int) *data.Evaluation {
	t.Helper()
	e, err := data.NewEvaluation(tokens(t, n).Validation, 4, rows, 0)
	require.NoError(t, err)
	return e
}

// savedByRanks is saved, by all ranks together; each looks at the files once they are there.
func savedByRanks(t *testing.T, s *pipeline.State, r transport.Ranks, dir string) map[string]string {
	t.Helper()
	assert.NoError(t, s.Save(t.Context(), dir, checkpoint.Run{Tokens: 5, Seed: 7}))
	_, err := r.Gather(t.Context(), nil)
	assert.NoError(t, err)
	out := map[string]string{}
	entries, err := os.ReadDir(dir)
	assert.NoError(t, err)
	for _, e := range entries {
		raw, err := os.ReadFile(filepath.Join(dir, e.Name()))
		assert.NoError(t, err)
		out[e.Name()] = string(raw)
	}
	return out
}

// A stage that fails ends all ranks, each with an error that names the stage, its rank and its host. Afterwards no rank can be used.
func TestFailureEndsAllRanks(t *testing.T) {
	devices := fleet(t, 2)
	c := steep(families(t)["gpt2"], "adamw", `{}`, 1, 3)
	with := batches(c, 2)
	onRanks(t, transport.Local(2), devices, order(t, c, schedule.GPipe, 2), []int{0, 1}, func(r transport.Ranks, own []*gpu.Device, c pipeline.Config) {
		s := create(t, own, c)
		defer s.Release()
		learn(t, s, with[:1])
		if r.Rank() == 1 {
			own[1].Lose("pulled out")
		}
		_, err := s.TrainStep(t.Context(), with[1])
		failed, ok := errors.AsType[*pipeline.StageError](err)
		if assert.True(t, ok, "%v", err) {
			assert.Equal(t, 1, failed.Stage)
			assert.Equal(t, "rank 1 on host "+r.Host(1), failed.Where)
			assert.ErrorContains(t, err, "stage 1 (rank 1 on host "+r.Host(1)+", 0: ")
			assert.ErrorContains(t, err, "pulled out")
		}
		_, err = s.TrainStep(t.Context(), with[1])
		assert.ErrorContains(t, err, "not usable")
	})
}

// Where one rank lacks the memory none is created, and all say whose it is.
func TestMemoryOfARank(t *testing.T) {
	devices := []*gpu.Device{gputest.Device(t), gputest.Device(t, gputest.WithMemoryLimit(1<<10))}
	c := steep(families(t)["gpt2"], "adamw", `{}`, 1, 2)
	onRanks(t, transport.Local(2), devices, order(t, c, schedule.GPipe, 2), []int{0, 1}, func(r transport.Ranks, own []*gpu.Device, c pipeline.Config) {
		_, err := pipeline.Create(t.Context(), own, c, nil)
		if r.Rank() == 1 {
			assert.ErrorIs(t, err, gpu.ErrOutOfMemory)
		} else {
			assert.ErrorContains(t, err, "rank 1 on host "+r.Host(1)+": state: memory")
		}
	})
}

// A pipeline refuses a mesh that is divided for another number of stages, and replicas that nobody joins.
func TestRanksRefused(t *testing.T) {
	dry := gpu.Dry(gpu.DefaultLimits())
	c := steep(families(t)["gpt2"], "adamw", `{}`, 1, 2)
	for _, x := range []struct {
		ranks  int
		stages []int
		want   string
	}{
		{2, []int{0, 1, 1}, "pipeline: ranks: found the ranks of 3 stages, wanted those of 2"},
		{4, []int{0, 1}, "state: config: reducer: found none for 2 replicas, wanted one: cluster.NewReducer makes it"},
	} {
		how := order(t, c, schedule.GPipe, 2)
		how.State.Mesh = mesh.New(transport.Local(x.ranks)[0], mesh.Config{})
		require.NoError(t, how.State.Mesh.Divide(x.stages))
		_, err := pipeline.Dry(t.Context(), how, []*gpu.Device{dry, dry})
		require.EqualError(t, err, x.want)
	}
}
