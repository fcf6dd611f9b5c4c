package system

import (
	"crypto/sha256"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What takes some tens of microseconds never takes no time, and a stopwatch goes as fast as the clock of package time.
func TestStopwatch(t *testing.T) {
	text := make([]byte, 1<<14)
	total, begin := Stopwatch(), time.Now()
	for range 1000 {
		took := Stopwatch()
		text[0] = sha256.Sum256(text)[0]
		require.Positive(t, took())
	}
	time.Sleep(200 * time.Millisecond)
	const ticks = 40 * time.Millisecond // two of the coarsest clock
	least := time.Since(begin) - ticks
	took := total()
	assert.GreaterOrEqual(t, took, least)
	assert.LessOrEqual(t, took, time.Since(begin)+ticks)
}
