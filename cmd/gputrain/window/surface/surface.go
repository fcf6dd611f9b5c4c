//go:build window

// Package surface draws on a window with the device that trains, from the device's own buffers. Package gpu knows nothing of it beyond
// Device.Share. It is built with the tag window only.
package surface

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"unsafe"

	"gputrain/gpu"
)

// Window is where a Surface draws, as its window system knows it: an Xlib display and window, a CAMetalLayer, or a Win32
// instance and window. The others are zero.
type Window struct {
	XlibDisplay                unsafe.Pointer
	XlibWindow                 uint64
	MetalLayer                 unsafe.Pointer
	Win32Instance, Win32Window unsafe.Pointer
}

// Surface shows pictures on a window, drawn by a device from its own buffers while it computes. Its frames are put between
// the device's submits; one frame at a time is under way. For one goroutine; the device's release is safe at any time.
type Surface struct {
	device        *gpu.Device
	give          func()     // the share of the device back
	mu            sync.Mutex // against the release of the device
	native        native
	sheets        []*Sheet
	width, height int
	released      bool
}

// Sheet is a shader with what it reads, drawn over what is below it; see Surface.NewSheet.
type Sheet struct {
	native nativeSheet
	kernel *gpu.Kernel
	bind   []gpu.Range
}

// Layer is a sheet and how much of it to draw: triangle strips of so many vertices, so many times.
type Layer struct {
	Sheet               *Sheet
	Vertices, Instances int
}

// ErrReleased says that a surface, or its device, has been released.
var ErrReleased = errors.New("the surface is released")

// New makes a surface of a window, which must outlive it. Resize it before the first frame. An adapter that cannot show on
// the window is an error; another may.
func New(d *gpu.Device, w Window) (*Surface, error) {
	s := &Surface{device: d}
	shared, give, err := d.Share(s.releaseNative)
	if err != nil {
		return nil, fmt.Errorf("surface: %w", err)
	}
	if s.native, err = newNative(shared, w); err != nil {
		s.released = true
		give()
		return nil, fmt.Errorf("surface: %s: %w", d.Adapter(), err)
	}
	s.give = give
	return s, nil
}

// maxSide is the least that every adapter's textures may have, and enough for a window.
const maxSide = 8192

// Resize says how large the window is, in pixels. It waits for the work under way, as the library would, which gives up on a
// wait of seconds and ends the process.
func (s *Surface) Resize(ctx context.Context, width, height int) error {
	if width < 1 || height < 1 || width > maxSide || height > maxSide {
		return fmt.Errorf("surface: size: found %d x %d, wanted 1 x 1 to %d x %d", width, height, maxSide, maxSide)
	}
	err := s.device.Quiet(ctx, func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.released {
			return ErrReleased
		}
		return s.native.configure(width, height)
	})
	if errors.Is(err, gpu.ErrReleased) {
		err = ErrReleased
	}
	if err != nil {
		return fmt.Errorf("surface: resize: %w", err)
	}
	s.width, s.height = width, height
	return nil
}

// NewSheet compiles a shader with the entry points vertex and fragment, whose bindings, of vertex and fragment alike, are uniforms
// and storage that it reads. It lives as long as the surface; the buffers must be released after that.
func (s *Surface) NewSheet(k *gpu.Kernel, bind ...gpu.Range) (*Sheet, error) {
	err := s.device.CheckBindings(k.Bindings, bind...)
	for _, b := range k.Bindings {
		if err == nil && b.Access == gpu.ReadWrite {
			err = fmt.Errorf("binding %q: is read_write, wanted read or uniform", b.Name)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("surface: sheet %q: %w", k.Label, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.released {
		return nil, fmt.Errorf("surface: sheet %q: %w", k.Label, ErrReleased)
	}
	sheet := &Sheet{kernel: k, bind: bind}
	if sheet.native, err = s.native.sheet(k, bind); err != nil {
		return nil, fmt.Errorf("surface: sheet %q: %w", k.Label, err)
	}
	s.sheets = append(s.sheets, sheet)
	return sheet, nil
}

// Write is Device.Write, safe while the device is released.
func (s *Surface) Write(dst gpu.Range, data []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.released {
		return fmt.Errorf("surface: write: %w", ErrReleased)
	}
	return s.device.Write(dst, data)
}

// Idle says whether the newest frame has been drawn: Show would not wait for it.
func (s *Surface) Idle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.released && !s.native.dead() && s.native.shown()
}

// Show draws layers over a background of red, green and blue from 0 to 1, and presents the picture. Without an error it may still be
// false: the window has changed and wants Resize, or it is hidden. It draws only when Idle.
func (s *Surface) Show(background [3]float64, layers ...Layer) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.released {
		return false, fmt.Errorf("surface: show: %w", ErrReleased)
	}
	// Not Device.Err: what the driver reports outside of any call is for whoever computes.
	if err := s.native.lost(); err != nil {
		return false, fmt.Errorf("surface: show: %w", err)
	}
	if s.width == 0 || !s.native.shown() {
		return false, nil
	}
	for _, l := range layers {
		if err := s.device.CheckBindings(l.Sheet.kernel.Bindings, l.Sheet.bind...); err != nil {
			return false, fmt.Errorf("surface: show: sheet %q: %w", l.Sheet.kernel.Label, err)
		}
	}
	shown, err := s.native.frame(background, layers)
	if err != nil {
		return false, fmt.Errorf("surface: show: %w", err)
	}
	return shown, nil
}

// Release gives back the surface and its sheets, once. The window can be closed afterwards.
func (s *Surface) Release() {
	if s != nil {
		s.give()
	}
}

func (s *Surface) releaseNative() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.released {
		return
	}
	s.released = true
	if s.native.dead() {
		return
	}
	for _, sheet := range s.sheets {
		s.native.releaseSheet(sheet.native)
	}
	s.native.release()
}
