package gpu

import (
	"bufio"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"sync"
)

// account counts the bytes of a device's buffers, its own staging and uniform buffers included.
type account struct {
	mu         sync.Mutex
	limit      uint64 // 0 = none
	host       bool   // the buffers are the machine's own memory
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
	if a.host && bytes >= hostCheckBytes {
		if free := availableMemory(); bytes > free {
			return fmt.Errorf("%q: %w: %d bytes wanted, %d live, %d bytes of the machine's memory available", label, ErrOutOfMemory, bytes, a.live, free)
		}
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
	a.live -= bytes
	a.buffers--
}

func (a *account) liveBytes() uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.live
}

// availableMemory is what the machine, or the control group this process is in, can still give; unknown = no bound.
func availableMemory() uint64 {
	free := meminfo("/proc/meminfo", "MemAvailable")
	limit, errLimit := readUint("/sys/fs/cgroup/memory.max")
	used, errUsed := readUint("/sys/fs/cgroup/memory.current")
	if errLimit == nil && errUsed == nil && limit > used {
		free = min(free, limit-used)
	}
	return free
}

func meminfo(path, field string) uint64 {
	f, err := os.Open(path)
	if err != nil {
		return math.MaxUint64
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), ":")
		if name != field {
			continue
		}
		kib, err := strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
		if err != nil {
			break
		}
		return kib << 10
	}
	return math.MaxUint64
}

func readUint(path string) (uint64, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(strings.TrimSpace(string(raw)), 10, 64)
}
