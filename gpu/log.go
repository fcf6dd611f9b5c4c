package gpu

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
)

// wgpu has one log a process: it goes to the logger of the device opened last, at first to slog's default, and only
// warnings and errors unless that logger wants more.
var wgpuLog struct {
	once   sync.Once
	logger atomic.Pointer[slog.Logger]
	tap    atomic.Pointer[logTap] // set while adapters are enumerated
}

// The library's levels, from error to trace.
var logLevels = [...]slog.Level{1: slog.LevelError, 2: slog.LevelWarn, 3: slog.LevelInfo, 4: slog.LevelDebug, 5: slog.LevelDebug - 4}

const (
	nativeWarn  = 2
	nativeDebug = 4
)

func startLog() {
	wgpuLog.once.Do(func() {
		initNativeLog()
		setNativeLogLevel(nativeWarn)
	})
}

func routeLog(l *slog.Logger) {
	wgpuLog.logger.Store(l)
	setNativeLogLevel(wantedLevel(l))
}

func wantedLevel(l *slog.Logger) uint32 {
	level := uint32(nativeWarn)
	if l != nil {
		for n := level + 1; n < uint32(len(logLevels)) && l.Enabled(context.Background(), logLevels[n]); n++ {
			level = n
		}
	}
	return level
}

func logNative(level uint32, message string) {
	if level == 0 || level >= uint32(len(logLevels)) {
		level = 1
	}
	l := wgpuLog.logger.Load()
	if tap := wgpuLog.tap.Load(); tap != nil {
		tap.add(message)
		if level == nativeWarn {
			level = nativeDebug // about windows and displays, which this package does not open
		}
	}
	if level > wantedLevel(l) {
		return
	}
	if l == nil {
		l = slog.Default()
	}
	l.Log(context.Background(), logLevels[level], message, "source", "wgpu")
}

// logTap keeps what the library logs while it enumerates.
type logTap struct {
	mu    sync.Mutex
	lines []string
}

func (t *logTap) add(line string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lines = append(t.lines, line)
}

// tapped runs f with the log raised to the level that tells of drivers. The caller holds the enumerate lock.
func tapped(f func()) []string {
	t := &logTap{}
	wgpuLog.tap.Store(t)
	setNativeLogLevel(nativeDebug)
	f()
	wgpuLog.tap.Store(nil)
	setNativeLogLevel(wantedLevel(wgpuLog.logger.Load()))
	return t.lines
}
