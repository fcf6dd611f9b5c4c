package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/internal/gputest"
	"gputrain/internal/ranks/mesh"
	"gputrain/internal/ranks/transport"
	"gputrain/state"
)

// network joins ranks in one process by links on which a byte takes a nanosecond, one each way for each rank.
type network struct {
	mu      sync.Mutex
	out, in []time.Time // until when links are taken
	letters map[[3]int]chan posted
}

type posted struct {
	b     []byte
	taken chan struct{}
}

type linked struct {
	transport.Ranks
	net *network
}

func (n *network) route(from, to int, tag transport.Tag) chan posted {
	n.mu.Lock()
	defer n.mu.Unlock()
	k := [3]int{from, to, int(tag)}
	if n.letters[k] == nil {
		n.letters[k] = make(chan posted)
	}
	return n.letters[k]
}

// Send waits for the Receive, as Local's does.
func (l linked) Send(_ context.Context, to int, tag transport.Tag, b []byte) error {
	p := posted{b, make(chan struct{})}
	l.net.route(l.Rank(), to, tag) <- p
	<-p.taken
	return nil
}

// Receive takes the time of the bytes, in frames, between which other messages have theirs.
func (l linked) Receive(_ context.Context, from int, tag transport.Tag, b []byte) error {
	p := <-l.net.route(from, l.Rank(), tag)
	const frame = 256
	for at := 0; at < len(b); {
		l.net.mu.Lock()
		now := time.Now()
		end := now
		for _, free := range []time.Time{l.net.out[from], l.net.in[l.Rank()]} {
			if free.After(end) {
				end = free
			}
		}
		if end == now {
			n := min(frame, len(b)-at)
			at += n
			end = end.Add(time.Duration(n))
			l.net.out[from], l.net.in[l.Rank()] = end, end
		}
		l.net.mu.Unlock()
		time.Sleep(time.Until(end))
	}
	copy(b, p.b)
	close(p.taken)
	return nil
}

// No rank waits long for another: a sum takes little more than the bytes of the rank that sends most. Where one leaf is half of the model its owner does: it
// sends all but its piece to be added up, its half in pieces, and its piece to all others. Time is the network's alone.
func TestSumTakesTheTimeOfItsBytes(t *testing.T) {
	const ranks, rows = 8, 7 * 128
	const bucket = 4096 * ranks
	dev := gputest.Device(t)
	half := []buffers.Spec{{Path: "half", Shape: []int{rows, 128}}}
	groups, flat := [][]buffers.Spec{half}, half
	for i := range ranks - 1 {
		leaf := buffers.Spec{Path: fmt.Sprint(i), Shape: []int{rows / (ranks - 1), 128}}
		groups, flat = append(groups, []buffers.Spec{leaf}), append(flat, leaf)
	}
	bytes := uint64(2 * 4 * rows * 128)
	for name, k := range map[string]struct {
		layout func() (*buffers.Layout, error)
		least  float64 // of the model's bytes, that one rank has to send
	}{
		"whole":   {func() (*buffers.Layout, error) { return buffers.NewLayout(flat, dev.Limits()) }, 7.0/8 + 7.0/8},
		"divided": {func() (*buffers.Layout, error) { return buffers.NewGroupedLayout(groups, dev.Limits()) }, 7.0/8 + 1.0/2 + 6.0/8},
	} {
		t.Run(name, func(t *testing.T) {
			layout, err := k.layout()
			require.NoError(t, err)
			grads := make([][]*buffers.Tree, ranks)
			for rank := range grads {
				grads[rank] = []*buffers.Tree{newTree(t, dev, layout)}
			}
			synctest.Test(t, func(t *testing.T) {
				net := &network{out: make([]time.Time, ranks), in: make([]time.Time, ranks), letters: map[[3]int]chan posted{}}
				errs, sent := make([]error, ranks), make([]uint64, ranks)
				var all sync.WaitGroup
				began := time.Now()
				for rank, r := range transport.Local(ranks) {
					all.Go(func() {
						reducer, err := NewReducer(t.Context(), mesh.New(linked{r, net}, mesh.Config{}), Sums{Microbatches: ranks, Bucket: bucket}, dev)
						if err == nil {
							err = reducer.Sum(t.Context(), grads[rank], []state.Partial{{Span: state.Span{First: rank, Count: 1}, Trees: grads[rank]}})
						}
						if err == nil {
							err = reducer.GatherTrees(t.Context(), grads[rank])
						}
						errs[rank] = err
						if err == nil {
							sent[rank] = reducer.use.Sent
						}
					})
				}
				all.Wait()
				require.NoError(t, errors.Join(errs...))
				took, most := float64(time.Since(began))/float64(bytes), float64(slices.Max(sent))/float64(bytes)
				t.Logf("%.2f of the model's bytes sent by one rank, in %.2f of their time", most, took)
				assert.InEpsilon(t, k.least, most, 0.01)
				assert.Less(t, took, 1.6*most)
			})
		})
	}
}
