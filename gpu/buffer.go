package gpu

import (
	"fmt"
	"sync/atomic"
)

// Buffer is memory of one device, zero-filled when made.
type Buffer struct {
	device   *Device
	label    string
	bytes    uint64
	usage    uint32
	native   nativeBuffer
	texels   nativeTexels // in place of native, with usageTexels
	released atomic.Bool
}

// Label is the label given when the buffer was made.
func (b *Buffer) Label() string { return b.label }

// Bytes is the size, a multiple of 4.
func (b *Buffer) Bytes() uint64 { return b.bytes }

// All is the whole buffer.
func (b *Buffer) All() Range { return Range{Buffer: b, Bytes: b.bytes} }

// Range is size bytes from off; checked when used.
func (b *Buffer) Range(off, size uint64) Range { return Range{Buffer: b, Offset: off, Bytes: size} }

// Release gives the memory back, once the device has done what uses it. Programs that use the buffer can no longer be
// submitted. A second call does nothing.
func (b *Buffer) Release() {
	if b == nil || b.released.Swap(true) {
		return
	}
	b.device.owned.remove(b)
	b.device.account.free(b.bytes)
}

func (b *Buffer) releaseNative() {
	n := b.device.native
	if n.dead() {
		return
	}
	if b.usage == usageTexels {
		n.releaseTexels(b.texels)
	} else {
		n.releaseBuffer(b.native)
	}
	n.poll() // the library frees when polled
}

// Range is a part of a buffer, in bytes. A binding needs Offset to be a multiple of Limits.StorageAlign.
type Range struct {
	Buffer *Buffer
	Offset uint64
	Bytes  uint64
}

// String is "label[offset:end]".
func (r Range) String() string {
	if r.Buffer == nil {
		return "nil"
	}
	return fmt.Sprintf("%s[%d:%d]", r.Buffer.label, r.Offset, r.Offset+r.Bytes)
}

func (r Range) overlaps(o Range) bool {
	return r.Buffer == o.Buffer && r.Offset < o.Offset+o.Bytes && o.Offset < r.Offset+r.Bytes
}

// check tests what holds for every use of a range on device d.
func (r Range) check(d *Device) error {
	switch {
	case r.Buffer == nil:
		return fmt.Errorf("no buffer")
	case r.Buffer.device != d:
		return fmt.Errorf("%s: belongs to another device", r)
	case r.Buffer.released.Load():
		return fmt.Errorf("%s: is released", r)
	case r.Bytes == 0:
		return fmt.Errorf("%s: is empty", r)
	case r.Offset > r.Buffer.bytes || r.Bytes > r.Buffer.bytes-r.Offset:
		return fmt.Errorf("%s: ends past the buffer's %d bytes", r, r.Buffer.bytes)
	case r.Offset%4 != 0 || r.Bytes%4 != 0:
		return fmt.Errorf("%s: offset and size must be multiples of 4", r)
	}
	return nil
}

// checkMoved is check for what the library copies or fills, and kernels do not.
func (r Range) checkMoved(d *Device) error {
	if err := r.check(d); err != nil {
		return err
	}
	if r.Buffer.usage == usageTexels {
		return fmt.Errorf("%s: is of texels, which kernels alone read and write", r)
	}
	return nil
}

// NewBuffer makes a zero-filled storage buffer, its size rounded up to a multiple of 4 (zero bytes become 4).
// Errors: LimitError, ErrOutOfMemory (with label, bytes, live bytes and limit), ErrDeviceLost.
func (d *Device) NewBuffer(label string, bytes uint64) (*Buffer, error) {
	return d.newBuffer(label, bytes, usageStorage)
}

// NewUniform makes a zero-filled uniform buffer for a few scalars that change between submits. Errors as NewBuffer.
func (d *Device) NewUniform(label string, bytes uint64) (*Buffer, error) {
	if bytes > d.limits.UniformBytes {
		return nil, fmt.Errorf("gpu: new uniform: %w", &LimitError{fmt.Sprintf("%q", label), bytes, d.limits.UniformBytes, "UniformBytes"})
	}
	return d.newBuffer(label, max(alignUp(bytes, 16), 16), usageUniform)
}

func (d *Device) newBuffer(label string, bytes uint64, usage uint32) (*Buffer, error) {
	if err := d.Err(); err != nil {
		return nil, fmt.Errorf("gpu: new buffer %q: %w", label, err)
	}
	if bytes > d.limits.BufferBytes {
		return nil, fmt.Errorf("gpu: new buffer: %w", &LimitError{fmt.Sprintf("%q", label), bytes, d.limits.BufferBytes, "BufferBytes"})
	}
	bytes = max(alignUp(bytes, 4), 4)
	if err := d.account.take(label, bytes); err != nil {
		return nil, fmt.Errorf("gpu: new buffer: %w", err)
	}
	b := &Buffer{device: d, label: label, bytes: bytes, usage: usage}
	if d.native != nil {
		native, err := d.native.buffer(label, usage, min(alignUp(bytes, texelBytes), d.adapter.Limits.BufferBytes)) // a refresh copies whole texels
		if err != nil {
			d.account.free(bytes)
			return nil, fmt.Errorf("gpu: new buffer %q: %d bytes, %d live: %w", label, bytes, d.account.liveBytes(), err)
		}
		b.native = native
		d.owned.add(b)
	}
	return b, nil
}
