package gpu

import "math"

// Available is how many more bytes of buffers the device can give and what bounds them: Options.MemoryLimit, or for a
// software adapter the machine's own memory. known is false where nothing tells: WebGPU has no query for a card's memory.
func (d *Device) Available() (bytes uint64, bound string, known bool) {
	live := d.account.liveBytes()
	if limit := d.account.limit; limit > 0 {
		bytes, bound, known = limit-min(limit, live), "the memory limit", true
	}
	if d.account.available != nil {
		if free := d.account.available(); !known || free < bytes {
			bytes, bound, known = free, "the machine's available memory", true
		}
	}
	return bytes, bound, known
}

// MachineMemory is how many more bytes of buffers the machine itself can give, to all software adapters together; known is false where
// nothing tells.
func MachineMemory() (bytes uint64, known bool) {
	bytes = availableMemory()
	return bytes, bytes != math.MaxUint64
}

// Shares tells whether the adapter's buffers are in the machine's memory, as those of processors and of cards without memory of their own are.
func (a Adapter) Shares() bool { return a.Limits.Software || a.Type == "integrated" }
