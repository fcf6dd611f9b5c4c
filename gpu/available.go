package gpu

import (
	"math"

	"gputrain/internal/system"
)

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

// MachineReserve is what plans leave of the machine's memory, or of the control group's that this process is in: a twentieth, and no less than 512 MiB. The
// system's own caches and other programs grow while a run goes on for days, and where nothing is left the system kills a process.
func MachineReserve() uint64 {
	all := system.TotalMemory()
	if all == math.MaxUint64 {
		return 0
	}
	return max(all/20, 512<<20)
}

// Shares tells whether the adapter's buffers are in the machine's memory, as those of processors and of cards without memory of their own are.
func (a Adapter) Shares() bool { return a.Limits.Software || a.Type == "integrated" }

// HostBytes is what this process has of the machine's memory; 0 where nothing tells.
func HostBytes() uint64 { return system.ResidentMemory() }

// HostPeakBytes is the most that HostBytes was; 0 where nothing tells.
func HostPeakBytes() uint64 { return system.PeakMemory() }
