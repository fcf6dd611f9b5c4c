package pipeline

import (
	"context"
	"sync/atomic"
	"time"

	"gputrain/gpu"
	"gputrain/pipeline/schedule"
)

// tickDepth bounds the actions of a stage that are submitted and not known to be done.
const tickDepth = 4

// A tick tells when the actions of a stage are done: a word read back behind each of them.
type tick struct {
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

func newTick(ctx context.Context, label string, s *stage) (*tick, error) {
	t := &tick{free: make(chan struct{}, tickDepth), under: make(chan submitted, tickDepth)}
	for range tickDepth {
		t.free <- struct{}{}
	}
	var err error
	if t.word, err = s.device.NewBuffer("gputrain.pipeline."+label+".tick", 16); err != nil {
		return nil, err
	}
	if t.ring, err = s.device.NewReadback("gputrain.pipeline."+label+".tick", 4, tickDepth); err != nil {
		return nil, err
	}
	rec := s.device.Record("gputrain.pipeline.tick")
	rec.ReadBack(t.ring, t.word.Range(0, 4))
	t.run, err = rec.Program(ctx)
	return t, err
}

// tickBytes is what a tick takes of a device.
const tickBytes = 16 + 4*tickDepth

// watch follows n submitted actions of a worker until they are done, and notes when the device was at work on each.
func (w *worker) watch(ctx context.Context, n int) error {
	t := w.tick
	var last time.Time
	var word [4]byte
	for range n {
		var s submitted
		select {
		case s = <-t.under:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		t.current.Store(&s)
		if _, err := t.ring.NextInto(ctx, word[:]); err != nil {
			return w.stage.failed(s.action.String(), err)
		}
		t.current.Store(nil)
		w.crew.moved()
		end := time.Now()
		begin := s.at
		if begin.Before(last) {
			begin = last
		}
		last = end
		w.note.computed(w.stage, s.action, begin, end)
		t.free <- struct{}{}
	}
	return nil
}

func (t *tick) release() {
	if t.run != nil {
		t.run.Release()
	}
	if t.ring != nil {
		t.ring.Release()
	}
	if t.word != nil {
		t.word.Release()
	}
}
