package cluster

import (
	"context"
	"errors"
	"math"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/gpu/gputest"
	"gputrain/graph"
	"gputrain/pipeline"
	"gputrain/state"
	"gputrain/transport"
)

// noticed are ranks that tell of the first gradients that they send.
type noticed struct {
	transport.Ranks
	once sync.Once
	sent chan struct{}
}

func (n *noticed) Send(ctx context.Context, to int, tag transport.Tag, b []byte) error {
	if tag == tagPieces {
		n.once.Do(func() { close(n.sent) })
	}
	return n.Ranks.Send(ctx, to, tag, b)
}

// What is final early leaves while the passes still run: here they only go on once it has. What they make later is not read before, and all ranks take
// the buckets in one order, also where theirs would differ.
func TestGradientsTravelWhileOthersAreMade(t *testing.T) {
	const ranks = 2
	dev := gputest.Device(t)
	want := summed(t, dev, ranks, state.Span{Count: ranks})
	last := graph.Elements(model[0][0].Shape) // of leaf a, which is final last
	errs, orders := make([]error, ranks), make([][]int, ranks)
	var all sync.WaitGroup
	for rank, of := range transport.Local(ranks) {
		n := &noticed{Ranks: of, sent: make(chan struct{})}
		grads := trees(t, dev)
		values := gradient(rank)
		put32(t, grads, append(slices.Repeat([]float32{float32(math.NaN())}, last), values[last:]...))
		making := state.Making{
			Final: func(stage int, leaf buffers.Leaf) int {
				if leaf.Path == "a" {
					return 2
				}
				return (stage + rank) % 2
			},
			Make: func(ctx context.Context, behind state.Behind) error {
				moment := func(at int) error {
					programs, submitted := behind.Add(dev, at, nil)
					if err := dev.Submit(ctx, programs...); err != nil {
						return err
					}
					submitted()
					return nil
				}
				if err := errors.Join(moment(0), moment(1)); err != nil {
					return err
				}
				select {
				case <-n.sent:
				case <-time.After(time.Minute):
					return errors.New("found no gradients sent in a minute, wanted those that are final")
				}
				return errors.Join(grads[0].Write("a", values[:last]), moment(2))
			},
		}
		all.Go(func() {
			r, err := NewReducer(t.Context(), New(n, Config{Timeout: time.Minute}), Sums{Microbatches: ranks, Bucket: 400}, dev)
			if err == nil {
				defer r.Release()
				err = r.Sum(t.Context(), grads, []state.Partial{{Span: state.Span{First: rank, Count: 1}, Trees: grads}}, making)
				orders[rank] = r.order
				assert.Positive(t, r.use.Hidden)
			}
			errs[rank] = err
			if err == nil {
				assert.Equal(t, bitsOf(want), bitsOf(get32(t, grads)), "rank %d", rank)
			}
		})
	}
	all.Wait()
	require.NoError(t, errors.Join(errs...))
	assert.Equal(t, orders[0], orders[1])
	assert.False(t, slices.IsSorted(orders[0]), "what is final first comes first")
}

// Passes that are cut where gradients are final learn what one device learns: on one device, with partial sums behind the last microbatch, with a rank that
// has nothing to compute, with the update divided, and on stages, one of which comes first.
func TestCutPassesHaveTheSameBits(t *testing.T) {
	dev := gputest.Device(t)
	one := func(c pipeline.Config) (learner, error) { return state.Create(t.Context(), dev, c.State) }
	staged := func(c pipeline.Config) (learner, error) {
		return pipeline.Create(t.Context(), []*gpu.Device{dev, dev}, c, nil)
	}
	for name, k := range map[string]struct {
		microbatches int
		sharded      bool
		create       func(c pipeline.Config) (learner, error)
	}{"device": {5, false, one}, "idle rank": {1, false, one}, "divided": {2, true, one}, "stages": {3, false, staged}} {
		t.Run(name, func(t *testing.T) {
			c, dirs := small(t, "adamw", `{}`, k.microbatches), []string{t.TempDir(), t.TempDir(), t.TempDir()}
			learnt := func(dir string, c pipeline.Config, create func(c pipeline.Config) (learner, error)) ([]state.Metrics, error) {
				s, err := create(c)
				if err != nil {
					return nil, err
				}
				defer s.Release()
				return learn(t.Context(), s, 2, filepath.Join(dir, "saved"))
			}
			want, err := learnt(dirs[2], c, one)
			require.NoError(t, err)
			for rank, err := range together(2, func(rank int, g *Group) error {
				r, err := NewReducer(t.Context(), g, Sums{Microbatches: k.microbatches, Bucket: 1 << 10}, dev)
				if err != nil {
					return err
				}
				defer r.Release()
				c := c
				c.State.Reducer, c.State.ShardOptimizer = r, k.sharded
				found, err := learnt(dirs[rank], c, k.create)
				assert.Equal(t, want, found, "rank %d", rank)
				moments := map[int]bool{}
				for _, g := range r.reading.rings {
					for _, read := range g.reads {
						moments[read.moment] = true
					}
				}
				assert.Equal(t, c.State.Share().Count > 0, len(moments) > 1, "rank %d", rank)
				return err
			}) {
				require.NoError(t, err, "rank %d", rank)
			}
			saved := func(dir string) string { return filesIn(t, filepath.Join(dir, "saved"))["model.safetensors"] }
			assert.True(t, saved(dirs[2]) == saved(dirs[0]), "another model")
		})
	}
}
