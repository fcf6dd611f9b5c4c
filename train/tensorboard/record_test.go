package tensorboard

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The checksums of RFC 3720, section B.4, and those of TFRecord: the latter is that of a record written by TensorFlow, which
// tensorboard/data/server/masked_crc.rs holds TensorBoard to.
func TestChecksums(t *testing.T) {
	up, down := make([]byte, 32), make([]byte, 32)
	for i := range up {
		up[i], down[i] = byte(i), byte(31-i)
	}
	for _, c := range []struct {
		data []byte
		want uint32
	}{
		{make([]byte, 32), 0x8a9136aa},
		{bytes.Repeat([]byte{0xff}, 32), 0x62a8ab43},
		{up, 0x46dd794e},
		{down, 0x113fdb5c},
	} {
		assert.Equal(t, c.want, crc32.Checksum(c.data, castagnoli))
	}
	assert.EqualValues(t, 0x5794d08a, masked([]byte("\x1a\x11CRC test, one two")))
}

func TestRecords(t *testing.T) {
	var file []byte
	texts := []string{"", "a", "a longer one"}
	for _, text := range texts {
		file = appendRecord(file, []byte(text))
	}
	r := bytes.NewReader(file)
	for _, text := range texts {
		data, err := readRecord(r, int64(r.Len()))
		require.NoError(t, err)
		assert.Equal(t, text, string(data))
	}
	_, err := readRecord(r, 0)
	assert.Equal(t, io.EOF, err)
}

// Every flipped bit and every cut is found.
func TestDamagedRecords(t *testing.T) {
	file := appendRecord(nil, []byte("some data"))
	for bit := range len(file) * 8 {
		damaged := bytes.Clone(file)
		damaged[bit/8] ^= 1 << (bit % 8)
		_, err := readRecord(bytes.NewReader(damaged), int64(len(damaged)))
		assert.ErrorContains(t, err, "checksum", "bit %d", bit)
	}
	for n := 1; n < len(file); n++ {
		_, err := readRecord(bytes.NewReader(file[:n]), int64(n))
		assert.ErrorIs(t, err, io.ErrUnexpectedEOF, "%d bytes", n)
		_, err = readRecord(bytes.NewReader(file[:n]), int64(len(file))) // of a file that has shrunk
		assert.ErrorIs(t, err, io.ErrUnexpectedEOF, "%d bytes", n)
		assert.False(t, errors.Is(err, io.EOF))
	}
}

// A length that no file has is refused before anything is taken.
func TestLongRecords(t *testing.T) {
	for _, length := range []uint64{10, 1 << 40, 1<<63 - 1, 1<<64 - 1} {
		file := binary.LittleEndian.AppendUint64(nil, length)
		file = binary.LittleEndian.AppendUint32(file, masked(file))
		file = append(file, "some data????"...)
		_, err := readRecord(bytes.NewReader(file), int64(len(file)))
		assert.ErrorIs(t, err, io.ErrUnexpectedEOF)
		assert.ErrorContains(t, err, "at most the 9 that are left")
	}
}
