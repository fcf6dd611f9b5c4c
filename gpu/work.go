package gpu

import (
	"cmp"
	"sync"
	"time"
)

// Work is what commands are counted to do, before they are done.
type Work struct {
	FLOPs float64 `json:"-"`     // floating point operations
	Units float64 `json:"-"`     // of these, by matrix units
	Bytes float64 `json:"bytes"` // that move between memory and the device
}

// Plus is both.
func (w Work) Plus(o Work) Work { return Work{w.FLOPs + o.FLOPs, w.Units + o.Units, w.Bytes + o.Bytes} }

// Times is so many times as much.
func (w Work) Times(n float64) Work { return Work{w.FLOPs * n, w.Units * n, w.Bytes * n} }

// Speed is what a device does in a second. A command takes the longer of its two times, plus Command.
type Speed struct {
	FLOPS          float64 `json:"flops"`                // f32
	UnitFLOPS      float64 `json:"unit_flops,omitempty"` // f16 with sums in f32, by matrix units; 0: as FLOPS
	BytesPerSecond float64 `json:"bytes_per_second"`
	Command        float64 `json:"-"` // seconds
}

// Seconds is the time of a command that does so much.
func (s Speed) Seconds(w Work) float64 {
	return max((w.FLOPs-w.Units)/s.FLOPS+w.Units/cmp.Or(s.UnitFLOPS, s.FLOPS), w.Bytes/s.BytesPerSecond) + s.Command
}

// Times is a device that is so many times as fast.
func (s Speed) Times(f float64) Speed {
	return Speed{s.FLOPS * f, s.UnitFLOPS * f, s.BytesPerSecond * f, s.Command / f}
}

// commandSeconds is what a command takes besides its work: 50 us on lavapipe, 24 to 71 us on cards where each is
// submitted alone (arXiv 2604.02344).
const commandSeconds = 30e-6

// Typical is the order of magnitude of what adapters of a type do in f32 products and in copies.
func (a Adapter) Typical() Speed {
	switch a.Type {
	case "discrete":
		return Speed{FLOPS: 5e12, BytesPerSecond: 500e9, Command: commandSeconds}
	case "integrated":
		return Speed{FLOPS: 5e11, BytesPerSecond: 50e9, Command: commandSeconds}
	}
	return Speed{FLOPS: 3e10, BytesPerSecond: 10e9, Command: commandSeconds}
}

// unmeasured is what a device is taken to do until Measured tells: a fifth of what is typical, for there are slow cards, and a submit that is planned
// too long is worse than one too many. Nothing resets a processor's driver.
func unmeasured(a Adapter) Speed {
	if a.Type == "cpu" {
		return a.Typical()
	}
	return a.Typical().Times(0.2)
}

// pace is what a device is taken to do.
type pace struct {
	mu       sync.Mutex
	speed    Speed
	measured bool
}

// Speed is what the device is taken to do: what Measured told, or by its type a cautious figure.
func (d *Device) Speed() (s Speed, measured bool) {
	d.pace.mu.Lock()
	defer d.pace.mu.Unlock()
	if d.pace.speed == (Speed{}) {
		return unmeasured(d.adapter), false
	}
	return d.pace.speed, d.pace.measured
}

// Measured tells how long programs took that were submitted one after the other. The device is taken to be as fast as
// they were at best.
func (d *Device) Measured(took time.Duration, programs ...*Program) {
	now, measured := d.Speed()
	planned := expected(d.cut(programs))
	if planned == 0 || took <= 0 {
		return
	}
	if f := planned.Seconds() / took.Seconds(); f > 1 || !measured {
		d.pace.mu.Lock()
		d.pace.speed, d.pace.measured = now.Times(f), true
		d.pace.mu.Unlock()
	}
}

// Assume is for plans: the device is taken to be of that speed, with Options.SubmitLimit.
func (d *Device) Assume(s Speed, submitLimit time.Duration) {
	d.pace.mu.Lock()
	defer d.pace.mu.Unlock()
	d.pace.speed, d.submitLimit = s, submitLimit
}

// SubmitLimit is Options.SubmitLimit in force; less than 0 is none.
func (d *Device) SubmitLimit() time.Duration { return d.submitLimit }

// Expect tells of the dispatch that is recorded next what it does, where more is known than its bindings say.
func (r *Recording) Expect(w Work) { r.expected = &w }

// Intensity tells of the dispatches that follow how many operations come with each byte that they move; 0 at first.
func (r *Recording) Intensity(flopsPerByte float64) { r.intensity = flopsPerByte }

// workOf is what a dispatch does, as it was told, else by its bindings.
func (r *Recording) workOf(c *command, expected *Work) Work {
	if expected != nil {
		return *expected
	}
	moved := float64(c.kernel.Moved(c.bind, 0, 0))
	return Work{FLOPs: moved * r.intensity, Bytes: moved}
}
