package gpu

import "sync"

// owned lists what a device has made and not yet released, so that releasing the device releases it all, in an order the
// library survives: it aborts when something of a closed device is touched.
type owned struct {
	mu   sync.Mutex
	live map[releaser]struct{}
}

// releaser gives back native handles; it is called once, while the device is open.
type releaser interface{ releaseNative() }

func (o *owned) add(r releaser) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.live == nil {
		o.live = map[releaser]struct{}{}
	}
	o.live[r] = struct{}{}
}

// remove releases r unless the device did so already.
func (o *owned) remove(r releaser) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, ok := o.live[r]; ok {
		delete(o.live, r)
		r.releaseNative()
	}
}

// forget leaves everything as it is.
func (o *owned) forget() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.live = nil
}

func (o *owned) removeAll() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for r := range o.live {
		if _, isBuffer := r.(*Buffer); !isBuffer {
			r.releaseNative() // programs before the buffers they use
		}
	}
	for r := range o.live {
		if b, isBuffer := r.(*Buffer); isBuffer {
			b.releaseNative()
		}
	}
	o.live = nil
}
