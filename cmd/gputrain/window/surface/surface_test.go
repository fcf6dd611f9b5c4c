//go:build window

package surface_test

import (
	"context"
	"image"
	"image/color"
	"runtime"
	"testing"
	"time"

	"github.com/cogentcore/webgpu/wgpuglfw"
	"github.com/go-gl/glfw/v3.3/glfw"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/cmd/gputrain/window/screen"
	"gputrain/cmd/gputrain/window/surface"
	"gputrain/gpu"
	"gputrain/internal/gputest"
)

// bars draws a bar for each number that a compute kernel has counted.
var bars = gpu.KernelOf("test.bars", `
@group(0) @binding(0) var<storage, read> counts: array<u32>;
@vertex fn vertex(@builtin(vertex_index) v: u32, @builtin(instance_index) i: u32) -> @builtin(position) vec4<f32> {
    let x = (f32(i) + f32(v & 1u)) / f32(arrayLength(&counts)) * 2.0 - 1.0;
    return vec4<f32>(x, f32(v >> 1u) * f32(counts[i]) / 8.0 * 2.0 - 1.0, 0.0, 1.0);
}
@fragment fn fragment() -> @location(0) vec4<f32> { return vec4<f32>(1.0, 0.5, 0.0, 1.0); }`)

var count = gpu.KernelOf("test.count", `
@group(0) @binding(0) var<storage, read_write> counts: array<u32>;
@compute @workgroup_size(4) fn main(@builtin(local_invocation_index) i: u32) { counts[i] += 2u * i; }`)

func newWindow(t *testing.T, width, height int) surface.Window {
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	require.NoError(t, glfw.Init())
	t.Cleanup(glfw.Terminate)
	glfw.WindowHint(glfw.ClientAPI, glfw.NoAPI)
	glfw.WindowHint(glfw.Decorated, glfw.False)
	w, err := glfw.CreateWindow(width, height, "test", nil, nil)
	require.NoError(t, err)
	t.Cleanup(w.Destroy)
	w.SetPos(0, 0)
	x := wgpuglfw.GetSurfaceDescriptor(w).XlibWindow
	return surface.Window{XlibDisplay: x.Display, XlibWindow: uint64(x.Window)}
}

func show(t *testing.T, s *surface.Surface, layers ...surface.Layer) {
	deadline := time.Now().Add(gputest.Patience)
	for time.Now().Before(deadline) {
		glfw.PollEvents()
		shown, err := s.Show([3]float64{0, 0, 1}, layers...)
		require.NoError(t, err)
		if shown {
			break
		}
	}
	for !s.Idle() && time.Now().Before(deadline) {
		time.Sleep(time.Millisecond)
	}
	require.True(t, s.Idle())
	time.Sleep(100 * time.Millisecond) // the server draws after the device has
}

// What a kernel has left in a buffer is on the screen, without a way over the host.
func TestSurfaceShowsABufferOfTheDevice(t *testing.T) {
	server := screen.New(t, 400, 300)
	for _, adapter := range gputest.Adapters(t) {
		t.Run(adapter.Backend+" "+adapter.Name, func(t *testing.T) {
			window := newWindow(t, 400, 200)
			ctx := context.Background()
			dev, err := gpu.Open(ctx, adapter, gpu.Options{})
			require.NoError(t, err)
			defer dev.Release()
			s, err := surface.New(dev, window)
			if err != nil {
				t.Skip(err)
			}
			defer s.Release()
			require.NoError(t, s.Resize(ctx, 400, 200))
			counts, err := dev.NewBuffer("counts", 16)
			require.NoError(t, err)
			sheet, err := s.NewSheet(bars, counts.All())
			require.NoError(t, err)
			for round := 1; round <= 2; round++ {
				r := dev.Record("count")
				r.Dispatch(count, gpu.Grid{X: 1, Y: 1, Z: 1}, nil, counts.All())
				require.NoError(t, r.Submit(ctx))
				show(t, s, surface.Layer{Sheet: sheet, Vertices: 4, Instances: 4})
				picture := server.Picture(t)
				for i := range 4 {
					// Bar i is of 2 i a round, and 8 is the height of the window.
					top := 200 - min(200, 50*i*round)
					above, below := image.Pt(100*i+50, top-3), image.Pt(100*i+50, top+3)
					if above.Y >= 0 {
						assert.Equal(t, color.RGBA{0, 0, 255, 255}, picture.At(above.X, above.Y), "round %d, %v", round, above)
					}
					if below.Y < 200 {
						assert.Equal(t, color.RGBA{255, 128, 0, 255}, picture.At(below.X, below.Y), "round %d, %v", round, below)
					}
				}
			}
			assert.Zero(t, dev.Counters().ReadBytes)
			screen.Keep(t, server.Picture(t), "surface-"+adapter.Backend)
		})
	}
}

// What would end the process, and what comes after the device, is an error.
func TestSurfaceRefuses(t *testing.T) {
	screen.New(t, 400, 300)
	window := newWindow(t, 400, 200)
	ctx := context.Background()
	dev, err := gpu.Open(ctx, gputest.Adapters(t)[0], gpu.Options{})
	require.NoError(t, err)
	defer dev.Release()
	s, err := surface.New(dev, window)
	require.NoError(t, err)
	counts, err := dev.NewBuffer("counts", 16)
	require.NoError(t, err)
	shown, err := s.Show([3]float64{})
	require.NoError(t, err)
	assert.False(t, shown, "before Resize")
	for _, size := range [][2]int{{0, 10}, {10, 0}, {-1, 10}, {10, 10000}} {
		assert.ErrorContains(t, s.Resize(ctx, size[0], size[1]), "size: found")
	}
	require.NoError(t, s.Resize(ctx, 400, 200))
	wrong := *bars
	wrong.Source = "fn nothing() {}"
	_, err = s.NewSheet(&wrong, counts.All())
	assert.ErrorContains(t, err, `sheet "test.bars"`)
	_, err = s.NewSheet(count, counts.All())
	assert.ErrorContains(t, err, "read_write")
	_, err = s.NewSheet(bars)
	assert.ErrorContains(t, err, "0 ranges bound, want 1")
	sheet, err := s.NewSheet(bars, counts.All())
	require.NoError(t, err)
	show(t, s, surface.Layer{Sheet: sheet, Vertices: 4, Instances: 4})
	counts.Release()
	_, err = s.Show([3]float64{}, surface.Layer{Sheet: sheet, Vertices: 4, Instances: 4})
	assert.ErrorContains(t, err, `counts[0:16]: is released`)

	dev.Release()
	s.Release()
	_, err = s.Show([3]float64{})
	assert.ErrorIs(t, err, surface.ErrReleased)
	assert.ErrorIs(t, s.Resize(ctx, 10, 10), surface.ErrReleased)
	assert.ErrorIs(t, s.Write(counts.All(), make([]byte, 16)), surface.ErrReleased)
	_, err = s.NewSheet(&wrong, counts.All())
	assert.Error(t, err)
	assert.False(t, s.Idle())
	_, err = surface.New(dev, window)
	assert.Error(t, err)
}
