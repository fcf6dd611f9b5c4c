package gpu

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// inFlight is how many submits may be under way: one runs while the next is prepared.
const inFlight = 2

// queue orders submits. Its lock is held while encoding, never while waiting for the device.
type queue struct {
	turn    sync.Mutex // one Submit at a time, waits included
	mu      sync.Mutex
	flight  []flight
	spare   []nativeFence
	ahead   time.Duration // what is under way, or about to be, is expected to take
	written uint64        // bytes written since the last submit: the library stages them until then
}

type flight struct {
	fence    nativeFence
	profile  *profileSlot
	expected time.Duration
}

// enter takes the turn; false when a submit holds it for longer than the limit.
func (q *queue) enter(limit time.Duration) bool {
	for start := time.Now(); !q.turn.TryLock(); time.Sleep(time.Millisecond) {
		if time.Since(start) > limit {
			return false
		}
	}
	return true
}

func (q *queue) fence() nativeFence {
	q.mu.Lock()
	defer q.mu.Unlock()
	if n := len(q.spare); n > 0 {
		f := q.spare[n-1]
		q.spare = q.spare[:n-1]
		resetFence(f)
		return f
	}
	return makeFence()
}

func (q *queue) keep(f nativeFence) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.spare = append(q.spare, f)
}

// patience is how many times as long as expected work may take before it counts as lost: what is expected is what the device does with nothing else to do, or
// no more than typical of such devices.
const patience = 20

// Patience is how much longer than a time-out a wait for the device may last, for what is under way and for programs that are then submitted: 20 times what
// that is expected to take. This is the one rule of such waits, here and in package pipeline: a time-out, which is enough for whatever a driver
// compiles when a kernel first runs, and the device's Patience. So a large step on a slow adapter is not called lost, and what hangs does not
// hang the program.
func (d *Device) Patience(programs ...*Program) time.Duration {
	then := expected(d.cut(programs))
	d.queue.mu.Lock()
	defer d.queue.mu.Unlock()
	return patience * (d.queue.ahead + then)
}

// WaitLimit is how long such a wait may last with the device's own time-out.
func (d *Device) WaitLimit(programs ...*Program) time.Duration {
	return d.timeout + d.Patience(programs...)
}

// wait waits for a fence: WaitLimit, which grows with what is submitted meanwhile, or the context, whichever is first. It polls with short pauses in C,
// so it holds neither a lock nor a core.
func (d *Device) wait(ctx context.Context, f nativeFence, what string) error {
	const slice = 2 * time.Millisecond
	start, limit := time.Now(), time.Duration(0)
	for !d.native.waitSlice(f, slice) {
		if err := d.native.failed(); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		if err := ctx.Err(); err != nil {
			if errors.Is(err, context.DeadlineExceeded) {
				return fmt.Errorf("%s: %w after %s: %w", what, ErrTimeout, time.Since(start).Round(time.Millisecond), err)
			}
			return fmt.Errorf("%s: %w", what, err)
		}
		limit = max(limit, d.WaitLimit())
		if time.Since(start) > limit {
			return fmt.Errorf("%s: %w after %s", what, ErrTimeout, limit.Round(time.Millisecond))
		}
	}
	if status := fenceStatus(f); status != 0 {
		if err := d.native.failed(); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		return fmt.Errorf("%s: the driver reports status %d", what, status)
	}
	return nil
}

// noWait is how long a wait for work takes that had ended before it, at most.
const noWait = 200 * time.Microsecond

// drain waits until at most left submits are under way. The caller holds turn.
func (d *Device) drain(ctx context.Context, left int) error {
	q := &d.queue
	for {
		q.mu.Lock()
		if len(q.flight) <= left {
			q.mu.Unlock()
			return nil
		}
		oldest := q.flight[0]
		q.mu.Unlock()
		began := time.Now()
		if err := d.wait(ctx, oldest.fence, "wait for submitted work"); err != nil {
			return err
		}
		seen := time.Now()
		if seen.Sub(began) < noWait {
			seen = time.Time{}
		}
		q.mu.Lock()
		q.flight = q.flight[1:]
		q.ahead -= oldest.expected
		q.spare = append(q.spare, oldest.fence)
		q.mu.Unlock()
		d.profiler.harvest(oldest.profile, seen, func(f nativeFence) error { return d.wait(ctx, f, "wait for timestamps") })
	}
}

// launch submits a piece and puts it among those under way. The caller holds turn.
func (d *Device) launch(label string, t *piece, stagings []nativeStaging) error {
	var names []spanName
	if d.profiler != nil {
		names = t.names()
	}
	fence := d.queue.fence()
	slot := d.profiler.slot(names)
	var native nativeProfile
	if slot != nil {
		native = slot.native
	}
	if err := d.native.submit(label, t.lists(), stagings, fence, native); err != nil {
		d.queue.keep(fence)
		d.profiler.giveBack(slot)
		return err
	}
	d.counts.submits.Add(1)
	d.counts.dispatches.Add(uint64(t.dispatches))
	d.counts.refreshes.Add(uint64(t.refreshes))
	d.counts.refreshed.Add(t.refreshed)
	d.queue.mu.Lock()
	d.queue.flight = append(d.queue.flight, flight{fence, slot, duration(t.seconds)})
	d.queue.written = 0
	d.queue.mu.Unlock()
	return nil
}

// Submit submits programs, in order, with nothing of others in between: in one submit, or cut into several by Options.SubmitLimit. At most two submits
// are under way; it waits for the older one. Errors: ErrDeviceLost, ErrTimeout, a released buffer or program, a readback ring that is full. What is cut
// may fail half way; the end of ctx stops it only before its first submit.
func (d *Device) Submit(ctx context.Context, programs ...*Program) error {
	if len(programs) == 0 {
		return nil
	}
	if err := d.ready(); err != nil {
		return fmt.Errorf("gpu: submit %q: %w", programs[0].label, err)
	}
	d.queue.turn.Lock()
	defer d.queue.turn.Unlock()
	if err := d.submit(ctx, programs); err != nil {
		return fmt.Errorf("gpu: submit %q: %w", programs[0].label, err)
	}
	return nil
}

func (d *Device) submit(ctx context.Context, programs []*Program) error {
	for _, p := range programs {
		if p.device != d {
			return fmt.Errorf("program %q: belongs to another device", p.label)
		}
		if err := p.check(); err != nil {
			return err
		}
	}
	if err := d.drain(ctx, inFlight-1); err != nil {
		return err
	}
	taken, err := takeSlots(programs)
	if err != nil {
		return err
	}
	pieces := d.cut(programs)
	d.queue.expect(expected(pieces))
	for n, t := range pieces {
		if n > 0 { // what has begun is finished
			err = d.drain(context.WithoutCancel(ctx), inFlight-1)
		}
		if err == nil {
			err = d.launch(programs[0].label, t, stagingsOf(taken[:t.readbacks]))
		}
		if err != nil {
			d.queue.expect(-expected(pieces[n:]))
			untake(taken)
			return err
		}
		taken = taken[t.readbacks:]
	}
	return nil
}

// expect counts what is about to be submitted.
func (q *queue) expect(more time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ahead += more
}

// Wait waits until everything submitted or written is done, and lets the library free what was released.
func (d *Device) Wait(ctx context.Context) error {
	if err := d.ready(); err != nil {
		return fmt.Errorf("gpu: wait: %w", err)
	}
	d.queue.turn.Lock()
	defer d.queue.turn.Unlock()
	if d.queue.unsubmitted() > 0 {
		if err := d.launch("gputrain.gpu.flush", &piece{}, nil); err != nil {
			return fmt.Errorf("gpu: wait: %w", err)
		}
	}
	if err := d.drain(ctx, 0); err != nil {
		return fmt.Errorf("gpu: wait: %w", err)
	}
	d.native.poll()
	return nil
}

func (q *queue) unsubmitted() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.written
}
