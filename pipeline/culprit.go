package pipeline

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"gputrain/internal/schedule"
)

// position is where a worker is: at an action, and there maybe waiting for another stage.
type position struct {
	mu     sync.Mutex
	action schedule.Action
	on     *wire // waited for; nil at work
	ended  bool
}

func (p *position) set(a schedule.Action, on *wire, ended bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.action, p.on, p.ended = a, on, ended
}

func (p *position) get() (a schedule.Action, on *wire, ended bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.action, p.on, p.ended
}

// traffic is what has become of the messages of a wire in a run.
type traffic struct {
	sent, received atomic.Int64
	inside         atomic.Bool // the sender is in a call of the link's
}

func (t *traffic) reset() {
	t.sent.Store(0)
	t.received.Store(0)
	t.inside.Store(false)
}

// culprit is the stage that keeps the others waiting when a run stands still; nil where nothing tells. First come links that hold a message, or the sender of one,
// although the receiver waits for it; then devices with work under way, the oldest first; then stages that wait for nobody.
func (l *line) culprit(late error) error {
	for _, w := range l.wires {
		if w.link == nil || w.source.away || w.sink.away {
			continue
		}
		a, on, _ := l.workers[w.sink.index].at.get()
		sent, received := w.traffic.sent.Load(), w.traffic.received.Load()
		if on == w && l.receives(w, a) && (sent > received || w.traffic.inside.Load()) {
			return w.sink.failed(a.String(), fmt.Errorf("link %s: %d messages sent, %d received: %w", w.name(), sent, received, late))
		}
	}
	var oldest *submitted
	var slow *stage
	for _, w := range l.workers {
		if w == nil {
			continue
		}
		if s := w.fence.current.Load(); s != nil && (oldest == nil || s.at.Before(oldest.at)) {
			oldest, slow = s, w.stage
		}
	}
	if oldest != nil {
		return slow.failed(oldest.action.String(), fmt.Errorf("submitted %s ago and not done: %w", time.Since(oldest.at).Round(time.Millisecond), late))
	}
	for _, w := range l.workers {
		if w == nil {
			continue
		}
		if a, on, ended := w.at.get(); on == nil && !ended {
			return w.stage.failed(a.String(), fmt.Errorf("not submitted: %w", late))
		}
	}
	return l.awaited(late)
}

// awaited is the stage of another rank that a stage of this one waits for.
func (l *line) awaited(late error) error {
	for _, w := range l.workers {
		if w == nil {
			continue
		}
		a, on, _ := w.at.get()
		switch {
		case on == nil:
		case on.source.away:
			return on.source.failed("link "+on.name(), fmt.Errorf("%s waits for its message: %w", a, silent(l.mesh, on.source.index, "receive", late)))
		case on.sink.away:
			return on.sink.failed("link "+on.name(), fmt.Errorf("%s waits for it to take a message: %w", a, silent(l.mesh, on.sink.index, "send", late)))
		}
	}
	return nil
}

// receives tells whether an action takes messages of a wire.
func (l *line) receives(w *wire, a schedule.Action) bool {
	return w.Edge.To == a.Part && l.ends(a, w.Kind)
}
