package pipeline

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"gputrain/gpu"
	"gputrain/graph/compile"
	"gputrain/internal/schedule"
)

// feed writes the inputs of a program for a microbatch.
type feed func(p *compile.Program, microbatch int) error

// run takes the microbatches of a round through all parts. begin is what each stage submits before its first action.
func (l *line) run(ctx context.Context, r round, write feed, begin [][]*gpu.Program, timeout time.Duration, note *notes) error {
	c, order := newGroup(ctx, timeout), r.order
	l.workers = make([]*worker, len(l.stages))
	for i, s := range l.stages {
		if s.away {
			continue
		}
		w := &worker{line: l, stage: s, fence: l.fences[i], round: r, write: write, group: c, note: note}
		if begin != nil {
			w.begin = slices.Clip(begin[i])
		}
		l.workers[i] = w
	}
	for _, w := range l.wires {
		w.traffic.reset()
	}
	for i, w := range l.workers {
		if w == nil {
			continue
		}
		c.do(w.stage, "run", func() error { return w.run(c.ctx, order.Actions[i]) })
		c.do(w.stage, "compute", func() error { return w.watch(c.ctx, l.submits(order.Actions[i])) })
	}
	for _, w := range l.wires {
		switch {
		case w.fetched != nil:
			c.do(w.sink, "receive over link "+w.name(), func() error { return l.blamed(w.name(), w.fetched.fetch(c.ctx, order.Microbatches, c.moved)) })
		case w.link != nil:
			c.do(w.source, "send over link "+w.name(), func() error { return l.blamed(w.name(), w.carry(c.ctx, order.Microbatches, note, c.moved)) })
		}
	}
	return c.wait(l.culprit, l.closeLinks)
}

// closeLinks ends every link: after a failure the other ends have nothing to wait for.
func (l *line) closeLinks() {
	for _, w := range l.wires {
		if w.link != nil {
			_ = w.link.Close()
		}
	}
}

// submits is the number of actions of a stage that are submits of their own.
func (l *line) submits(actions []schedule.Action) int {
	n := 0
	for _, a := range actions {
		if l.parts[a.Part].pass(a) != nil {
			n++
		}
	}
	return n
}

// worker is the goroutine of a stage.
type worker struct {
	line  *line
	stage *stage
	fence *fence
	round round
	write feed
	begin []*gpu.Program
	group *group
	note  *notes
	at    position
}

func (w *worker) run(ctx context.Context, actions []schedule.Action) error {
	defer w.at.set(schedule.Action{}, nil, true)
	for _, a := range actions {
		pass := w.line.parts[a.Part].pass(a)
		if pass == nil {
			continue
		}
		w.at.set(a, nil, false)
		if err := w.act(ctx, a, pass); err != nil {
			return w.stage.failed(a.String(), err)
		}
	}
	return w.stage.failed("microbatches without a gradient", w.idle(ctx))
}

// ends tells which edges an action receives or sends on: a part that runs both passes at once has those of both.
func (l *line) ends(a schedule.Action, kind schedule.Kind) bool {
	return kind == a.Kind || l.parts[a.Part].merged
}

// act runs one action: it takes what other parts have made for it, submits the pass, and hands on what that makes.
func (w *worker) act(ctx context.Context, a schedule.Action, pass *passProgram) error {
	l := w.line
	submit := w.begin
	w.begin = nil
	var taken []*wire
	for _, in := range l.wires {
		if in.Edge.To != a.Part || !l.ends(a, in.Kind) {
			continue
		}
		copied, err := w.receive(ctx, in, a)
		if err != nil {
			return err
		}
		if copied != nil {
			submit = append(submit, copied)
			taken = append(taken, in)
		}
	}
	if err := w.write(pass.program, w.round.number(a.Microbatch)); err != nil {
		return err
	}
	submit = append(submit, l.computing(w.round, a, pass)...)
	var sending, later []*wire
	for _, out := range l.wires {
		if out.Edge.From != a.Part || !l.ends(a, out.Kind) {
			continue
		}
		select {
		case <-out.free:
			submit = append(submit, out.leaving(a.Microbatch))
			sending = append(sending, out)
		default:
			later = append(later, out)
		}
	}
	if err := take(ctx, w.fence.free); err != nil {
		return err
	}
	at := time.Now()
	if err := w.submit(ctx, a, append(submit, w.fence.run)...); err != nil {
		return err
	}
	w.group.moved()
	w.fence.under <- submitted{a, at}
	for _, in := range taken {
		in.free <- struct{}{}
	}
	for _, out := range sending {
		out.submitted(a.Microbatch)
	}
	return w.sendLater(ctx, a, later)
}

// sendLater hands on what there was no room for when the pass was submitted. Neighbours come first, as in Schedule.Check: what makes room
// on the other wires may wait for them.
func (w *worker) sendLater(ctx context.Context, a schedule.Action, wires []*wire) error {
	slices.SortStableFunc(wires, func(x, y *wire) int {
		return cmp.Compare(schedule.Hops(x.Edge.From, x.Edge.To), schedule.Hops(y.Edge.From, y.Edge.To))
	})
	for _, out := range wires {
		if err := w.acquire(ctx, out, a); err != nil {
			return err
		}
		if err := w.submit(ctx, a, out.leaving(a.Microbatch)); err != nil {
			return err
		}
		out.submitted(a.Microbatch)
	}
	return nil
}

// submit gives programs to the device. A driver may hold on to a submit until the one before is done, and where that never is, to this
// goroutine; the run then ends without it.
func (w *worker) submit(ctx context.Context, a schedule.Action, programs ...*gpu.Program) error {
	limit := w.stage.device.WaitLimit(programs...)
	watchdog := time.AfterFunc(limit, func() {
		w.group.cancel(w.stage.failed(a.String(), fmt.Errorf("%w: the driver has not taken a submit for %s", gpu.ErrTimeout, limit)))
	})
	defer watchdog.Stop()
	return w.stage.device.Submit(ctx, programs...)
}

// take takes a token.
func take(ctx context.Context, tokens chan struct{}) error {
	select {
	case <-tokens:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// acquire waits for room on a wire.
func (w *worker) acquire(ctx context.Context, out *wire, a schedule.Action) error {
	begin := time.Now()
	err := w.waiting(out, a, func() error { return take(ctx, out.free) })
	w.note.waited(w.stage, out, a, begin, time.Now())
	return err
}

// waiting runs f, which waits for another stage.
func (w *worker) waiting(on *wire, a schedule.Action, f func() error) error {
	w.at.set(a, on, false)
	err := f()
	w.at.set(a, nil, false)
	w.group.moved()
	return err
}

// receive gets a message of a wire to its place. On one device that is a copy to be submitted before the pass. The wait for a message lasts
// until its bytes are on the device.
func (w *worker) receive(ctx context.Context, in *wire, a schedule.Action) (*gpu.Program, error) {
	begin := time.Now()
	defer func() { w.note.waited(w.stage, in, a, begin, time.Now()) }()
	if in.link == nil {
		return in.taking(a.Microbatch), w.waiting(in, a, func() error {
			select {
			case <-in.arrived:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		})
	}
	var m Message
	if err := w.waiting(in, a, func() (err error) {
		if m, err = in.link.Receive(ctx); err != nil {
			return fmt.Errorf("link %s: %w", in.name(), err)
		}
		in.traffic.received.Add(1)
		return nil
	}); err != nil {
		return nil, err
	}
	defer in.link.Free(m)
	if m.Microbatch != a.Microbatch || len(m.Tensors) != len(in.Values) {
		return nil, fmt.Errorf("link %s: found microbatch %d of %d tensors, wanted %d of %d", in.name(), m.Microbatch, len(m.Tensors), a.Microbatch, len(in.Values))
	}
	arrived := time.Now()
	for i, v := range in.Values {
		if err := w.stage.device.Write(in.reader.place(v, a.Microbatch), m.Tensors[i]); err != nil {
			return nil, fmt.Errorf("link %s: %w", in.name(), err)
		}
	}
	w.note.moved(in, a.Microbatch, arrived, time.Now())
	return nil, nil
}

// leaving is the copy that goes behind the pass that made a message.
func (w *wire) leaving(microbatch int) *gpu.Program {
	if w.local() {
		programs := w.leave[microbatch%w.Depth()]
		return programs[microbatch%len(programs)]
	}
	return w.export[microbatch%len(w.export)]
}

// taking is the copy that goes before the pass that reads a message.
func (w *wire) taking(microbatch int) *gpu.Program {
	programs := w.take[microbatch%w.Depth()]
	return programs[microbatch%len(programs)]
}

// submitted tells the other end that a message is on its way.
func (w *wire) submitted(microbatch int) {
	if w.link == nil {
		w.arrived <- microbatch
		return
	}
	w.made <- microbatch
}

// carry takes n messages from the source's device to the link.
func (w *wire) carry(ctx context.Context, n int, note *notes, moved func()) error {
	for range n {
		microbatch := 0
		select {
		case microbatch = <-w.made:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		w.traffic.inside.Store(true)
		m, err := w.link.Buffer(ctx)
		w.traffic.inside.Store(false)
		if err != nil {
			return err
		}
		m.Microbatch = microbatch
		if err := w.rings[0].Wait(ctx); err != nil {
			return err
		}
		begin := time.Now()
		for i, ring := range w.rings {
			if _, err := ring.NextInto(ctx, m.Tensors[i]); err != nil {
				return err
			}
		}
		note.moved(w, microbatch, begin, time.Now())
		moved()
		w.free <- struct{}{}
		begin = time.Now()
		w.traffic.inside.Store(true)
		err = w.link.Send(ctx, m)
		w.traffic.inside.Store(false)
		if err != nil {
			return err
		}
		if w.sink.away { // it was on its way to another rank, not only handed over
			note.moved(w, microbatch, begin, time.Now())
		}
		w.traffic.sent.Add(1)
		moved()
	}
	return nil
}
