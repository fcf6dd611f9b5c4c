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
	written uint64 // bytes written since the last submit: the library stages them until then
}

type flight struct {
	fence   nativeFence
	profile *profileSlot
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

// wait waits for a fence: the device's time-out or the context, whichever is first. It polls with short pauses in C, so it
// holds neither a lock nor a core.
func (d *Device) wait(ctx context.Context, f nativeFence, what string) error {
	const slice = 2 * time.Millisecond
	start := time.Now()
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
		if time.Since(start) > d.timeout {
			return fmt.Errorf("%s: %w after %s", what, ErrTimeout, d.timeout)
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
		if err := d.wait(ctx, oldest.fence, "wait for submitted work"); err != nil {
			return err
		}
		q.mu.Lock()
		q.flight = q.flight[1:]
		q.spare = append(q.spare, oldest.fence)
		q.mu.Unlock()
		d.profiler.harvest(oldest.profile, func(f nativeFence) error { return d.wait(ctx, f, "wait for timestamps") })
	}
}

// launch submits lists and puts the submit among those under way. The caller holds turn.
func (d *Device) launch(label string, lists []nativeList, stagings []nativeStaging, names []spanName) error {
	fence := d.queue.fence()
	slot := d.profiler.slot(names)
	var native nativeProfile
	if slot != nil {
		native = slot.native
	}
	if err := d.native.submit(label, lists, stagings, fence, native); err != nil {
		d.queue.keep(fence)
		d.profiler.giveBack(slot)
		return err
	}
	d.counts.submits.Add(1)
	d.queue.mu.Lock()
	d.queue.flight = append(d.queue.flight, flight{fence, slot})
	d.queue.written = 0
	d.queue.mu.Unlock()
	return nil
}

// Submit submits programs, in order, as one: one command buffer, one submit. At most two submits are under way; it waits for
// the older one. Errors: ErrDeviceLost, ErrTimeout, a released buffer or program, a readback ring that is full.
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
	lists := make([]nativeList, len(programs))
	stagings := make([]nativeStaging, len(taken))
	var names []spanName
	dispatches, refreshes, refreshed := 0, 0, uint64(0)
	for i, p := range programs {
		lists[i] = p.list
		dispatches += p.dispatches
		refreshes += p.refreshes
		refreshed += p.refreshed
		if d.profiler != nil {
			names = append(names, p.names...)
		}
	}
	for i, s := range taken {
		stagings[i] = makeStaging(s.buffer.native, s.used, s.fence)
	}
	if err := d.launch(programs[0].label, lists, stagings, names); err != nil {
		for i := len(taken) - 1; i >= 0; i-- {
			taken[i].ring.untake()
		}
		return err
	}
	d.counts.dispatches.Add(uint64(dispatches))
	d.counts.refreshes.Add(uint64(refreshes))
	d.counts.refreshed.Add(refreshed)
	return nil
}

// Wait waits until everything submitted or written is done, and lets the library free what was released.
func (d *Device) Wait(ctx context.Context) error {
	if err := d.ready(); err != nil {
		return fmt.Errorf("gpu: wait: %w", err)
	}
	d.queue.turn.Lock()
	defer d.queue.turn.Unlock()
	if d.queue.unsubmitted() > 0 {
		if err := d.launch("gputrain.gpu.flush", nil, nil, nil); err != nil {
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
