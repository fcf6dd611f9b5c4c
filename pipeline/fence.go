package pipeline

import (
	"context"
	"sync/atomic"
	"time"

	"gputrain/gpu"
	"gputrain/internal/schedule"
)

// fenceDepth bounds the actions of a stage that are submitted and not known to be done.
const fenceDepth = 4

// A fence tells when the actions of a stage are done: a word read back behind each of them.
type fence struct {
	word  *gpu.Buffer
	ring  *gpu.Readback
	run   *gpu.Program
	free  chan struct{}
	under chan submitted // actions that are submitted, in order

	current atomic.Pointer[submitted] // the oldest that is not known to be done
}

// submitted is an action on its way through a device.
type submitted struct {
	action schedule.Action
	at     time.Time
}

func newFence(ctx context.Context, label string, s *stage) (*fence, error) {
	f := &fence{free: make(chan struct{}, fenceDepth), under: make(chan submitted, fenceDepth)}
	for range fenceDepth {
		f.free <- struct{}{}
	}
	var err error
	if f.word, err = s.device.NewBuffer("gputrain.pipeline."+label+".fence", 16); err != nil {
		return nil, err
	}
	if f.ring, err = s.device.NewReadback("gputrain.pipeline."+label+".fence", 4, fenceDepth); err != nil {
		return nil, err
	}
	rec := s.device.Record("gputrain.pipeline.fence")
	rec.ReadBack(f.ring, f.word.Range(0, 4))
	f.run, err = rec.Program(ctx)
	return f, err
}

// fenceBytes is what a fence takes of a device.
const fenceBytes = 16 + 4*fenceDepth

// watch follows n submitted actions of a worker until they are done, and notes when the device was at work on each.
func (w *worker) watch(ctx context.Context, n int) error {
	f := w.fence
	var last time.Time
	var word [4]byte
	for range n {
		var s submitted
		select {
		case s = <-f.under:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		f.current.Store(&s)
		if _, err := f.ring.NextInto(ctx, word[:]); err != nil {
			return w.stage.failed(s.action.String(), err)
		}
		f.current.Store(nil)
		w.group.moved()
		end := time.Now()
		begin := s.at
		if begin.Before(last) {
			begin = last
		}
		last = end
		w.note.computed(w.stage, s.action, begin, end)
		f.free <- struct{}{}
	}
	return nil
}

func (f *fence) release() {
	f.run.Release()
	f.ring.Release()
	f.word.Release()
}
