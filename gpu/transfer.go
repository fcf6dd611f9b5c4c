package gpu

import (
	"context"
	"fmt"
	"sync"
)

// The library keeps what is written in staging memory until the next submit, so a large upload is submitted in pieces.
const writePiece = 16 << 20

// Write copies data to the device, ordered before the next submit. Offset and length are multiples of 4.
func (d *Device) Write(dst Range, data []byte) error {
	if err := d.write(dst, data); err != nil {
		return fmt.Errorf("gpu: write: %w", err)
	}
	return nil
}

func (d *Device) write(dst Range, data []byte) error {
	if err := d.Err(); err != nil {
		return err
	}
	if dst.Bytes == 0 && len(data) == 0 {
		return nil
	}
	if err := dst.checkMoved(d); err != nil {
		return err
	}
	if uint64(len(data)) != dst.Bytes {
		return fmt.Errorf("%s: %d bytes of data", dst, len(data))
	}
	if d.native == nil {
		return nil
	}
	for off := 0; off < len(data); off += writePiece {
		piece := data[off:min(off+writePiece, len(data))]
		if err := d.native.write(dst.Buffer.native, dst.Offset+uint64(off), piece); err != nil {
			return fmt.Errorf("%s: %w", dst, err)
		}
		d.counts.written.Add(uint64(len(piece)))
		if err := d.flushWrites(uint64(len(piece))); err != nil {
			return fmt.Errorf("%s: %w", dst, err)
		}
	}
	return nil
}

func (d *Device) flushWrites(bytes uint64) error {
	q := &d.queue
	q.mu.Lock()
	q.written += bytes
	full := q.written >= writePiece
	q.mu.Unlock()
	if !full {
		return nil
	}
	q.turn.Lock()
	defer q.turn.Unlock()
	if err := d.drain(context.Background(), inFlight-1); err != nil {
		return err
	}
	return d.launch("gputrain.gpu.flush", &piece{}, nil)
}

// staging is the buffer that Read copies through: kept, and grown up to readPiece.
type staging struct {
	mu     sync.Mutex
	buffer *Buffer
	fence  nativeFence
}

// Reads go in pieces of this size, so that reading a model does not take its size again.
const readPiece = 32 << 20

// StagingBytes is the size of the buffer that a device keeps once it has read that many bytes.
func StagingBytes(bytes uint64) uint64 {
	size := uint64(64 << 10)
	for size < min(bytes, readPiece) {
		size *= 2
	}
	return size
}

func (s *staging) grow(d *Device, bytes uint64) error {
	if s.fence == nil {
		s.fence = makeFence()
	}
	if s.buffer != nil && s.buffer.bytes >= bytes {
		return nil
	}
	s.buffer.Release()
	s.buffer = nil
	b, err := d.newBuffer("gputrain.gpu.staging", min(StagingBytes(bytes), d.limits.BufferBytes), usageStaging)
	if err != nil {
		return err
	}
	s.buffer = b
	return nil
}

// Read copies src from the device to dst, after everything submitted before, and waits for it. len(dst) is src.Bytes.
func (d *Device) Read(ctx context.Context, dst []byte, src Range) error {
	if err := d.read(ctx, dst, src); err != nil {
		return fmt.Errorf("gpu: read: %w", err)
	}
	return nil
}

func (d *Device) read(ctx context.Context, dst []byte, src Range) error {
	if err := d.ready(); err != nil {
		return err
	}
	if src.Bytes == 0 && len(dst) == 0 {
		return nil
	}
	if err := src.checkMoved(d); err != nil {
		return err
	}
	if src.Buffer.usage&usageStorage != usageStorage {
		return fmt.Errorf("%s: a uniform buffer cannot be read", src)
	}
	if uint64(len(dst)) != src.Bytes {
		return fmt.Errorf("%s: destination has %d bytes", src, len(dst))
	}
	d.staging.mu.Lock()
	defer d.staging.mu.Unlock()
	piece := min(src.Bytes, readPiece, d.limits.BufferBytes&^3)
	if err := d.staging.grow(d, piece); err != nil {
		return err
	}
	for off := uint64(0); off < src.Bytes; off += piece {
		n := min(piece, src.Bytes-off)
		if err := d.readPiece(ctx, dst[off:off+n], src.Buffer.Range(src.Offset+off, n)); err != nil {
			return fmt.Errorf("%s: %w", src, err)
		}
	}
	d.counts.readbacks.Add(1)
	d.counts.read.Add(src.Bytes)
	return nil
}

func (d *Device) readPiece(ctx context.Context, dst []byte, src Range) error {
	s := &d.staging
	list := makeList([]nativeCommand{{kind: kindReadBack, src: src.Buffer.native, srcOffset: src.Offset, bytes: src.Bytes}})
	defer freeList(list)
	resetFence(s.fence)
	// Not among the submits under way: the map's fence tells when it is done.
	d.queue.turn.Lock()
	err := d.native.submit("gputrain.gpu.read", []nativeList{list}, []nativeStaging{makeStaging(s.buffer.native, src.Bytes, s.fence)}, nil, nil)
	if err == nil {
		d.queue.mu.Lock()
		d.queue.written = 0
		d.queue.mu.Unlock()
	}
	d.queue.turn.Unlock()
	if err != nil {
		return err
	}
	d.counts.submits.Add(1)
	if err := d.wait(ctx, s.fence, "wait for the copy"); err != nil {
		// The map may still be under way: leave that buffer and fence to it.
		s.buffer.Release()
		s.buffer, s.fence = nil, nil
		return err
	}
	if !d.native.readMapped(s.buffer.native, dst) {
		return fmt.Errorf("the staging buffer is not mapped")
	}
	return nil
}
