package texts

import (
	"encoding/binary"
	"fmt"
	"io"
	"os"

	"gputrain/internal/atomicfile"
	"gputrain/run/data"
)

// numbersAtOnce is how many numbers are in memory.
const numbersAtOnce = 8 << 10

// numbers are uint64 in a file, one after the other.
type numbers struct {
	name  string // of the file
	from  io.ReaderAt
	at    int64 // of the first, bytes
	count int64
}

// read fills dst from number i on.
func (n numbers) read(dst []uint64, i int64) error {
	raw := make([]byte, 8*len(dst))
	if err := data.ReadBytes(n.from, raw, n.at+8*i); err != nil {
		return fmt.Errorf("read %q: %w", n.name, err)
	}
	for j := range dst {
		dst[j] = binary.LittleEndian.Uint64(raw[8*j:])
	}
	return nil
}

// each takes one after the other, until take says that it has enough.
func (n numbers) each(r *reading, take func(i int64, number uint64) (more bool, err error)) error {
	some := make([]uint64, min(n.count, numbersAtOnce))
	for i := int64(0); i < n.count; i += int64(len(some)) {
		some = some[:min(int64(len(some)), n.count-i)]
		if _, err := r.do(n.name, func() (int, error) { return 8 * len(some), n.read(some, i) }); err != nil {
			return err
		}
		for j, number := range some {
			if more, err := take(i+int64(j), number); err != nil || !more {
				return err
			}
		}
	}
	return nil
}

// spill holds numbers until they are copied: a few in memory, the others in a file.
type spill struct {
	create func() (*atomicfile.File, error)
	memory []byte
	file   *atomicfile.File
	count  int64
	err    error // of the disk
}

func (s *spill) add(number uint64) error {
	s.memory = binary.LittleEndian.AppendUint64(s.memory, number)
	if s.count++; len(s.memory) < 8*numbersAtOnce {
		return nil
	}
	if s.file == nil {
		if s.file, s.err = s.create(); s.err != nil {
			return s.err
		}
		_ = os.Remove(s.file.Name()) // Windows keeps a name until the file is closed
	}
	_, s.err = s.file.Write(s.memory)
	s.memory = s.memory[:0]
	return s.err
}

// copyTo writes all of them.
func (s *spill) copyTo(w io.Writer) error {
	if s.file != nil {
		if _, s.err = s.file.Seek(0, io.SeekStart); s.err != nil {
			return s.err
		}
		if _, err := io.Copy(w, s.file); err != nil {
			return err
		}
	}
	_, err := w.Write(s.memory)
	return err
}

// Close removes the file.
func (s *spill) Close() {
	if s.file != nil {
		s.file.Discard()
	}
}
