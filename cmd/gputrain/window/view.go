//go:build window

package window

import (
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/cogentcore/webgpu/wgpuglfw"
	"github.com/go-gl/glfw/v3.3/glfw"

	"gputrain/cmd/gputrain/window/surface"
)

// Window systems want to be talked to by the first thread of a process.
func init() { runtime.LockOSThread() }

// View is a window on a Board. Open, Loop and Close are for the first goroutine of the process; what draws is another one, which Show starts.
type View struct {
	board  *Board
	glass  *glfw.Window
	handle surface.Window

	size   atomic.Uint64 // pixels: width << 32 | height
	scale  atomic.Uint64 // bits of a float64
	mouse  atomic.Pointer[[2]float64]
	redraw atomic.Bool
	closed atomic.Bool

	mu      sync.Mutex
	painter *painter
}

// Open opens a window, empty until Show.
func Open(board *Board) (v *View, err error) {
	// Without a window system Init fails and says nothing of it; what is called next panics.
	defer func() {
		if p := recover(); p != nil {
			failure, ok := p.(*glfw.Error)
			if !ok {
				panic(p)
			}
			v, err = nil, fmt.Errorf("window: found no window system (DISPLAY is %q), wanted one: %w", os.Getenv("DISPLAY"), failure)
		}
	}()
	if err := glfw.Init(); err != nil {
		return nil, fmt.Errorf("window: %w", err)
	}
	glfw.WindowHint(glfw.ClientAPI, glfw.NoAPI)
	glass, err := glfw.CreateWindow(1280, 800, "gputrain: "+board.snapshot().Title, nil, nil)
	if err != nil {
		glfw.Terminate()
		return nil, fmt.Errorf("window: %w", err)
	}
	v = &View{board: board, glass: glass}
	d := wgpuglfw.GetSurfaceDescriptor(glass)
	switch {
	case d.XlibWindow != nil:
		v.handle = surface.Window{XlibDisplay: d.XlibWindow.Display, XlibWindow: uint64(d.XlibWindow.Window)}
	case d.MetalLayer != nil:
		v.handle = surface.Window{MetalLayer: d.MetalLayer.Layer}
	case d.WindowsHWND != nil:
		v.handle = surface.Window{Win32Instance: d.WindowsHWND.Hinstance, Win32Window: d.WindowsHWND.Hwnd}
	default:
		v.Close()
		return nil, errors.New("window: found a window system that is none of X11, Metal and Win32")
	}
	glass.SetRefreshCallback(func(*glfw.Window) { v.redraw.Store(true) })
	glass.SetKeyCallback(func(w *glfw.Window, key glfw.Key, _ int, action glfw.Action, _ glfw.ModifierKey) {
		if action == glfw.Press && (key == glfw.KeyEscape || key == glfw.KeyQ) {
			w.SetShouldClose(true)
		}
	})
	v.measure()
	return v, nil
}

// measure asks the window for what the painter wants to know.
func (v *View) measure() {
	width, height := v.glass.GetFramebufferSize()
	if v.glass.GetAttrib(glfw.Iconified) == glfw.True {
		width, height = 0, 0
	}
	v.size.Store(uint64(uint32(width))<<32 | uint64(uint32(height)))
	scale, _ := v.glass.GetContentScale()
	v.scale.Store(math.Float64bits(float64(scale)))
	var mouse *[2]float64
	if v.glass.GetAttrib(glfw.Hovered) == glfw.True {
		x, y := v.glass.GetCursorPos()
		if w, h := v.glass.GetSize(); w > 0 && h > 0 {
			mouse = &[2]float64{x * float64(width) / float64(w), y * float64(height) / float64(h)}
		}
	}
	v.mouse.Store(mouse)
}

// Loop serves the window until it is closed, by hand or because done is.
func (v *View) Loop(done <-chan struct{}) {
	for !v.glass.ShouldClose() {
		select {
		case <-done:
			return
		default:
		}
		glfw.WaitEventsTimeout(0.03)
		v.measure()
	}
}

// Close closes the window, once. What it shows goes on without it.
func (v *View) Close() {
	if v.closed.Swap(true) {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.painter != nil {
		v.painter.release()
	}
	v.glass.Destroy()
	glfw.Terminate()
}
