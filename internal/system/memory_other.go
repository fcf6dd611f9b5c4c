//go:build !linux && !windows

package system

import "math"

// AvailableMemory is math.MaxUint64: nothing tells.
func AvailableMemory() uint64 { return math.MaxUint64 }

// TotalMemory is math.MaxUint64: nothing tells.
func TotalMemory() uint64 { return math.MaxUint64 }

// ResidentMemory is 0: nothing tells.
func ResidentMemory() uint64 { return 0 }

// PeakMemory is 0: nothing tells.
func PeakMemory() uint64 { return 0 }
