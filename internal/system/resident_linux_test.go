package system

import (
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/assert"
)

// Memory that is written to is memory that the process has, and has had.
func TestResidentMemory(t *testing.T) {
	const size = 64 << 20
	debug.FreeOSMemory() // what other tests have left is not to be used again
	before := ResidentMemory()
	assert.NotZero(t, before)
	held := make([]byte, size)
	for i := 0; i < size; i += 4096 {
		held[i] = 1
	}
	assert.Greater(t, ResidentMemory(), before+size/2)
	assert.GreaterOrEqual(t, PeakMemory(), before+size/2)
	runtime.KeepAlive(held)
}
