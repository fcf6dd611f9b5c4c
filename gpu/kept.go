package gpu

import (
	"maps"
	"sync"
)

// keptKey tells native devices apart, one of which may stand for another.
type keptKey struct {
	backend, name           string
	order                   int
	profile, texels, matrix bool
}

// keptDevice is a native device without a user, and the pipelines that were made on it, by source.
type keptDevice struct {
	native    *nativeDevice
	pipelines map[string]nativePipeline
}

// kept are the devices that Release left open for the next Open. One has a single user at a time, so nothing passes between two
// users but pipelines, which have no state.
var kept struct {
	mu      sync.Mutex
	devices map[keptKey][]keptDevice
}

func takeKept(key keptKey) (keptDevice, bool) {
	kept.mu.Lock()
	defer kept.mu.Unlock()
	all := kept.devices[key]
	if len(all) == 0 {
		return keptDevice{}, false
	}
	kept.devices[key] = all[:len(all)-1]
	return all[len(all)-1], true
}

// keep leaves the native device open, whole and idle, with what was compiled on it.
func (d *Device) keep() {
	d.pipelines.mu.Lock()
	defer d.pipelines.mu.Unlock()
	pipelines := maps.Clone(d.pipelines.kept)
	if pipelines == nil {
		pipelines = map[string]nativePipeline{}
	}
	for source, slot := range d.pipelines.slots {
		if slot.made {
			pipelines[source] = slot.native
		}
	}
	d.pipelines.slots, d.pipelines.kept = nil, nil
	kept.mu.Lock()
	defer kept.mu.Unlock()
	if kept.devices == nil {
		kept.devices = map[keptKey][]keptDevice{}
	}
	kept.devices[*d.keepAs] = append(kept.devices[*d.keepAs], keptDevice{d.native, pipelines})
}
