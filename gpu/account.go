package gpu

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"

	"gputrain/internal/system"
)

// account counts the bytes of a device's buffers, its own staging and uniform buffers included.
type account struct {
	mu         sync.Mutex
	limit      uint64        // 0 = none
	available  func() uint64 // for software adapters: what the machine can still give; nil = not known
	live, peak uint64
	buffers    uint64 // live
	made       uint64
}

// hostCheckBytes is the size from which a buffer of a software adapter is compared with the memory at hand; reading the
// figures takes some 20 us.
const hostCheckBytes = 16 << 20

func (a *account) take(label string, bytes uint64) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.limit > 0 && (a.live+bytes > a.limit || a.live+bytes < bytes) {
		return fmt.Errorf("%q: %w: %d bytes wanted, %d live, memory limit %d", label, ErrOutOfMemory, bytes, a.live, a.limit)
	}
	if a.available != nil && bytes >= hostCheckBytes {
		if free := a.available(); bytes > free {
			return fmt.Errorf("%q: %w: %d bytes wanted, %d live, %d bytes of the machine's memory available", label, ErrOutOfMemory, bytes, a.live, free)
		}
	}
	if a.available != nil {
		hostLive.Add(int64(bytes))
	}
	a.live += bytes
	a.peak = max(a.peak, a.live)
	a.buffers++
	a.made++
	return nil
}

func (a *account) free(bytes uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.available != nil {
		hostLive.Add(-int64(bytes))
	}
	a.live -= bytes
	a.buffers--
}

func (a *account) liveBytes() uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.live
}

// hostLive is the bytes of the buffers of all software devices of this process.
var hostLive atomic.Int64

// availableMemory is what the machine, or the control group this process is in, can still give to buffers; unknown = no
// bound. Buffers take their pages when they are first used, so what is live beyond this process's resident pages is already promised.
func availableMemory() uint64 {
	free, resident := system.AvailableMemory(), system.ResidentMemory()
	if resident == 0 || free == math.MaxUint64 {
		return free
	}
	promised := uint64(max(hostLive.Load()-int64(resident), 0))
	return free - min(promised, free)
}

// SizeText is a number of bytes for people.
func SizeText(bytes uint64) string {
	switch {
	case bytes >= 1<<30:
		return fmt.Sprintf("%.2f GiB", float64(bytes)/(1<<30))
	case bytes >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20))
	case bytes < 1<<10:
		return fmt.Sprintf("%d bytes", bytes)
	}
	return fmt.Sprintf("%.1f KiB", float64(bytes)/(1<<10))
}
