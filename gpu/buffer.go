package gpu

// Buffer is memory of one device, zero-filled when made.
type Buffer struct {
	device *Device
	label  string
	bytes  uint64
}

// Label is the label given when the buffer was made.
func (b *Buffer) Label() string { return b.label }

// Bytes is the size, a multiple of 4.
func (b *Buffer) Bytes() uint64 { return b.bytes }

// All is the whole buffer.
func (b *Buffer) All() Range { return Range{Buffer: b, Bytes: b.bytes} }

// Range is size bytes from off; checked when used.
func (b *Buffer) Range(off, size uint64) Range { return Range{Buffer: b, Offset: off, Bytes: size} }

// Release gives the memory back. Programs that use the buffer can no longer be submitted.
func (b *Buffer) Release() {}

// Range is a part of a buffer, in bytes. A binding needs Offset to be a multiple of Limits.StorageAlign.
type Range struct {
	Buffer *Buffer
	Offset uint64
	Bytes  uint64
}
