package state

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/internal/gputest"
	"gputrain/model"
	"gputrain/optim"
	"gputrain/run/data"
	"gputrain/state/checkpoint"
)

func TestDeal(t *testing.T) {
	var leaves []buffers.Spec
	work := map[string]float64{"a": 3, "b": 5, "c": 3, "d": 2, "e": 2, "f": 0}
	for _, path := range []string{"a", "b", "c", "d", "e", "f"} {
		leaves = append(leaves, buffers.Spec{Path: path})
	}
	paths := func(ranks int) (out []string) {
		for _, part := range deal(leaves, work, ranks) {
			text := ""
			for _, leaf := range part {
				text += leaf.Path
			}
			out = append(out, text)
		}
		return out
	}
	// b to 0 (5), a to 1 (3), c to 1 (6), d to 0 (7), e to 1 (8), f to 0.
	assert.Equal(t, []string{"bdf", "ace"}, paths(2))
	assert.Equal(t, []string{"bacdef"}, paths(1))
	assert.Equal(t, []string{"b", "a", "c", "d", "e", "f", "", ""}, paths(8), "ranks without a leaf")
}

// A refresh of factors, or orthogonalisation, on four replicas costs each of them a quarter, counted in multiply-adds.
func TestReplicasShareTheWorkOnMatrices(t *testing.T) {
	definition := func(def model.Definition, err error) model.Definition {
		require.NoError(t, err)
		return def
	}
	for name, def := range map[string]model.Definition{
		"GPT-2 124M": definition(model.NewGPT2(model.GPT2Config{Layers: 12, Heads: 12, Width: 768, Vocab: 50257, Context: 1024})),
		"Llama 3.2 1B": definition(model.NewLlama(model.LlamaConfig{
			Layers: 16, Heads: 32, KVHeads: 8, Width: 2048, Intermediate: 8192, Vocab: 128256, Context: 2048, Tied: true,
		})),
		"Qwen3 0.6B": definition(model.NewLlama(model.LlamaConfig{
			Layers: 28, Heads: 16, KVHeads: 8, HeadDim: 128, Width: 1024, Intermediate: 3072, Vocab: 151936, Context: 2048, Tied: true,
		})),
	} {
		leaves := model.Specs(def)
		for _, optimizer := range []string{"quad", "skew", "muon", "adamw"} {
			tx, err := optim.Config{Name: optimizer}.Build()
			require.NoError(t, err)
			work, err := tx.Work(leaves)
			require.NoError(t, err)
			for _, replicas := range []int{2, 4, 8} {
				var shares []float64
				sum := 0.0
				for _, part := range deal(leaves, work, replicas) {
					share := 0.0
					for _, leaf := range part {
						share += work[leaf.Path]
						if optimizer != "adamw" {
							share -= float64(buffers.Leaf{Shape: leaf.Shape}.Elements()) // multiply-adds alone
						}
					}
					shares, sum = append(shares, share), sum+share
				}
				mean := sum / float64(replicas)
				t.Logf("%s, %s, %d replicas: %.3f to %.3f of a share", name, optimizer, replicas, slices.Min(shares)/mean, slices.Max(shares)/mean)
				if optimizer != "adamw" { // which has the whole embedding on one
					assert.Less(t, slices.Max(shares), 1.2*mean)
					assert.Greater(t, slices.Min(shares), 0.8*mean)
				}
			}
		}
	}
}

// replicated runs replicas and returns what each had to say in the end.
func replicated[T any](t *testing.T, replicas int, c Config, run func(c Config) (T, error)) []T {
	t.Helper()
	out, errs := make([]T, replicas), make([]error, replicas)
	var all sync.WaitGroup
	for rank, c := range inReplicas(c, replicas) {
		all.Go(func() { out[rank], errs[rank] = run(c) })
	}
	all.Wait()
	for rank, err := range errs {
		require.NoError(t, err, "replica %d", rank)
	}
	return out
}

// Replicas that divide the update learn what one learns, bit by bit: metrics, parameters, optimizer's state and so every byte of a checkpoint, from which
// any number of replicas goes on, dividing the update or not.
func TestDividedUpdatesHaveTheSameBits(t *testing.T) {
	dev := gputest.Device(t)
	trained, rest := []string{"h.0.attn.c_attn.weight", "h.0.mlp.c_fc.bias"}, []string(nil)
	for _, p := range tinyModel(t, 0).Params() {
		if !slices.Contains(trained, p.Path) {
			rest = append(rest, p.Path)
		}
	}
	for name, k := range map[string]struct {
		optimizer, parameters string
		replicas              [2]int // before and after a checkpoint
		frozen                []string
	}{
		"adamw":                     {"adamw", `{"mu_dtype":"bf16"}`, [2]int{2, 4}, nil},
		"in eight bits":             {"mars", `{"state_dtype":"8bit"}`, [2]int{2, 3}, nil},
		"muon":                      {"muon", `{}`, [2]int{3, 2}, nil},
		"quad":                      {"quad", `{"block_size":8,"max_size_dense":24,"dtype":"bf16"}`, [2]int{4, 3}, nil},
		"skew":                      {"skew", `{"block_size":8,"max_size_dense":24}`, [2]int{2, 1}, nil},
		"adafactor":                 {"adafactor", `{"min_dim_size_to_factor":8}`, [2]int{2, 3}, nil},
		"on spheres":                {"adamw", `{}`, [2]int{2, 3}, nil},
		"more replicas than leaves": {"quad", `{"block_size":8}`, [2]int{3, 4}, rest},
	} {
		if testing.Short() && (name == "skew" || name == "adafactor") {
			continue
		}
		t.Run(name, func(t *testing.T) {
			c := tinyConfig(t)
			if name == "in eight bits" {
				c.Definition = wideModel(t)
			}
			c.Frozen = k.frozen
			c.Optimizer.Name, c.Optimizer.Parameters = k.optimizer, json.RawMessage(k.parameters)
			if o := &c.Optimizer.Options; name == "on spheres" {
				o.Hyperball, o.CautiousDecay, o.WeightDecay, o.UpdateFloor = optim.Hyperball{Hidden: true}, true, 0.1, 30
			}
			c.Batch, c.Microbatches, c.MeasureUpdates = 1, 3, true
			dir := t.TempDir()
			// learn goes on from a checkpoint, if any, for two steps, saves and tells the metrics.
			learn := func(from, to string) func(c Config) ([]Metrics, error) {
				return func(c Config) (metrics []Metrics, err error) {
					var s *TrainState
					if from == "" {
						s, err = Create(t.Context(), dev, c)
					} else {
						s, _, err = Load(t.Context(), dev, c, filepath.Join(dir, from))
					}
					if err != nil {
						return nil, err
					}
					defer s.Release()
					for range 2 {
						share, b := jobOf(t, c).Share(), tinyBatch(int(s.Step()), c.Microbatches, true)
						from, to := share.First*testT, share.end()*testT
						m, err := s.TrainStep(t.Context(), data.Batch{Rows: share.Count, Tokens: b.Tokens[from:to], Labels: b.Labels[from:to]})
						if err != nil {
							return nil, err
						}
						metrics = append(metrics, m...)
					}
					m, err := s.Drain(t.Context())
					if err != nil {
						return nil, err
					}
					rank, _ := jobOf(t, c).replicas()
					if jobOf(t, c).sharded() || rank == 0 {
						err = s.Save(t.Context(), filepath.Join(dir, to), checkpoint.Run{})
					}
					return append(metrics, m...), err
				}
			}
			wantFirst := replicated(t, 1, c, learn("", "a"))[0]
			wantSecond := replicated(t, 1, c, learn("a", "b"))[0]
			a, b := contents(t, filepath.Join(dir, "a")), contents(t, filepath.Join(dir, "b"))
			c.ShardOptimizer, c.PieceBytes = true, 48 // so that every tensor is carried, saved and loaded in pieces
			for rank, got := range replicated(t, k.replicas[0], c, learn("", "c")) {
				require.Equal(t, wantFirst, got, "replica %d", rank)
			}
			require.Equal(t, a, contents(t, filepath.Join(dir, "c")))
			for rank, got := range replicated(t, k.replicas[1], c, learn("c", "d")) {
				require.Equal(t, wantSecond, got, "replica %d", rank)
			}
			require.Equal(t, b, contents(t, filepath.Join(dir, "d")))
		})
	}
}

// Each of three replicas is planned with what it takes: its part of the optimizer's state, and what every replica has of all else.
func TestPlanOfADividedUpdate(t *testing.T) {
	dev := gputest.Device(t)
	for _, optimizer := range []string{"adamw", "quad"} {
		c := plannedConfig(t)
		c.Evaluation, c.Sampling, c.Optimizer.Name = 0, false, optimizer
		whole, err := Plan(t.Context(), jobOf(t, c), dev.Limits())
		require.NoError(t, err)
		c.ShardOptimizer = true
		sum := uint64(0)
		for rank, c := range inReplicas(c, 3) {
			plan, err := Plan(t.Context(), jobOf(t, c), dev.Limits())
			require.NoError(t, err)
			s, err := Create(t.Context(), dev, c)
			require.NoError(t, err)
			assert.Equal(t, plan.Optimizer, s.Optimizers()[0].Bytes())
			assert.Equal(t, plan.Params, s.Params().Bytes())
			s.Release()
			t.Logf("%s, replica %d: optimizer %d of %d bytes", optimizer, rank, plan.Optimizer, whole.Optimizer)
			assert.Less(t, plan.Optimizer, whole.Optimizer*45/100)
			sum += plan.Optimizer
			assert.InEpsilon(t, whole.Params, plan.Params, 0.01)
			assert.InEpsilon(t, whole.Step, plan.Step, 0.01)
		}
		assert.InEpsilon(t, whole.Optimizer, sum, 0.2)
	}
}

// fullOnce is a disk that is full once the optimizer's tensors come.
type fullOnce struct {
	checkpoint.FileSystem
	failed *bool
}

func (f fullOnce) Create(path string) (checkpoint.File, error) {
	if filepath.Base(path) == checkpoint.OptimizerFile && !*f.failed {
		*f.failed = true
		return nil, errFull
	}
	return f.FileSystem.Create(path)
}

var errFull = errors.New("full")

// A first replica whose disk is full takes from the others what it no longer writes, so that all make the next call together.
func TestFailedSaveKeepsNobodyWaiting(t *testing.T) {
	dev, dir := gputest.Device(t), t.TempDir()
	c := tinyConfig(t)
	c.Batch, c.Microbatches, c.ShardOptimizer, c.PieceBytes = 1, 2, true, 48
	c.FS = fullOnce{checkpoint.OS, new(bool)}
	failed := replicated(t, 2, c, func(c Config) (failed error, err error) {
		s, err := Create(t.Context(), dev, c)
		if err != nil {
			return nil, err
		}
		defer s.Release()
		failed = s.Save(t.Context(), filepath.Join(dir, "a"), checkpoint.Run{})
		return failed, s.Save(t.Context(), filepath.Join(dir, "b"), checkpoint.Run{})
	})
	require.ErrorIs(t, failed[0], errFull)
	require.NoError(t, failed[1])
	require.NoError(t, checkpoint.Verify(checkpoint.OS, filepath.Join(dir, "b")))
}
