package state

import (
	"context"
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
	"gputrain/model"
	"gputrain/run/data"
	"gputrain/state/checkpoint"
)

// meeting joins replicas in one process: each waits until all have come.
type meeting struct {
	sync.Mutex
	size  int
	given []any
	ended chan []any // of the round under way
}

// all gives every replica what all have given.
func (m *meeting) all(rank int, own any) []any {
	m.Lock()
	if m.given == nil {
		m.given, m.ended = make([]any, m.size), make(chan []any, m.size)
	}
	given, ended := m.given, m.ended
	given[rank] = own
	if !slices.Contains(given, nil) {
		m.given = nil
		for range m.size {
			ended <- given
		}
	}
	m.Unlock()
	return <-ended
}

// replica is one of a meeting.
type replica struct {
	*meeting
	rank int
}

// leafSums are what a replica gives of a leaf: its partial sums.
type leafSums struct {
	spans  []Span
	values [][]float32
}

func (r replica) Sum(ctx context.Context, grads []*buffers.Tree, own []Partial) error {
	for stage, tree := range grads {
		for _, leaf := range tree.Layout().Leaves() {
			given := &leafSums{}
			for _, p := range own {
				values, err := p.Trees[stage].Read(ctx, leaf.Path)
				if err != nil {
					return err
				}
				given.spans, given.values = append(given.spans, p.Span), append(given.values, values)
			}
			var all leafSums
			for _, g := range r.all(r.rank, given) {
				all.spans, all.values = append(all.spans, g.(*leafSums).spans...), append(all.values, g.(*leafSums).values...)
			}
			last := all.spans[len(all.spans)-1]
			sum := Fold(last.First+last.Count, all.spans, func(i int) []float32 { return slices.Clone(all.values[i]) }, func(left, right []float32) []float32 {
				for i := range left {
					left[i] += right[i]
				}
				return left
			})
			if _, mine := tree.Group(r.rank % tree.Layout().Groups()).Layout().Leaf(leaf.Path); !mine {
				sum[0] = float32(math.NaN()) // is nothing to this replica
			}
			if err := tree.Write(leaf.Path, sum); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r replica) GatherTrees(ctx context.Context, trees []*buffers.Tree) error {
	for _, tree := range trees {
		var own []buffers.Host
		var err error
		if tree.Layout().Groups() > 1 {
			own, err = tree.Group(r.rank).Download(ctx)
		}
		if err != nil {
			return err
		}
		for rank, given := range r.all(r.rank, &own) {
			for _, h := range *given.(*[]buffers.Host) {
				if rank == r.rank {
					continue
				}
				if err := tree.Write(h.Path, h.Data); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// inReplicas are the configurations of n replicas in this process.
func inReplicas(c Config, n int) (out []Config) {
	room := &meeting{size: n}
	for rank, ranks := range transport.Local(n) {
		c.Mesh, c.Reducer = mesh.New(ranks, mesh.Config{}), replica{room, rank}
		out = append(out, c)
	}
	return out
}

// learnt is what a replica has come to: the metrics of its steps, and the files of a checkpoint.
type learnt struct {
	metrics []Metrics
	files   map[string]string
}

// learn trains with batches that have the rows of all replicas.
func learn(ctx context.Context, dev *gpu.Device, c Config, batches []data.Batch, dir string) (out learnt, err error) {
	s, err := Create(ctx, dev, c)
	if err != nil {
		return out, err
	}
	defer s.Release()
	share, row := s.job.Share(), s.job.Sequence
	for _, b := range batches {
		from, to := share.First*c.Batch*row, share.end()*c.Batch*row
		m, err := s.TrainStep(ctx, data.Batch{Rows: c.Batch * share.Count, Tokens: b.Tokens[from:to], Labels: b.Labels[from:to]})
		if err != nil {
			return out, err
		}
		out.metrics = append(out.metrics, m...)
	}
	m, err := s.Drain(ctx)
	if err != nil {
		return out, err
	}
	out.metrics, out.files = append(out.metrics, m...), map[string]string{}
	if err := s.Save(ctx, dir, checkpoint.Run{}); err != nil {
		return out, err
	}
	for _, name := range []string{"model.safetensors", checkpoint.OptimizerFile} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return out, err
		}
		out.files[name] = string(text)
	}
	return out, nil
}

// Any number of replicas, also more than there are microbatches, with unequal numbers of tokens, learns what one does, bit by bit: with a head that is tied
// to the embedding, with dropout, with one of its own.
func TestReplicasLearnWhatOneDoes(t *testing.T) {
	dev := gputest.Device(t)
	gpt2, err := model.NewGPT2(model.GPT2Config{Layers: 1, Heads: 2, Width: 16, Vocab: testV, Context: testT, ResidualDropout: 0.1})
	require.NoError(t, err)
	llama := generating(t)["llama"]
	for _, k := range []struct {
		def          model.Definition
		optimizer    string
		microbatches int
		replicas     []int
	}{
		{gpt2, "adamw", 1, []int{2}},
		{gpt2, "quad", 3, []int{2, 3, 4}},
		{llama, "quad", 4, []int{3}},
		{gpt2, "adamw", 8, []int{2, 3, 4}},
	} {
		t.Run(fmt.Sprintf("%s %s %d", k.def.Kind(), k.optimizer, k.microbatches), func(t *testing.T) {
			c := tinyConfig(t)
			c.Definition, c.Sequence, c.Optimizer.Name, c.Batch, c.Microbatches = k.def, testT, k.optimizer, 1, k.microbatches
			batches := []data.Batch{tinyBatch(0, k.microbatches, true), tinyBatch(1, k.microbatches, true)}
			want, err := learn(t.Context(), dev, c, batches, t.TempDir())
			require.NoError(t, err)
			require.Len(t, want.metrics, len(batches))
			for _, replicas := range k.replicas {
				var all sync.WaitGroup
				for rank, c := range inReplicas(c, replicas) {
					dir := t.TempDir()
					all.Go(func() {
						got, err := learn(t.Context(), dev, c, batches, dir)
						assert.NoError(t, err, "replica %d of %d", rank, replicas)
						assert.Equal(t, want.metrics, got.metrics, "replica %d of %d", rank, replicas)
						for name, text := range want.files {
							assert.True(t, text == got.files[name], "replica %d of %d: another %s", rank, replicas, name)
						}
					})
				}
				all.Wait()
			}
		})
	}
}
