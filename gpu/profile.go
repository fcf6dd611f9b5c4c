package gpu

import (
	"context"
	"sync"
	"time"
)

// Span is the time of one pass on the device, from an arbitrary origin that all spans of a device share.
type Span struct {
	Group      string // the last Group before it, or the recording's label
	Begin, End time.Duration
}

const profileCapacity = 1024 // passes a submit; those beyond are not timed

type profiler struct {
	device *Device
	period float64 // nanoseconds a tick

	mu    sync.Mutex
	free  []*profileSlot
	spans []Span
}

type profileSlot struct {
	native nativeProfile
	groups []string
}

func newProfiler(ctx context.Context, d *Device) (*profiler, error) {
	p := &profiler{device: d, period: 1}
	for range inFlight {
		native, err := d.native.makeProfile(profileCapacity)
		if err != nil {
			p.release()
			return nil, err
		}
		p.free = append(p.free, &profileSlot{native: native})
	}
	return p, nil
}

func (p *profiler) slot(groups []string) *profileSlot { return nil }
func (p *profiler) giveBack(s *profileSlot)           {}
func (p *profiler) harvest(s *profileSlot)            {}
func (p *profiler) release()                          {}

func (d *Device) Profile() []Span { return nil }
