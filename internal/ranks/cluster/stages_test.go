package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/internal/gputest"
	"gputrain/internal/ranks/mesh"
	"gputrain/internal/ranks/transport"
	"gputrain/internal/schedule"
	gpt "gputrain/model"
	"gputrain/optim"
	"gputrain/pipeline"
	"gputrain/pipeline/partition"
	"gputrain/run/data"
	"gputrain/state"
	"gputrain/state/checkpoint"
)

// small is a model with a tied head, cut into two stages.
func small(t *testing.T, optimizer, parameters string, microbatches int) pipeline.Config {
	def, err := gpt.NewGPT2(gpt.GPT2Config{Layers: 2, Heads: 2, Width: 8, Vocab: 11, Context: 4})
	require.NoError(t, err)
	clip := 0.3
	c := state.Config{Definition: def, Batch: 1, Microbatches: microbatches, Seed: 7, Optimizer: optim.Config{
		Name: optimizer, Parameters: json.RawMessage(parameters), Options: optim.Options{Schedule: optim.ScheduleConfig{LearningRate: 2e-2}, ClipGrad: &clip, WeightDecay: 0.1},
	}}
	job, err := state.NewJob(c)
	require.NoError(t, err)
	c = job.Config
	built, err := def.Build(c.Batch, c.Sequence, gpt.Options{Loss: true})
	require.NoError(t, err)
	units, err := partition.Units(built)
	require.NoError(t, err)
	cut, err := partition.Auto(units, 2, 1, []partition.Power{{Speed: gpu.Speed{FLOPS: 1e9, BytesPerSecond: 1e9}}, {Speed: gpu.Speed{FLOPS: 1e9, BytesPerSecond: 1e9}}})
	require.NoError(t, err)
	return pipeline.Config{State: c, Assignment: cut, Schedule: schedule.OneForwardOneBackward, Timeout: gputest.Patience}
}

// batchOf is the share of a batch that a replica computes.
func batchOf(c state.Config, step int) data.Batch {
	rank, replicas := c.Mesh.Replica()
	b, share := data.Batch{}, state.Share(c.Microbatches, rank, replicas)
	for i := share.First * c.Sequence; i < (share.First+share.Count)*c.Sequence; i++ {
		b.Tokens = append(b.Tokens, int32((i*i+7*step)%11))
		b.Labels = append(b.Labels, int32((i*i+7*step+3*i)%11))
	}
	b.Rows, b.Count = share.Count, len(b.Labels)
	return b
}

// learner makes updates, on however many devices and ranks.
type learner interface {
	Step() int64
	TrainStep(ctx context.Context, batch data.Batch) ([]state.Metrics, error)
	Drain(ctx context.Context) ([]state.Metrics, error)
	Save(ctx context.Context, path string, run checkpoint.Run) error
	Config() state.Config
	Release()
}

// learn makes n updates and saves.
func learn(ctx context.Context, s learner, n int, path string) ([]state.Metrics, error) {
	var all []state.Metrics
	for range n {
		m, err := s.TrainStep(ctx, batchOf(s.Config(), int(s.Step())))
		if err != nil {
			return nil, err
		}
		all = append(all, m...)
	}
	m, err := s.Drain(ctx)
	if err != nil {
		return nil, err
	}
	return append(all, m...), s.Save(ctx, path, checkpoint.Run{Tokens: 5})
}

// filesIn are the bytes of a checkpoint.
func filesIn(t *testing.T, dir string) map[string]string {
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	out := map[string]string{}
	for _, e := range entries {
		raw, err := os.ReadFile(filepath.Join(dir, e.Name()))
		require.NoError(t, err)
		out[e.Name()] = string(raw)
	}
	return out
}

// staged runs do on four ranks, each of which has one of two stages of a replica, with its devices and what adds up its gradients.
func staged(t *testing.T, c pipeline.Config, stages []int, devices func(rank, stage int) *gpu.Device, do func(g *mesh.Mesh, own []*gpu.Device, c pipeline.Config, sums *Reducer) error) []error {
	return together(4, func(rank int, g *mesh.Mesh) (err error) {
		defer func() {
			if err != nil {
				g.Fail(err)
			}
		}()
		c, own := c, make([]*gpu.Device, 2)
		if err := g.Divide(stages); err != nil {
			return err
		}
		c.State.Mesh = g
		for stage := range own {
			if own[stage] = devices(rank, stage); stages[stage] != rank%2 {
				own[stage] = gpu.DryOf(own[stage].Adapter(), own[stage].Limits())
			}
		}
		sums, err := NewReducer(t.Context(), g, Sums{Microbatches: c.State.Microbatches, Bucket: 400}, own...)
		if err != nil {
			return err
		}
		c.State.Reducer = sums
		return do(g, own, c, sums)
	})
}

// scanned finds what rank 3 has put into its optimizer's state of a stage, on every rank.
func scanned(t *testing.T, g *mesh.Mesh, s *pipeline.State, stage int) error {
	found, err := s.FirstNonFinite(t.Context())
	assert.Empty(t, found)
	if err != nil {
		return err
	}
	name := ""
	if g.Rank() == 3 {
		of := s.Optimizers()[stage].Trees()[0]
		leaf := of.Tree.Layout().Leaves()[0]
		values := make([]float32, leaf.Elements())
		values[0] = float32(math.Inf(1))
		assert.NoError(t, of.Tree.Write(leaf.Path, values))
		name = of.Name + "/" + leaf.Path
	}
	all, err := g.Gather(t.Context(), "what is not finite", []byte(name))
	if err != nil {
		return err
	}
	found, err = s.FirstNonFinite(t.Context())
	assert.Equal(t, string(all[3]), found)
	return err
}

// Two replicas of a model on two ranks each learn what one device does, bit by bit: metrics on every rank, and the bytes of checkpoints, from which
// four ranks and one device go on alike, with the update divided or not. Every rank knows what all have sent: those of a position a half each of what the formula says.
func TestReplicasOfStagesHaveTheBitsOfOneDevice(t *testing.T) {
	dev := gputest.Device(t)
	two := []*gpu.Device{dev, gputest.Device(t)}
	for _, x := range []struct {
		optimizer, parameters string
		microbatches          int
		stages                []int
		divided               bool
	}{
		{"adamw", `{}`, 3, []int{0, 1}, false},
		{"adamw", `{}`, 1, []int{0, 1}, true}, // one of the replicas computes nothing
		{"quad", `{"block_size":8,"refresh":{"every":2}}`, 5, []int{1, 0}, true},
	} {
		t.Run(fmt.Sprint(x), func(t *testing.T) {
			c, dir := small(t, x.optimizer, x.parameters, x.microbatches), t.TempDir()
			middle, end := filepath.Join(dir, "middle"), filepath.Join(dir, "end")
			alone, err := state.Create(t.Context(), dev, c.State)
			require.NoError(t, err)
			defer alone.Release()
			first, err := learn(t.Context(), alone, 2, middle)
			require.NoError(t, err)
			second, err := learn(t.Context(), alone, 2, end)
			require.NoError(t, err)
			require.Greater(t, first[0].GradNorm, 0.3, "the clip is at work")

			var mu sync.Mutex
			var uses [][]Use
			for rank, err := range staged(t, c, x.stages, func(_, stage int) *gpu.Device { return two[stage] }, func(g *mesh.Mesh, devices []*gpu.Device, c pipeline.Config, sums *Reducer) error {
				c.State.ShardOptimizer, c.State.Sampling = x.divided, g.Rank() < 2 // as in runs, where the first replica draws
				s, err := pipeline.Create(t.Context(), devices, c, nil)
				if err != nil {
					return err
				}
				metrics, err := learn(t.Context(), s, 2, middle+" of ranks")
				if err != nil {
					return err
				}
				assert.Equal(t, first, metrics)
				_, grads := s.Trees()
				replica, _ := g.Replica()
				own := grads[slices.Index(x.stages, g.Rank()%2)]
				sent, received := travels([]*buffers.Tree{own}, replica, 2, x.microbatches, 400, 4)
				if found := sums.Uses()[g.Rank()]; !x.divided {
					assert.Equal(t, []uint64{sent, received}, []uint64{found.Sent, found.Received})
				}
				mu.Lock()
				uses = append(uses, append([]Use(nil), sums.Uses()...))
				mu.Unlock()
				s.Release()

				s, _, err = pipeline.Load(t.Context(), devices, c, middle)
				if err != nil {
					return err
				}
				defer s.Release()
				metrics, err = learn(t.Context(), s, 2, end+" of ranks")
				assert.Equal(t, second, metrics)
				if err != nil {
					return err
				}
				return scanned(t, g, s, slices.Index(x.stages, 1))
			}) {
				require.NoError(t, err, "rank %d", rank)
			}
			require.Equal(t, filesIn(t, middle), filesIn(t, middle+" of ranks"))
			require.Equal(t, filesIn(t, end), filesIn(t, end+" of ranks"))
			require.Len(t, uses, 4)
			for _, other := range uses {
				require.Equal(t, uses[0], other)
			}
		})
	}
}

// A rank that fails ends all, of its own replica and of the others, with errors that name it.
func TestRanksOfStagesFailTogether(t *testing.T) {
	c := small(t, "adamw", `{}`, 3)
	dev, lost := gputest.Device(t), gputest.Device(t)
	devices := func(rank, stage int) *gpu.Device {
		if rank == 3 && stage == 1 {
			return lost
		}
		return dev
	}
	for rank, err := range staged(t, c, []int{0, 1}, devices, func(g *mesh.Mesh, own []*gpu.Device, c pipeline.Config, _ *Reducer) error {
		s, err := pipeline.Create(t.Context(), own, c, nil)
		if err != nil {
			return err
		}
		defer s.Release()
		if _, err := s.TrainStep(t.Context(), batchOf(c.State, 0)); err != nil {
			return fmt.Errorf("too early: %w", err)
		}
		if g.Rank() == 3 {
			lost.Lose("pulled out")
		}
		_, err = s.TrainStep(t.Context(), batchOf(c.State, 1))
		return err
	}) {
		require.ErrorContains(t, err, "pulled out", "rank %d", rank)
		require.NotContains(t, err.Error(), "too early")
		var noticed *transport.Error
		if rank == 3 {
			require.ErrorContains(t, err, "stage 1 (rank 3 on host ")
		} else {
			require.ErrorAs(t, err, &noticed)
			require.Equal(t, 3, noticed.Rank)
		}
	}
}
