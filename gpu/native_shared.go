package gpu

import (
	"context"
	"fmt"
	"strings"
	"unsafe"
)

// Native is an open device for a package whose own C code shares it, such as one that draws on a window: what the functions of native.h and
// native_device.h take. Such code calls the library between gt_enter and gt_leave.
type Native struct {
	Device   unsafe.Pointer // gt_device *
	Instance unsafe.Pointer // WGPUInstance
	Adapter  unsafe.Pointer // WGPUAdapter
}

// Share hands out the device until it is released. It then calls release, once, before it closes; so does the function that Share returns.
func (d *Device) Share(release func()) (n Native, give func(), err error) {
	if err := d.ready(); err != nil {
		return Native{}, nil, err
	}
	g := &guest{release}
	d.owned.add(g)
	native := Native{unsafe.Pointer(d.native.device), unsafe.Pointer(d.native.instance), unsafe.Pointer(d.native.adapter)}
	return native, func() { d.owned.remove(g) }, nil
}

// guest is what another package has made with a shared device.
type guest struct{ release func() }

func (g *guest) releaseNative() { g.release() }

// Quiet calls f while nothing is under way on the device and nobody submits. It does not call f on a released device.
func (d *Device) Quiet(ctx context.Context, f func() error) error {
	d.queue.turn.Lock()
	defer d.queue.turn.Unlock()
	if d.closed.Load() {
		return ErrReleased
	}
	if err := d.drain(ctx, 0); err != nil {
		return err
	}
	return f()
}

// CheckBindings tests ranges against the bindings of a kernel, params among them, as recording a dispatch does.
func (d *Device) CheckBindings(bindings []Binding, bind ...Range) error {
	if len(bind) != len(bindings) {
		var names []string
		for _, b := range bindings {
			names = append(names, b.Name)
		}
		return fmt.Errorf("%d ranges bound, want %d (%s)", len(bind), len(bindings), strings.Join(names, " "))
	}
	for i, b := range bindings {
		if err := d.checkBinding(b, bind[i]); err != nil {
			return fmt.Errorf("binding %q: %w", b.Name, err)
		}
	}
	return nil
}

// Native is the buffer as the library knows it, a WGPUBuffer.
func (b *Buffer) Native() unsafe.Pointer { return unsafe.Pointer(b.native) }
