package system

import (
	"math/bits"
	"time"
	"unsafe"
)

var (
	queryPerformanceCounter   = kernel32.NewProc("QueryPerformanceCounter")
	queryPerformanceFrequency = kernel32.NewProc("QueryPerformanceFrequency")
)

// Stopwatch returns what tells how long ago it was called. Package time's clock is here that of interrupts, which goes on every 0.5 to 16 milliseconds: what
// takes less would take no time.
func Stopwatch() (took func() time.Duration) {
	var frequency, begin int64
	_, _, _ = queryPerformanceFrequency.Call(uintptr(unsafe.Pointer(&frequency)))
	_, _, _ = queryPerformanceCounter.Call(uintptr(unsafe.Pointer(&begin)))
	return func() time.Duration {
		var now int64
		_, _, _ = queryPerformanceCounter.Call(uintptr(unsafe.Pointer(&now)))
		high, low := bits.Mul64(uint64(now-begin), uint64(time.Second))
		ns, _ := bits.Div64(high, low, uint64(frequency))
		return time.Duration(ns)
	}
}
