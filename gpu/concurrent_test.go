package gpu_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/gpu"
	"gputrain/internal/gputest"
)

// Devices of one adapter and of different ones work at the same time, each from its own goroutine.
func TestDevicesAtOnce(t *testing.T) {
	adapters := gputest.Adapters(t)
	adapters = append(adapters, adapters[0], adapters[len(adapters)-1])
	var all sync.WaitGroup
	for _, a := range adapters {
		d, err := gpu.Open(t.Context(), a, gpu.Options{})
		require.NoError(t, err)
		t.Cleanup(d.Release)
		p, rb := counting(t, d, 2)
		all.Go(func() { count(t, p, rb, 200) })
	}
	all.Wait()
}

// count lets a program of counting count.
func count(t *testing.T, p *gpu.Program, rb *gpu.Readback, to int) {
	for i := range to {
		if !assert.NoError(t, p.Submit(t.Context())) {
			return
		}
		got, err := rb.Next(t.Context())
		if !assert.NoError(t, err) || !assert.Equal(t, float32(i+1), floats(got)[0]) {
			return
		}
	}
}

// One device may be used by several goroutines: one trains, one evaluates, one uploads.
func TestOneDeviceManyGoroutines(t *testing.T) {
	gputest.EachBackend(t, func(t *testing.T, d *gpu.Device) {
		var all sync.WaitGroup
		for range 3 {
			p, rb := counting(t, d, 2)
			all.Go(func() { count(t, p, rb, 50) })
		}
		all.Go(func() {
			for i := range 50 {
				b, err := d.NewBuffer("short-lived", 64)
				if !assert.NoError(t, err) || !assert.NoError(t, d.Write(b.All(), make([]byte, 64))) {
					return
				}
				got := make([]byte, 64)
				if !assert.NoError(t, d.Read(t.Context(), got, b.All())) {
					return
				}
				b.Release()
				assert.NoError(t, d.Compile(t.Context(), variants(1+i%4), nil))
			}
		})
		all.Wait()
	})
}
