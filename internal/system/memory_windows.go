package system

import (
	"math"
	"unsafe"

	"golang.org/x/sys/windows"
)

var (
	kernel32             = windows.NewLazySystemDLL("kernel32.dll")
	globalMemoryStatusEx = kernel32.NewProc("GlobalMemoryStatusEx")
	getProcessMemoryInfo = kernel32.NewProc("K32GetProcessMemoryInfo")
)

// memoryStatus is MEMORYSTATUSEX.
type memoryStatus struct {
	length, load                                                                      uint32
	total, available, totalPage, availablePage, totalVirtual, availableVirtual, extra uint64
}

// machineMemory is what the machine has, and can still give; false: nothing tells.
func machineMemory() (total, available uint64, ok bool) {
	s := memoryStatus{length: uint32(unsafe.Sizeof(memoryStatus{}))}
	done, _, _ := globalMemoryStatusEx.Call(uintptr(unsafe.Pointer(&s)))
	return s.total, min(s.available, s.availablePage), done != 0
}

// AvailableMemory is what the machine can still give; math.MaxUint64: nothing tells.
func AvailableMemory() uint64 {
	if _, available, ok := machineMemory(); ok {
		return available
	}
	return math.MaxUint64
}

// TotalMemory is what the machine has; math.MaxUint64: nothing tells.
func TotalMemory() uint64 {
	if total, _, ok := machineMemory(); ok {
		return total
	}
	return math.MaxUint64
}

// processMemory is PROCESS_MEMORY_COUNTERS.
type processMemory struct {
	length, faults                                                      uint32
	peak, now, peakPaged, paged, peakNonPaged, nonPaged, file, peakFile uintptr
}

func memoryOfProcess() (p processMemory) {
	p.length = uint32(unsafe.Sizeof(p))
	if done, _, _ := getProcessMemoryInfo.Call(uintptr(windows.CurrentProcess()), uintptr(unsafe.Pointer(&p)), uintptr(p.length)); done == 0 {
		return processMemory{}
	}
	return p
}

// ResidentMemory is what this process has of the machine's memory; 0: nothing tells.
func ResidentMemory() uint64 { return uint64(memoryOfProcess().now) }

// PeakMemory is the most that ResidentMemory was; 0: nothing tells.
func PeakMemory() uint64 { return uint64(memoryOfProcess().peak) }
