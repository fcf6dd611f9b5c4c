package system

import (
	"bufio"
	"math"
	"os"
	"strconv"
	"strings"
)

// AvailableMemory is what the machine, or the control group that this process is in, can still give; math.MaxUint64: nothing tells.
func AvailableMemory() uint64 {
	free, _ := memoryGroups{}.available()
	return min(free, meminfo("/proc/meminfo", "MemAvailable"))
}

// TotalMemory is what the machine, or that control group, has; math.MaxUint64: nothing tells.
func TotalMemory() uint64 {
	_, all := memoryGroups{}.available()
	return min(all, meminfo("/proc/meminfo", "MemTotal"))
}

// ResidentMemory is what this process has of the machine's memory; 0: nothing tells.
func ResidentMemory() uint64 {
	raw, err := os.ReadFile("/proc/self/statm")
	fields := strings.Fields(string(raw))
	if err != nil || len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.ParseUint(fields[1], 10, 64)
	return pages * uint64(os.Getpagesize())
}

// PeakMemory is the most that ResidentMemory was; 0: nothing tells.
func PeakMemory() uint64 {
	bytes := meminfo("/proc/self/status", "VmHWM")
	if bytes == math.MaxUint64 {
		return 0
	}
	return bytes
}

// meminfo is a field of a file of lines "Name: 12 kB" or "name 12"; MaxUint64 when it is not there.
func meminfo(path, field string) uint64 {
	f, err := os.Open(path)
	if err != nil {
		return math.MaxUint64
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		words := strings.Fields(lines.Text())
		if len(words) < 2 || strings.TrimSuffix(words[0], ":") != field {
			continue
		}
		n, err := strconv.ParseUint(words[1], 10, 64)
		if err != nil {
			break
		}
		if len(words) == 3 && words[2] == "kB" {
			n <<= 10
		}
		return n
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
