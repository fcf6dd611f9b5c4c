package gpu

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"
)

// Options for Open; the zero value is fine.
type Options struct {
	Limits      *Limits       // stricter limits to enforce in Go; zero fields mean the adapter's
	Profile     bool          // time passes, where the adapter has timestamps
	MemoryLimit uint64        // bytes of all buffers, 0 = none
	Logger      *slog.Logger  // nil = slog.Default()
	Timeout     time.Duration // of every wait, and Device.Patience beside; 0 = 5 minutes
	SubmitLimit time.Duration // what a submit is expected to take; work of more is cut into several. 0 = half a second, negative = no limit
	Texels      TexelUse      // TexelsAuto: what pays on the adapter, measured once and remembered
	Matrix      bool          // kernels for matrix units get the adapter's, see MatrixUnits
	Unproven    bool          // units are taken as the driver lists them: for tools that compile kernels and run none
	Keep        bool          // Release leaves the driver's device and its pipelines to the next Open with Keep: for programs that open many
}

// Device is an open adapter. Its methods may be called from several goroutines.
type Device struct {
	adapter Adapter
	limits  Limits
	native  *nativeDevice // nil in a dry device
	logger  *slog.Logger
	timeout time.Duration
	account account
	owned   owned
	closed  atomic.Bool
	keepAs  *keptKey // nil unless it is kept

	pace        pace
	submitLimit time.Duration

	pipelines pipelineCache
	queue     queue
	staging   staging
	profiler  *profiler // nil unless profiling
	texels    texelPool

	counts struct {
		bindGroups, dispatches, submits, readbacks, written, read, refreshes, refreshed atomic.Uint64
	}
}

// Counters says what a device has done so far; a step that creates nothing leaves the first three as they were.
type Counters struct {
	Pipelines, BindGroups, Buffers    uint64 // made
	Dispatches, Submits, Readbacks    uint64 // done
	WrittenBytes, ReadBytes           uint64 // over the bus
	Refreshes, RefreshedBytes         uint64 // of texels
	LiveBytes, PeakBytes, LiveBuffers uint64 // of every buffer, staging and uniforms included
}

// Open opens an adapter with the adapter's own limits. Errors: ErrNoAdapter when it is gone, else the driver's.
func Open(ctx context.Context, a Adapter, o Options) (*Device, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("gpu: open %s: %w", a, err)
	}
	if a.Backend == "" {
		return nil, fmt.Errorf("gpu: open: %w: use an adapter from Select or Adapters", ErrNoAdapter)
	}
	d := newDevice(a.Limits, o)
	d.adapter = a
	if a.Limits.Software {
		d.account.available = availableMemory
	}

	profile := o.Profile && a.Timestamps
	if err := d.open(a, o, profile); err != nil {
		return nil, fmt.Errorf("gpu: open %s: %w", a, err)
	}
	if err := d.chooseTexels(ctx, o.Texels); err != nil {
		d.Release()
		return nil, fmt.Errorf("gpu: open %s: texels: %w", a, err)
	}
	d.chooseMatrix(ctx, o)
	if profile {
		var err error
		if d.profiler, err = newProfiler(d); err != nil {
			d.Release()
			return nil, fmt.Errorf("gpu: open %s: profile: %w", a, err)
		}
	}
	return d, nil
}

// open takes a kept native device, or opens one.
func (d *Device) open(a Adapter, o Options, profile bool) (err error) {
	enumerate.Lock()
	defer enumerate.Unlock()
	routeLog(o.Logger)
	key := keptKey{a.Backend, a.Name, a.order, profile, a.Limits.TexelBindings > 0, o.Matrix && len(a.Limits.Matrix.Shapes) > 0}
	if o.Keep {
		d.keepAs = &key
		if k, ok := takeKept(key); ok {
			d.native, d.pipelines.kept = k.native, k.pipelines
			return nil
		}
	}
	quietRuntimeDir()
	startLog()
	tapped(func() { d.native, err = openNative(a, a.order, "gputrain.gpu.device", profile, key.texels, key.matrix) })
	return err
}

// Dry is a device without hardware: buffers have sizes but no memory, Write is checked and dropped, recordings and programs
// can be made, checked, counted and compared as text; what would need the hardware fails with ErrNoAdapter. Zero fields of
// the limits are DefaultLimits'.
func Dry(lim Limits) *Device {
	d := newDevice(DefaultLimits(), Options{Limits: &lim})
	d.limits = lim.orDefault()
	d.adapter = Adapter{Index: -1, Name: "none", Backend: "none", Type: "other", Limits: d.limits}
	if lim.Software {
		d.adapter.Type = softwareType
	}
	return d
}

// DryOf is a dry device that is in all else like one on that adapter, opened with these limits: what is planned on it is what that one takes.
func DryOf(a Adapter, lim Limits) *Device {
	lim.Software = a.Type == softwareType
	d := Dry(lim)
	d.adapter = a
	return d
}

// AsDry is a dry device that is in all else like this one, as fast as it is taken to be.
func (d *Device) AsDry() *Device {
	out := DryOf(d.adapter, d.limits)
	speed, _ := d.Speed()
	out.Assume(speed, d.submitLimit)
	return out
}

// AssumeMemory is what a dry device is taken to have for buffers: Available tells it. Devices made of it (AsDry), which plans are made on, are not bound.
func (d *Device) AssumeMemory(bytes uint64) { d.account.limit = bytes }

// Dry tells whether the device is without hardware: what is written to it is dropped, and need not be made.
func (d *Device) Dry() bool { return d.native == nil }

func newDevice(lim Limits, o Options) *Device {
	d := &Device{limits: lim, logger: o.Logger, timeout: o.Timeout, submitLimit: o.SubmitLimit}
	if d.logger == nil {
		d.logger = slog.Default()
	}
	if d.timeout == 0 {
		d.timeout = 5 * time.Minute
	}
	if d.submitLimit == 0 {
		d.submitLimit = defaultSubmitLimit
	}
	if o.Limits != nil {
		d.limits = lim.within(*o.Limits)
	}
	d.account.limit = o.MemoryLimit
	return d
}

// Adapter is the adapter that was opened.
func (d *Device) Adapter() Adapter { return d.adapter }

// Limits are the limits in force.
func (d *Device) Limits() Limits { return d.limits }

// Counters is a snapshot.
func (d *Device) Counters() Counters {
	d.account.mu.Lock()
	defer d.account.mu.Unlock()
	return Counters{
		Pipelines: d.pipelines.made.Load(), BindGroups: d.counts.bindGroups.Load(), Buffers: d.account.made,
		Dispatches: d.counts.dispatches.Load(), Submits: d.counts.submits.Load(), Readbacks: d.counts.readbacks.Load(),
		WrittenBytes: d.counts.written.Load(), ReadBytes: d.counts.read.Load(),
		Refreshes: d.counts.refreshes.Load(), RefreshedBytes: d.counts.refreshed.Load(),
		LiveBytes: d.account.live, PeakBytes: d.account.peak, LiveBuffers: d.account.buffers,
	}
}

// Err is why the device can no longer be used: it was lost (ErrDeviceLost) or released. An error that the driver reported
// outside of any call is returned once.
func (d *Device) Err() error {
	if d.closed.Load() {
		return ErrReleased
	}
	if d.native == nil {
		return nil
	}
	if err := d.native.failed(); err != nil {
		return err
	}
	if err := d.native.pending(); err != nil {
		return fmt.Errorf("reported by the driver: %w", err)
	}
	return nil
}

// Lose declares the device lost: every later call fails with ErrDeviceLost, waits end. For watchdogs and for tests of what
// happens then.
func (d *Device) Lose(reason string) {
	if d.native != nil && !d.closed.Load() {
		d.native.lose(reason, false)
	}
}

// ready is Err for calls that need the hardware.
func (d *Device) ready() error {
	if d.native == nil {
		return fmt.Errorf("%w: a dry device only records", ErrNoAdapter)
	}
	return d.Err()
}

// releaseTime is how long Release waits for work under way. The library itself gives up after five seconds and then frees
// what the device still uses. Tests shorten it.
var releaseTime = time.Minute

// Release waits for submitted work, releases what the device made and closes it. Buffers and programs of it may be released
// before or after. A device that the driver lost, or whose work does not end, is left to the end of the process.
func (d *Device) Release() {
	free := d.queue.enter(releaseTime)
	if free {
		defer d.queue.turn.Unlock()
	}
	if d.closed.Swap(true) || d.native == nil {
		return
	}
	if !free || !d.settle(releaseTime) {
		reason := d.native.failed()
		if !free {
			reason = errors.New("a submit has not come back from the driver")
		}
		d.logger.Warn("gpu: release: left open", "adapter", d.adapter.Name, "reason", reason)
		d.owned.forget()
		return
	}
	d.owned.removeAll()
	d.profiler.release()
	if d.keepAs != nil && d.native.failed() == nil && d.native.pending() == nil {
		d.keep()
		return
	}
	d.pipelines.release(d)
	d.native.close()
}

// settle waits until the device is idle; false when it never will be, or cannot be asked.
func (d *Device) settle(limit time.Duration) bool {
	if d.native.dead() {
		return false
	}
	idle := makeFence()
	if err := d.native.submit("gputrain.gpu.release", nil, nil, idle, nil); err != nil {
		return false
	}
	for start := time.Now(); !d.native.settled(idle); time.Sleep(time.Millisecond) {
		if d.native.dead() || time.Since(start) > limit {
			return false
		}
	}
	return true
}
