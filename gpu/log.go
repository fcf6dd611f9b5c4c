package gpu

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
)

// wgpu has one log a process: it goes to the logger of the device opened last, at first to slog's default, and only
// warnings and errors unless that logger wants more.
var nativeLogger atomic.Pointer[slog.Logger]

var startLog = sync.OnceFunc(func() {
	initNativeLog()
	routeLog(nil)
})

// The library's levels, from error to trace.
var logLevels = [...]slog.Level{1: slog.LevelError, 2: slog.LevelWarn, 3: slog.LevelInfo, 4: slog.LevelDebug, 5: slog.LevelDebug - 4}

func routeLog(l *slog.Logger) {
	nativeLogger.Store(l)
	level := uint32(2)
	if l != nil {
		for n := uint32(3); n < uint32(len(logLevels)) && l.Enabled(context.Background(), logLevels[n]); n++ {
			level = n
		}
	}
	setNativeLogLevel(level)
}

func logNative(level uint32, message string) {
	l := nativeLogger.Load()
	if l == nil {
		l = slog.Default()
	}
	if level == 0 || level >= uint32(len(logLevels)) {
		level = 1
	}
	l.Log(context.Background(), logLevels[level], message, "source", "wgpu")
}
