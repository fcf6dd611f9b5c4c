package safetensors

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"

	"gputrain/buffers/array"
	"gputrain/internal/placeholder"
	"gputrain/internal/stranger"
)

// File is an open file whose header has passed every check. Its methods may be called from several goroutines.
type File struct {
	name   string
	data   io.ReaderAt
	closer *array.Closer // nil: nothing to close
	base   int64         // of the tensors' data
	header header
}

// Open opens the file, as stranger.Open does, and checks its header.
func Open(path string) (*File, error) {
	r, err := stranger.Open(path)
	if err != nil {
		return nil, fmt.Errorf("safetensors: open %w", err)
	}
	info, err := r.Stat()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("safetensors: open: %w", err), r.Close())
	}
	f, err := newFile(path, shrinking{r}, uint64(info.Size()))
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	f.closer = array.NewCloser(r.Close)
	return f, nil
}

// shrinking reads a file that may become shorter, since it is another's.
type shrinking struct{ *os.File }

var errShorter = errors.New("the file has become shorter while it was read")

// ReadAt is that of the file.
func (s shrinking) ReadAt(p []byte, at int64) (n int, err error) {
	if n, err = s.File.ReadAt(p, at); errors.Is(err, io.EOF) {
		err = errors.Join(errShorter, io.ErrUnexpectedEOF)
	}
	return n, err
}

// Parse checks a file that is in memory, which stays the caller's and must not change.
func Parse(data []byte) (*File, error) {
	return newFile("memory", bytes.NewReader(data), uint64(len(data)))
}

func newFile(name string, r io.ReaderAt, size uint64) (*File, error) {
	head := make([]byte, min(size, placeholder.HeadBytes))
	if _, err := r.ReadAt(head, 0); err != nil && len(head) > 0 {
		return nil, fmt.Errorf("safetensors: open %q: %w", name, err)
	}
	if what := placeholder.What(head); what != "" {
		return nil, fmt.Errorf("safetensors: open %q: %s", name, what)
	}
	var prefix [8]byte
	if size < uint64(len(prefix)) {
		return nil, fmt.Errorf("safetensors: open %q: %d bytes, want at least 8", name, size)
	}
	copy(prefix[:], head)
	length := binary.LittleEndian.Uint64(prefix[:])
	if length > stranger.SafetensorsHeader {
		return nil, fmt.Errorf("safetensors: open %q: begins with %q, which would be a header of %d bytes, want at most %d: is it a safetensors file?", name, prefix, length, stranger.SafetensorsHeader)
	}
	if length > size-8 {
		return nil, fmt.Errorf("safetensors: open %q: header of %d bytes, the file has %d after its length", name, length, size-8)
	}
	text := make([]byte, length)
	if _, err := r.ReadAt(text, 8); err != nil && length > 0 {
		return nil, fmt.Errorf("safetensors: open %q: %w", name, err)
	}
	h, err := parseHeader(text, size-8-length)
	if err != nil {
		return nil, fmt.Errorf("safetensors: open %q: %w", name, err)
	}
	return &File{name: name, data: r, base: int64(8 + length), header: h}, nil
}

// Close closes the file, once none of its tensors is held (array.Host). Nothing may be read afterwards.
func (f *File) Close() error {
	if f.closer == nil {
		return nil
	}
	return f.closer.Close()
}

// Names lists the tensors, sorted.
func (f *File) Names() []string { return f.header.names() }

// Metadata is a copy of the header's __metadata__, empty when it has none.
func (f *File) Metadata() map[string]string { return maps.Clone(f.header.metadata) }

// Info gives a tensor's element type in the format's words ("F32", "BF16", "I64", ...) and its shape.
func (f *File) Info(name string) (dtype string, shape []int, ok bool) {
	e, ok := f.header.entries[name]
	return e.dtype, e.shape, ok
}

// Bytes opens a tensor's stored bytes.
func (f *File) Bytes(name string) (*io.SectionReader, error) {
	e, ok := f.header.entries[name]
	if !ok {
		return nil, f.errorf(name, "no such tensor")
	}
	return io.NewSectionReader(f.data, f.base+int64(e.begin), int64(e.end-e.begin)), nil
}

func (f *File) errorf(name, format string, args ...any) error {
	return fmt.Errorf("safetensors: read %q: tensor %q: %w", f.name, name, fmt.Errorf(format, args...))
}
