package gpu

import (
	"bytes"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLogLevels(t *testing.T) {
	logger := func(out *bytes.Buffer, level slog.Level) *slog.Logger {
		return slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: level}))
	}
	defer wgpuLog.logger.Store(wgpuLog.logger.Load())
	var out bytes.Buffer
	wgpuLog.logger.Store(logger(&out, slog.LevelWarn))
	require.Equal(t, uint32(2), wantedLevel(wgpuLog.logger.Load()))
	logNative(1, "an error")
	logNative(2, "a warning")
	logNative(3, "a hint")
	require.Contains(t, out.String(), `level=ERROR msg="an error" source=wgpu`)
	require.Contains(t, out.String(), `level=WARN msg="a warning" source=wgpu`)
	require.NotContains(t, out.String(), "a hint")

	out.Reset()
	wgpuLog.logger.Store(logger(&out, slog.LevelDebug))
	require.Equal(t, uint32(4), wantedLevel(wgpuLog.logger.Load()))
	logNative(3, "a hint")
	logNative(4, "a detail")
	logNative(5, "a trace")
	require.Contains(t, out.String(), `level=INFO msg="a hint"`)
	require.Contains(t, out.String(), `level=DEBUG msg="a detail"`)
	require.NotContains(t, out.String(), "a trace")

	// While adapters are enumerated, warnings about windows are details.
	out.Reset()
	wgpuLog.logger.Store(logger(&out, slog.LevelInfo))
	tap := &logTap{}
	wgpuLog.tap.Store(tap)
	logNative(2, "No config found!")
	logNative(1, "trouble")
	wgpuLog.tap.Store(nil)
	require.Equal(t, []string{"No config found!", "trouble"}, tap.lines)
	require.NotContains(t, out.String(), "No config found!")
	require.Contains(t, out.String(), "trouble")
}

// The library's own log arrives.
func TestNativeLogArrives(t *testing.T) {
	var out bytes.Buffer
	a := anyAdapter(t)
	d, err := Open(t.Context(), a, Options{Logger: slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	require.NoError(t, err)
	defer routeLog(nil)
	d.Release()
	require.Contains(t, out.String(), "source=wgpu")
}
