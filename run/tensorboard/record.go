package tensorboard

import (
	"encoding/binary"
	"hash/crc32"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// masked is the CRC-32C of data, turned and shifted: TFRecord does so since a checksum over data that hold their own checksum is a poor one.
func masked(data []byte) uint32 {
	crc := crc32.Checksum(data, castagnoli)
	return (crc>>15 | crc<<17) + 0xa282ead8
}

// appendRecord appends the record of data, as TFRecord files have it: 8 bytes with the length of the data, a checksum of them, the data, and a checksum
// of the data; all little-endian.
func appendRecord(to, data []byte) []byte {
	start := len(to)
	to = binary.LittleEndian.AppendUint64(to, uint64(len(data)))
	to = binary.LittleEndian.AppendUint32(to, masked(to[start:]))
	to = append(to, data...)
	return binary.LittleEndian.AppendUint32(to, masked(data))
}
