package tensorboard

import (
	"bytes"
	"hash/crc32"
	"testing"

	"github.com/stretchr/testify/assert"
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
