package gpu

import (
	"bytes"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
)

// After the driver lost a device nothing of it may be touched: the library would abort.
func TestReleaseOfALostDeviceTouchesNothing(t *testing.T) {
	a := anyAdapter(t)
	var log bytes.Buffer
	d, err := Open(t.Context(), a, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	require.NoError(t, err)
	defer routeLog(nil)
	b, err := d.NewBuffer("b", 64)
	require.NoError(t, err)
	late, err := d.NewBuffer("late", 64)
	require.NoError(t, err)
	d.native.lose("vkQueueSubmit: ERROR_DEVICE_LOST", true)
	require.ErrorIs(t, d.Write(b.All(), make([]byte, 64)), ErrDeviceLost)
	b.Release()
	d.Release()
	late.Release()
	require.Zero(t, d.Counters().LiveBytes)
	require.Contains(t, log.String(), "left open")
	require.Contains(t, log.String(), "ERROR_DEVICE_LOST")
	require.True(t, d.native.dead())
}
