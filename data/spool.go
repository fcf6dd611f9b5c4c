package data

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
)

// spoolLimit is the size from which documents leave memory for a temporary file.
const spoolLimit = 64 << 20

// spool takes tokens one after the other: into memory, and from a size on into a temporary file, which has no name any more where the
// system allows it.
type spool struct {
	width  int
	limit  int
	memory []byte
	file   *os.File
	out    *bufio.Writer
	count  int64
}

// newSpool holds tokens below vocab.
func newSpool(vocab, limit int) *spool {
	return &spool{width: tokenWidth(vocab), limit: limit}
}

// tokenWidth is how many bytes a token below vocab takes that may be unlabelled.
func tokenWidth(vocab int) int {
	if vocab <= 1<<15 {
		return 2
	}
	return 4
}

func (s *spool) add(tokens []uint32) error {
	s.count += int64(len(tokens))
	for _, t := range tokens {
		s.memory = encodeToken(s.memory, s.width, t)
	}
	if s.file == nil && len(s.memory) > s.limit {
		file, err := os.CreateTemp("", "gputrain-documents-*")
		if err != nil {
			return fmt.Errorf("data: documents: %w", err)
		}
		_ = os.Remove(file.Name()) // Windows keeps a name until the file is closed
		s.file, s.out = file, bufio.NewWriterSize(file, 1<<20)
	}
	if s.file == nil {
		return nil
	}
	_, err := s.out.Write(s.memory)
	s.memory = s.memory[:0]
	if err != nil {
		return fmt.Errorf("data: documents: temporary file in %s: %w", os.TempDir(), err)
	}
	return nil
}

// store ends writing.
func (s *spool) store() (store, error) {
	if s.file == nil {
		return store{bytes: bytes.NewReader(s.memory), width: s.width}, nil
	}
	if err := s.out.Flush(); err != nil {
		return store{}, fmt.Errorf("data: documents: temporary file in %s: %w", os.TempDir(), err)
	}
	return store{bytes: io.NewSectionReader(s.file, 0, s.count*int64(s.width)), width: s.width}, nil
}

// Close removes the temporary file.
func (s *spool) Close() error {
	if s.file == nil {
		return nil
	}
	err := s.file.Close()
	if gone := os.Remove(s.file.Name()); !errors.Is(gone, os.ErrNotExist) {
		err = errors.Join(err, gone)
	}
	return err
}

// encodeToken appends a token, which may be unlabelled, in so many bytes.
func encodeToken(dst []byte, width int, token uint32) []byte {
	if width == 4 {
		return binary.LittleEndian.AppendUint32(dst, token)
	}
	return binary.LittleEndian.AppendUint16(dst, uint16(token|token>>16&(unlabelled>>16)))
}

func (s store) decode(raw []byte) uint32 {
	if s.width == 4 {
		return binary.LittleEndian.Uint32(raw)
	}
	t := uint32(binary.LittleEndian.Uint16(raw))
	return t&(1<<15-1) | t>>15<<31
}
