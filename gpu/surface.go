//go:build window

package gpu

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"unsafe"
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
// the device's submits and are not among those of invariant 6; of frames, one at a time is under way. For one goroutine; the
// device's release is safe at any time.
type Surface struct {
	device        *Device
	mu            sync.Mutex // against the release of the device
	native        nativeSurface
	sheets        []*Sheet
	width, height int
	released      bool
}

// Sheet is a shader with what it reads, drawn over what is below it; see Surface.NewSheet.
type Sheet struct {
	native  nativeSheet
	buffers []*Buffer
}

// Layer is a sheet and how much of it to draw: triangle strips of so many vertices, so many times.
type Layer struct {
	Sheet               *Sheet
	Vertices, Instances int
}

// ErrSurfaceReleased says that a surface, or its device, has been released.
var ErrSurfaceReleased = errors.New("the surface is released")

// NewSurface makes a surface of a window, which must outlive it. Resize it before the first frame. An adapter that cannot show on
// the window is an error; another may.
func (d *Device) NewSurface(w Window) (*Surface, error) {
	if err := d.ready(); err != nil {
		return nil, fmt.Errorf("gpu: surface: %w", err)
	}
	native, err := d.native.surface(w)
	if err != nil {
		return nil, fmt.Errorf("gpu: surface: %s: %w", d.adapter, err)
	}
	s := &Surface{device: d, native: native}
	d.owned.add(s)
	return s, nil
}

// maxSide is the least that every adapter's textures may have, and enough for a window.
const maxSide = 8192

// Resize says how large the window is, in pixels. It waits for the work under way, as the library would, which gives up on a
// wait of seconds and ends the process.
func (s *Surface) Resize(ctx context.Context, width, height int) error {
	d := s.device
	if width < 1 || height < 1 || width > maxSide || height > maxSide {
		return fmt.Errorf("gpu: surface: size: found %d x %d, wanted 1 x 1 to %d x %d", width, height, maxSide, maxSide)
	}
	d.queue.turn.Lock()
	defer d.queue.turn.Unlock()
	if d.closed.Load() {
		return fmt.Errorf("gpu: surface: resize: %w", ErrSurfaceReleased)
	}
	if err := d.drain(ctx, 0); err != nil {
		return fmt.Errorf("gpu: surface: resize: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.released {
		return fmt.Errorf("gpu: surface: resize: %w", ErrSurfaceReleased)
	}
	if err := s.device.native.configure(s.native, width, height); err != nil {
		return fmt.Errorf("gpu: surface: resize: %w", err)
	}
	s.width, s.height = width, height
	return nil
}

// NewSheet compiles a shader with the entry points vertex and fragment, whose bindings, of vertex and fragment alike, are uniforms
// and storage that it reads. It lives as long as the surface; the buffers must be released after that.
func (s *Surface) NewSheet(k *Kernel, bind ...Range) (*Sheet, error) {
	r := s.device.Record(k.Label)
	if len(bind) != len(k.Bindings) {
		return nil, fmt.Errorf("gpu: sheet %q: %d ranges bound, want %d (%s)", k.Label, len(bind), len(k.Bindings), bindingNames(k.Bindings))
	}
	sheet := &Sheet{}
	for i, b := range k.Bindings {
		err := r.checkBinding(b, bind[i])
		if b.Access == ReadWrite {
			err = errors.New("is read_write, wanted read or uniform")
		}
		if err != nil {
			return nil, fmt.Errorf("gpu: sheet %q: binding %q: %w", k.Label, b.Name, err)
		}
		sheet.buffers = append(sheet.buffers, bind[i].Buffer)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.released {
		return nil, fmt.Errorf("gpu: sheet %q: %w", k.Label, ErrSurfaceReleased)
	}
	var err error
	if sheet.native, err = s.device.native.sheet(s.native, k, bind); err != nil {
		return nil, fmt.Errorf("gpu: sheet %q: %w", k.Label, err)
	}
	s.sheets = append(s.sheets, sheet)
	return sheet, nil
}

// Write is Device.Write, safe while the device is released.
func (s *Surface) Write(dst Range, data []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.released {
		return fmt.Errorf("gpu: write: %w", ErrSurfaceReleased)
	}
	return s.device.Write(dst, data)
}

// Idle says whether the newest frame has been drawn: Show would not wait for it.
func (s *Surface) Idle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.released && !s.device.native.dead() && s.device.native.shown(s.native)
}

// Show draws layers over a background of red, green and blue from 0 to 1, and presents the picture. Without an error it may still be
// false: the window has changed and wants Resize, or it is hidden. It draws only when Idle.
func (s *Surface) Show(background [3]float64, layers ...Layer) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.released {
		return false, fmt.Errorf("gpu: show: %w", ErrSurfaceReleased)
	}
	// Not Err: what the driver reports outside of any call is for whoever computes.
	if err := s.device.native.failed(); err != nil {
		return false, fmt.Errorf("gpu: show: %w", err)
	}
	if s.width == 0 || !s.device.native.shown(s.native) {
		return false, nil
	}
	for _, l := range layers {
		for _, b := range l.Sheet.buffers {
			if b.released.Load() {
				return false, fmt.Errorf("gpu: show: buffer %q is released", b.label)
			}
		}
	}
	shown, err := s.device.native.frame(s.native, background, layers)
	if err != nil {
		return false, fmt.Errorf("gpu: show: %w", err)
	}
	return shown, nil
}

// Release gives back the surface and its sheets, once. The window can be closed afterwards.
func (s *Surface) Release() {
	if s != nil {
		s.device.owned.remove(s)
	}
}

func (s *Surface) releaseNative() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.released = true
	n := s.device.native
	if n.dead() {
		return
	}
	for _, sheet := range s.sheets {
		n.releaseSheet(sheet.native)
	}
	n.releaseSurface(s.native)
	n.poll()
}
