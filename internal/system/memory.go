package system

import "math"

// MemoryReserve is what plans leave of the machine's memory, or of the control group's that this process is in: a twentieth, and no less than 512 MiB. The
// system's own caches and other programs grow while a run goes on for days, and where nothing is left the system kills a process.
func MemoryReserve() uint64 {
	all := TotalMemory()
	if all == math.MaxUint64 {
		return 0
	}
	return max(all/20, 512<<20)
}
