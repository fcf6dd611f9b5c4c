package gpu

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A device is released in finite time also while a submit does not come back from its driver.
func TestReleaseDuringASubmitThatHangs(t *testing.T) {
	d, err := Open(context.Background(), anyAdapter(t), Options{})
	require.NoError(t, err)
	defer func(was time.Duration) { releaseTime = was }(releaseTime)
	releaseTime = 20 * time.Millisecond
	d.queue.turn.Lock()
	d.Release()
	require.ErrorContains(t, d.Err(), "released")
	d.queue.turn.Unlock()
}
