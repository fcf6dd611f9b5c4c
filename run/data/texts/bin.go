package texts

import (
	"encoding/binary"
	"fmt"
	"io"
)

// A token file (.bin) holds little-endian tokens of two or four bytes. It may begin with
// a header of 32 bytes, known by its magic; the tokens follow and end with the file:
//
//	0  8 bytes  "GTTOKENS"
//	8  uint32   version, 1
//	12 uint32   bytes a token, 2 or 4
//	16 uint64   number of tokens
//	24 uint32   vocabulary: every token is below it
//	28 uint32   zero
//
// Without the magic the file is bare tokens from its first byte.
const (
	binMagic      = "GTTOKENS"
	binVersion    = 1
	binHeaderSize = 32
)

type binHeader struct {
	width  int
	count  int64
	vocab  int
	offset int64
}

func hasMagic(r io.ReaderAt) bool {
	var raw [len(binMagic)]byte
	_, err := r.ReadAt(raw[:], 0)
	return err == nil && string(raw[:]) == binMagic
}

// tokenHeader describes a file of size bytes that is to hold tokens of width bytes, in the
// header's words or, for bare tokens, with vocab (0: all that u16 can hold).
func tokenHeader(r io.ReaderAt, size int64, width, vocab int) (binHeader, error) {
	if hasMagic(r) {
		h, err := readBinHeader(r, size)
		if err == nil && h.width != width {
			err = fmt.Errorf("header: tokens of %d bytes, want %d: set data.tokens to u%d", h.width, width, 8*h.width)
		}
		return h, err
	}
	if size%int64(width) != 0 {
		return binHeader{}, fmt.Errorf("%d bytes, want a multiple of %d: truncated, or not u%d", size, width, 8*width)
	}
	switch {
	case vocab == 0 && width == 2:
		vocab = 1 << 16
	case vocab == 0:
		return binHeader{}, fmt.Errorf("bare tokens of 4 bytes: vocabulary 0, want that of the tokens (model.vocab)")
	}
	return binHeader{width: width, count: size / int64(width), vocab: vocab}, nil
}

// readBinHeader checks the header of a token file of the given size against it.
func readBinHeader(r io.ReaderAt, size int64) (binHeader, error) {
	if size < binHeaderSize {
		return binHeader{}, fmt.Errorf("header: %d bytes found, want at least %d", size, binHeaderSize)
	}
	var raw [binHeaderSize]byte
	if _, err := r.ReadAt(raw[:], 0); err != nil {
		return binHeader{}, fmt.Errorf("header: %w", err)
	}
	version, width := binary.LittleEndian.Uint32(raw[8:]), binary.LittleEndian.Uint32(raw[12:])
	count, vocab := binary.LittleEndian.Uint64(raw[16:]), binary.LittleEndian.Uint32(raw[24:])
	zero := binary.LittleEndian.Uint32(raw[28:])
	switch {
	case version != binVersion:
		return binHeader{}, fmt.Errorf("header: version %d, want %d", version, binVersion)
	case width != 2 && width != 4:
		return binHeader{}, fmt.Errorf("header: %d bytes a token, want 2 or 4", width)
	case vocab == 0 || vocab > 1<<31-1 || width == 2 && vocab > 1<<16:
		return binHeader{}, fmt.Errorf("header: vocabulary %d: does not suit %d bytes a token", vocab, width)
	case zero != 0:
		return binHeader{}, fmt.Errorf("header: reserved field is %d, want 0", zero)
	}
	body := uint64(size - binHeaderSize)
	if body%uint64(width) != 0 || count != body/uint64(width) {
		return binHeader{}, fmt.Errorf("header: says %d tokens of %d bytes, the file holds %d bytes of them: truncated or corrupted", count, width, body)
	}
	return binHeader{width: int(width), count: int64(count), vocab: int(vocab), offset: binHeaderSize}, nil
}
