package state

import (
	"context"
	"math"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/data"
	"gputrain/gpu/gputest"
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

func (r replica) Replicas() (rank, count int) { return r.rank, r.size }

func (r replica) Gather(_ context.Context, own []byte) (out [][]byte, err error) {
	for _, given := range r.all(r.rank, &own) {
		out = append(out, *given.(*[]byte))
	}
	return out, nil
}

func (r replica) Sum(ctx context.Context, trees []*buffers.Tree) error {
	for _, tree := range trees {
		for _, leaf := range tree.Layout().Leaves() {
			own, err := tree.Read(ctx, leaf.Path)
			if err != nil {
				return err
			}
			sum := make([]float32, len(own))
			for _, given := range r.all(r.rank, &own) {
				for i, x := range *given.(*[]float32) {
					sum[i] += x
				}
			}
			if err := tree.Write(leaf.Path, sum); err != nil {
				return err
			}
		}
	}
	return nil
}

// Replicas of one microbatch each, with unequal numbers of tokens, learn what one with as many microbatches learns, bit by bit. No parameter of
// the model is read in two places.
func TestReplicasAreMicroBatches(t *testing.T) {
	const steps, replicas = 4, 2
	for _, optimizer := range []string{"adamw", "quad"} {
		t.Run(optimizer, func(t *testing.T) {
			dev := gputest.Device(t)
			c := tinyConfig(t)
			c.Definition, c.Sequence, c.Optimizer.Name = generating(t)["llama"], testT, optimizer
			c.Batch, c.Microbatches = 2, replicas
			batches := make([]data.Batch, steps)
			for i := range batches {
				batches[i] = tinyBatch(i, 2*replicas, true)
			}
			learn := func(c Config, of func(data.Batch) data.Batch) (metrics []Metrics, params []buffers.Host, err error) {
				s, err := Create(t.Context(), dev, c)
				if err != nil {
					return nil, nil, err
				}
				defer s.Release()
				for _, b := range batches {
					m, err := s.TrainStep(t.Context(), of(b))
					if err != nil {
						return nil, nil, err
					}
					metrics = append(metrics, m...)
				}
				m, err := s.Drain(t.Context())
				if err != nil {
					return nil, nil, err
				}
				params, err = s.Params().Download(t.Context())
				return append(metrics, m...), params, err
			}
			wantMetrics, wantParams, err := learn(c, func(b data.Batch) data.Batch { return b })
			require.NoError(t, err)
			require.Len(t, wantMetrics, steps)

			c.Microbatches = 1
			room := &meeting{size: replicas}
			var all sync.WaitGroup
			errs := make([]error, replicas)
			for rank := range replicas {
				c := c
				c.Reducer = replica{room, rank}
				all.Go(func() {
					metrics, params, err := learn(c, func(b data.Batch) data.Batch {
						n := len(b.Tokens) / replicas
						return data.Batch{Rows: 2, Tokens: b.Tokens[rank*n : (rank+1)*n], Labels: b.Labels[rank*n : (rank+1)*n]}
					})
					if errs[rank] = err; err == nil {
						assert.Equal(t, wantMetrics, metrics, "replica %d", rank)
						for i, h := range params {
							for j, x := range h.Data {
								if math.Float32bits(x) != math.Float32bits(wantParams[i].Data[j]) {
									assert.Fail(t, "another parameter", "replica %d: %s: element %d: found %v, wanted %v", rank, h.Path, j, x, wantParams[i].Data[j])
									break
								}
							}
						}
					}
				})
			}
			all.Wait()
			for rank, err := range errs {
				require.NoError(t, err, "replica %d", rank)
			}
		})
	}
}
