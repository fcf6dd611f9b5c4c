package gpu

import (
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// noted is a profiler that has seen submits of one second each, of many passes, on an adapter whose tick takes so many nanoseconds. The host came late by
// that much to each of them, and waited for it or not.
func noted(told, tick float64, submits int, late time.Duration, waited bool) *profiler {
	p := &profiler{device: &Device{adapter: Adapter{tick: told}, logger: slog.New(slog.DiscardHandler)}}
	start := time.Now()
	for i := range submits {
		const passes = 100
		s := &profileSlot{names: []spanName{{label: "step"}}, at: start.Add(time.Duration(i) * time.Second)}
		var ticks []uint64
		at := func(d time.Duration) uint64 { return uint64(float64(time.Hour+time.Duration(i)*time.Second+d) / tick) }
		for k := range time.Duration(passes) {
			ticks = append(ticks, at(k*time.Second/passes), at((k+1)*time.Second/passes))
		}
		seen := s.at.Add(time.Second + late)
		if !waited {
			seen = time.Time{}
		}
		p.note(s, seen, ticks, make([]uint32, passes))
	}
	return p
}

// The length of a tick does not depend on how long the first submit was.
func TestPeriodOfLongSubmits(t *testing.T) {
	for _, tick := range []float64{1, 10, 1e9 / 27e6, 1e9 / 19.2e6} {
		assert.InEpsilon(t, tick, noted(0, tick, 2, 0, true).period(), 1e-6, "%g ns", tick)
		assert.InEpsilon(t, tick, noted(0, tick, 3, 100*time.Millisecond, true).period(), 1e-6, "the host is late alike to all: %g ns", tick)
		assert.InEpsilon(t, tick, noted(tick, 3, 2, 0, true).period(), 1e-6, "the driver says: %g ns", tick)
	}
	p := noted(0, 10, 2, 0, true)
	first := p.passes[0]
	assert.InDelta(t, 10*time.Millisecond, p.since(first.end, p.period())-p.since(first.begin, p.period()), 1e3)
}

// What cannot be is a nanosecond, as is what nobody tells.
func TestPeriodThatCannotBe(t *testing.T) {
	for name, p := range map[string]*profiler{
		"the driver says less": noted(0.5, 1, 2, 0, true), "the driver says more": noted(2e4, 1, 2, 0, true), "measured less": noted(0, 0.5, 2, 0, true),
		"one submit": noted(0, 10, 1, 0, true), "the host never waited": noted(0, 10, 3, 0, false), "nothing": noted(0, 10, 0, 0, true),
	} {
		assert.InDelta(t, 1.0, p.period(), 0, name)
	}
}
