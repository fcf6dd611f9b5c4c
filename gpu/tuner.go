package gpu

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Candidate is one way to do a piece of work: Run records it.
type Candidate struct {
	Name string
	Run  func(*Recording) error
}

// tuner remembers which candidate won for a key on this adapter and driver, in memory and on disk.
type tuner struct {
	mu      sync.Mutex
	off     bool
	choices map[string]string // nil until read from disk
}

// SetAutotune turns measuring on or off; off means the first candidate always.
func (d *Device) SetAutotune(on bool) {
	d.tuner.mu.Lock()
	defer d.tuner.mu.Unlock()
	d.tuner.off = !on
}

// Choose is the name of the fastest candidate for a key ("matmul nn f32 1024x1024x1024"). It measures once, on this device,
// and remembers the choice on disk by adapter, driver and key ($GPUTRAIN_CACHE, else the user's cache folder). A candidate
// that cannot run here is passed over; when none can, the error is all of theirs.
func (d *Device) Choose(ctx context.Context, key string, candidates []Candidate) (string, error) {
	if len(candidates) == 0 {
		return "", fmt.Errorf("gpu: choose %q: no candidates", key)
	}
	t := &d.tuner
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.off || len(candidates) == 1 || d.native == nil {
		return candidates[0].Name, nil
	}
	if t.choices == nil {
		t.choices = loadChoices(d.adapter, d.logger)
	}
	if name, ok := t.choices[key]; ok {
		for _, c := range candidates {
			if c.Name == name {
				return name, nil
			}
		}
	}
	name, err := d.measure(ctx, key, candidates)
	if err != nil {
		return "", fmt.Errorf("gpu: choose %q: %w", key, err)
	}
	t.choices[key] = name
	if err := saveChoice(d.adapter, key, name); err != nil {
		d.logger.Warn("gpu: choose: not remembered", "key", key, "error", err)
	}
	return name, nil
}

const (
	tuneRounds  = 3
	tuneTime    = 5 * time.Millisecond // of one measurement, by repeating short work
	tuneRepeats = 16
	tuneGiveUp  = 3 // a candidate this many times slower than the best in its first run is not measured further
)

// trial is a candidate under measurement.
type trial struct {
	name    string
	program *Program
	repeats int
	best    time.Duration // of one run
}

func (d *Device) measure(ctx context.Context, key string, candidates []Candidate) (string, error) {
	var trials []*trial
	defer func() {
		for _, t := range trials {
			t.program.Release()
		}
	}()
	var failures []error
	for _, c := range candidates {
		t, err := d.warm(ctx, key, c)
		if err != nil {
			if d.Err() != nil || ctx.Err() != nil {
				return "", err
			}
			failures = append(failures, fmt.Errorf("%s: %w", c.Name, err))
			d.logger.Debug("gpu: choose: candidate cannot run", "key", key, "candidate", c.Name, "error", err)
			continue
		}
		trials = append(trials, t)
	}
	if len(trials) == 0 {
		return "", errors.Join(failures...)
	}
	best := trials[0]
	for range tuneRounds {
		for _, t := range trials {
			if t.best > tuneGiveUp*best.best {
				continue
			}
			took, err := d.timed(ctx, t.program, t.repeats)
			if err != nil {
				return "", fmt.Errorf("%s: %w", t.name, err)
			}
			t.best = min(t.best, took)
			if t.best < best.best {
				best = t
			}
		}
	}
	d.logger.Debug("gpu: choose", "key", key, "candidate", best.name, "took", best.best)
	return best.name, nil
}

// warm compiles a candidate and runs it twice; the second time says how often to repeat it in a measurement.
func (d *Device) warm(ctx context.Context, key string, c Candidate) (*trial, error) {
	rec := d.Record("gputrain.gpu.choose " + key + " " + c.Name)
	if err := c.Run(rec); err != nil {
		return nil, err
	}
	p, err := rec.Program(ctx)
	if err != nil {
		return nil, err
	}
	t := &trial{name: c.Name, program: p}
	for range 2 {
		if t.best, err = d.timed(ctx, p, 1); err != nil {
			p.Release()
			return nil, err
		}
	}
	t.repeats = int(min(max(tuneTime/max(t.best, 1), 1), tuneRepeats))
	return t, nil
}

// timed is how long one of several runs in one submit takes, from an idle device.
func (d *Device) timed(ctx context.Context, p *Program, repeats int) (time.Duration, error) {
	if err := d.Wait(ctx); err != nil {
		return 0, err
	}
	programs := make([]*Program, repeats)
	for i := range programs {
		programs[i] = p
	}
	start := time.Now()
	if err := d.Submit(ctx, programs...); err != nil {
		return 0, err
	}
	if err := d.Wait(ctx); err != nil {
		return 0, err
	}
	return time.Since(start) / time.Duration(repeats), nil
}
