package gputest

import (
	"testing"
	"time"

	"gputrain/gpu"
)

// BusyKernel keeps a device busy: rounds.x rounds of arithmetic in each invocation. out takes 64 words.
var BusyKernel = gpu.KernelOf("gputrain.test.busy", `
@group(0) @binding(0) var<uniform> rounds: vec4<u32>;
@group(0) @binding(1) var<storage, read_write> out: array<u32>;
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    var x = id.x;
    for (var i = 0u; i < rounds.x; i++) { x = x * 1664525u + 1013904223u; }
    out[id.x & 63u] = x;
}
`)

// busyTime is how long a run of Busy takes at least.
const busyTime = 50 * time.Millisecond

// Busy is a program that keeps this device busy for 50 ms or more.
func Busy(t testing.TB, d *gpu.Device) *gpu.Program {
	t.Helper()
	p, _ := busy(t, d)
	return p
}

// busy is Busy's program, and how long it takes.
func busy(t testing.TB, d *gpu.Device) (*gpu.Program, time.Duration) {
	t.Helper()
	out, err := d.NewBuffer("gputrain.test.busy", 4*64)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(out.Release)
	for rounds := uint32(4096); ; rounds *= 2 {
		rec := d.Record("busy")
		rec.Dispatch(BusyKernel, gpu.Grid{X: 512, Y: 1, Z: 1}, [4]uint32{rounds}, out.All())
		p, err := rec.Program(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Release)
		// The quickest of three, lest what else the machine does makes it look longer than it is.
		if took := min(timed(t, d, p), timed(t, d, p), timed(t, d, p)); took > busyTime {
			return p, took
		}
	}
}

// timed is how long a program takes, whatever time the device gives its waits.
func timed(t testing.TB, d *gpu.Device, p *gpu.Program) time.Duration {
	t.Helper()
	start := time.Now()
	if err := p.Submit(t.Context()); err != nil {
		t.Fatal(err)
	}
	for err := d.Wait(t.Context()); err != nil; err = d.Wait(t.Context()) {
		if time.Since(start) > Patience {
			t.Fatalf("a submit has not ended after %s: %v", time.Since(start), err)
		}
	}
	return time.Since(start)
}

// Hang prepares a device to hang. What it returns, called at any time and from any goroutine, submits work that takes the given time or
// more: whatever is submitted after it waits behind it, or times out. Lavapipe takes one submit behind it, and keeps the next in the driver,
// where no time-out reaches, until the work is done. A test on OpenGL, where the submit itself would take the time, is skipped.
func Hang(t testing.TB, d *gpu.Device) func(time.Duration) {
	t.Helper()
	Asynchronous(t, d)
	p, took := busy(t, d)
	return func(wanted time.Duration) {
		programs := make([]*gpu.Program, (wanted+took-1)/took)
		for i := range programs {
			programs[i] = p
		}
		if err := d.Submit(t.Context(), programs...); err != nil {
			t.Errorf("hang: %v", err)
		}
	}
}

// Asynchronous skips where the driver runs the work in the submit itself, so that nothing is left to wait for.
func Asynchronous(t testing.TB, d *gpu.Device) {
	t.Helper()
	if d.Adapter().Backend == "gl" {
		t.Skip("skipped, needs an adapter whose submits return before the work is done")
	}
}
