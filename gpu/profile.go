package gpu

import (
	"math"
	"slices"
	"sync"
	"time"
)

// Span is the time that one pass took on the device; the origin is the device's own.
type Span struct {
	Label      string // of the recording
	Group      string // the last Group before the pass, "" for none
	Operation  string // that the group belongs to, "" for none
	Begin, End time.Duration
}

// Name is what a span is shown as.
func (s Span) Name() string {
	if s.Group == "" {
		return s.Label
	}
	return s.Group
}

const (
	profileBytes     = 2 * 16 * profilePassLimit // of the buffers of a slot
	profilePassLimit = 2048                      // passes of a submit that are timed: a query set holds 4096 timestamps
	profileSpanLimit = 1 << 18                   // spans kept between two calls of Profile

	profileLaunchLimit = 1 << 12 // submits that tell how the clocks of device and host lie to each other
)

// spanName is what a pass belongs to.
type spanName struct{ label, group, operation string }

// profiler collects timestamps of passes: one query set for each submit that may be under way, read when it is done.
type profiler struct {
	device *Device

	mu       sync.Mutex
	all      []*profileSlot
	free     []*profileSlot
	passes   []timedPass
	dropped  int
	origin   uint64   // the tick that the times of spans begin at
	ends     []tickAt // the last tick of the first and of the newest submit that the host waited for, and when it saw the fence
	launched []tickAt // the first tick of submits, and when they were launched
}

type profileSlot struct {
	native nativeProfile
	names  []spanName
	at     time.Time // of the submit
}

type timedPass struct {
	name       spanName
	begin, end uint64 // ticks
}

type tickAt struct {
	tick uint64
	at   time.Time
}

func newProfiler(d *Device) (*profiler, error) {
	p := &profiler{device: d}
	for range inFlight {
		if err := d.account.take("gputrain.gpu.profile", profileBytes); err != nil {
			p.release()
			return nil, err
		}
		native, err := d.native.makeProfile(profilePassLimit)
		if err != nil {
			p.release()
			return nil, err
		}
		p.all = append(p.all, &profileSlot{native: native})
	}
	p.free = slices.Clone(p.all)
	return p, nil
}

// slot is where a submit puts its timestamps; nil when nobody asked for a profile.
func (p *profiler) slot(names []spanName) *profileSlot {
	if p == nil || len(names) == 0 {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.free) == 0 {
		return nil
	}
	s := p.free[len(p.free)-1]
	p.free = p.free[:len(p.free)-1]
	s.names, s.at = names, time.Now()
	resetFence(profileFence(s.native))
	return s
}

func (p *profiler) giveBack(s *profileSlot) {
	if s == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free = append(p.free, s)
}

// harvest reads the timestamps of a submit that is done; their map was asked for before its fence, which was seen then.
func (p *profiler) harvest(s *profileSlot, seen time.Time, done func(nativeFence) error) {
	if s == nil {
		return
	}
	defer p.giveBack(s)
	if profilePasses(s.native) == 0 || done(profileFence(s.native)) != nil {
		return
	}
	ticks, groups := p.device.native.readProfile(s.native)
	p.note(s, seen, ticks, groups)
}

// note keeps the begin and the end of each pass of a submit. The time at which its fence was seen is zero where the host came late to it.
func (p *profiler) note(s *profileSlot, seen time.Time, ticks []uint64, groups []uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	end := uint64(0)
	for i, g := range groups {
		if len(p.passes) >= profileSpanLimit || ticks[2*i+1] < ticks[2*i] {
			p.dropped++
			continue
		}
		if end = ticks[2*i+1]; p.origin == 0 {
			p.origin = end
		}
		p.passes = append(p.passes, timedPass{s.names[g], ticks[2*i], end})
	}
	if end > 0 && !seen.IsZero() {
		p.ends = append(p.ends[:min(1, len(p.ends))], tickAt{end, seen})
	}
	if len(ticks) > 0 && len(p.launched) < profileLaunchLimit {
		p.launched = append(p.launched, tickAt{ticks[0], s.at})
	}
}

// Lengths of a tick in nanoseconds: no timer of an adapter counts faster, or slower.
const shortestTick, longestTick = 1, 1e4

// period is nanoseconds a tick: as the driver says, else measured against the clock. It is a nanosecond where that is near, where there is too little to
// say, or where what is said cannot be.
func (p *profiler) period() float64 {
	ns := p.device.adapter.tick
	if ns == 0 && len(p.ends) == 2 {
		first, last := p.ends[0], p.ends[1]
		if elapsed := last.at.Sub(first.at); elapsed >= 50*time.Millisecond && last.tick > first.tick {
			ns = float64(elapsed.Nanoseconds()) / float64(last.tick-first.tick)
		}
		if math.Abs(ns-1) < 0.2 {
			return 1
		}
	}
	if ns == 0 {
		return 1
	}
	if ns < shortestTick || ns > longestTick {
		p.device.logger.Warn("gpu: profile: the length of a tick cannot be, one of a nanosecond is taken", "found", ns, "measured", p.device.adapter.tick == 0)
		return 1
	}
	return ns
}

// Profile takes the spans of submits that are done (Wait first for all of them), in order of their beginning. It is empty
// unless the device was opened with Options.Profile on an adapter with timestamps.
func (d *Device) Profile() []Span {
	p := d.profiler
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dropped > 0 {
		d.logger.Warn("gpu: profile: passes without a time", "passes", p.dropped)
		p.dropped = 0
	}
	period := p.period()
	spans := make([]Span, len(p.passes))
	for i, t := range p.passes {
		spans[i] = Span{Label: t.name.label, Group: t.name.group, Operation: t.name.operation, Begin: p.since(t.begin, period), End: p.since(t.end, period)}
	}
	p.passes = p.passes[:0]
	slices.SortStableFunc(spans, func(a, b Span) int { return int(a.Begin - b.Begin) })
	return spans
}

// since is the time of a tick. Ticks are unsigned, their difference may be negative.
func (p *profiler) since(tick uint64, period float64) time.Duration {
	return time.Duration(float64(int64(tick-p.origin)) * period)
}

// ProfileOrigin is when, by the host's clock, the times of Profile's spans begin: work cannot have begun before it was submitted, and the
// submit that waited the least tells how the clocks lie to each other. It is never late, and early by what passed
// between a submit and its first pass where that was least: some 100 us where a device was idle. Ask after Profile. The zero time
// without a span.
func (d *Device) ProfileOrigin() time.Time {
	p := d.profiler
	if p == nil {
		return time.Time{}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	var origin time.Time
	for i, l := range p.launched {
		if at := l.at.Add(-p.since(l.tick, p.period())); i == 0 || at.After(origin) {
			origin = at
		}
	}
	return origin
}

func (p *profiler) release() {
	if p == nil {
		return
	}
	for _, s := range p.all {
		p.device.native.releaseProfile(s.native)
	}
}
