// Package gputest gives tests their devices.
package gputest

import (
	"testing"

	"gputrain/gpu"
)

// Option changes the device that a test gets.
type Option func(*gpu.Options)

// WithLimits enforces smaller limits than the adapter's.
func WithLimits(l gpu.Limits) Option { return func(o *gpu.Options) { o.Limits = &l } }

// Device is a device on the first software adapter, else on any; released when the test ends.
func Device(t testing.TB, options ...Option) *gpu.Device {
	t.Helper()
	t.Skip("gputest: not written yet")
	return nil
}

// Each runs test on every adapter.
func Each(t *testing.T, test func(t *testing.T, d *gpu.Device)) {
	t.Helper()
	t.Skip("gputest: not written yet")
}
