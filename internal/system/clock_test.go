package system

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// A stopwatch tells apart what takes a tenth of a millisecond, and goes as fast as the clock of package time.
func TestStopwatch(t *testing.T) {
	took, begin := Stopwatch(), time.Now()
	changes, last := 0, took()
	for changes < 100 {
		if now := took(); now > last {
			changes, last = changes+1, now
		}
	}
	assert.Less(t, last, 10*time.Millisecond, "of a hundred changes")
	time.Sleep(200 * time.Millisecond)
	assert.InDelta(t, time.Since(begin).Seconds(), took().Seconds(), 0.04, "two ticks of the coarsest clock")
}
