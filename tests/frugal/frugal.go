// Package frugal holds parsers to a bound of memory, in fuzz targets: what a few bytes claim to be long must not be allocated before it
// is there.
package frugal

import (
	"runtime"
	"testing"
)

// A parser may take Fixed bytes, and PerByte for each byte of its input: decoded, a `{` may be a map, and what is printed and read again is
// taken several times.
const (
	Fixed   = 4 << 20
	PerByte = 4 << 10
)

// Parse calls parse, and fails the test where that allocates more than an input of so many bytes justifies. Nothing else may run meanwhile.
func Parse(t testing.TB, input int, parse func()) {
	t.Helper()
	Within(t, Fixed, PerByte, input, parse)
}

// Within is Parse with a bound of its own.
func Within(t testing.TB, fixed, perByte, input int, parse func()) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	parse()
	runtime.ReadMemStats(&after)
	if taken, most := after.TotalAlloc-before.TotalAlloc, uint64(fixed+perByte*input); taken > most {
		t.Errorf("frugal: an input of %d bytes: found %d bytes allocated, wanted at most %d", input, taken, most)
	}
}
