package tensorboard

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// A record is 8 bytes with the length of its data, a checksum of them, the data, and a checksum of the data; all little-endian. It is the
// framing of TFRecord files.
const (
	headerSize  = 12
	trailerSize = 4
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// masked is the CRC-32C of data, turned and shifted: TFRecord does so since a checksum over data that hold their own checksum is a poor one.
func masked(data []byte) uint32 {
	crc := crc32.Checksum(data, castagnoli)
	return (crc>>15 | crc<<17) + 0xa282ead8
}

// appendRecord appends the record of data.
func appendRecord(to, data []byte) []byte {
	start := len(to)
	to = binary.LittleEndian.AppendUint64(to, uint64(len(data)))
	to = binary.LittleEndian.AppendUint32(to, masked(to[start:]))
	to = append(to, data...)
	return binary.LittleEndian.AppendUint32(to, masked(data))
}

// readRecord reads the data of the next record, of which left bytes are there at most. The error is io.EOF at the end of the last record, and
// matches io.ErrUnexpectedEOF where the file ends within one. No more is allocated than the file has.
func readRecord(r io.Reader, left int64) ([]byte, error) {
	var header [headerSize]byte
	if n, err := io.ReadFull(r, header[:]); err != nil {
		if n > 0 {
			err = fmt.Errorf("length: %w", err)
		}
		return nil, err
	}
	if found, wanted := binary.LittleEndian.Uint32(header[8:]), masked(header[:8]); found != wanted {
		return nil, fmt.Errorf("length: found checksum %08x, wanted %08x", found, wanted)
	}
	length := binary.LittleEndian.Uint64(header[:])
	if room := max(0, left-headerSize-trailerSize); length > uint64(room) {
		return nil, fmt.Errorf("data: found a length of %d bytes, wanted at most the %d that are left: %w", length, room, io.ErrUnexpectedEOF)
	}
	data := make([]byte, length+trailerSize)
	if _, err := io.ReadFull(r, data); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, fmt.Errorf("data: %w", err)
	}
	data, trailer := data[:length], data[length:]
	if found, wanted := binary.LittleEndian.Uint32(trailer), masked(data); found != wanted {
		return nil, fmt.Errorf("data: found checksum %08x, wanted %08x", found, wanted)
	}
	return data, nil
}
