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
	assert.InDelta(t, time.Since(begin).Seconds(), total().Seconds(), 0.04, "two ticks of the coarsest clock")
}
