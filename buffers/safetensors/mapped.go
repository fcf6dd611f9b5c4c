package safetensors

import (
	"errors"
	"io"
	"runtime/debug"

	"golang.org/x/exp/mmap"
)

// mapped reads a mapped file. Where the file has become shorter since it was mapped, a read beyond its end is a fault of the processor, which would
// end the process; here it is an error.
type mapped struct{ *mmap.ReaderAt }

var errShorter = errors.New("the file has become shorter while it was read, or its disk cannot be read")

// ReadAt is that of the file.
func (m mapped) ReadAt(p []byte, at int64) (n int, err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		switch r := recover(); r.(type) {
		case nil:
		case interface{ Addr() uintptr }:
			n, err = 0, errors.Join(errShorter, io.ErrUnexpectedEOF)
		default:
			panic(r)
		}
	}()
	return m.ReaderAt.ReadAt(p, at)
}
