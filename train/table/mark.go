package table

import (
	"hash/crc32"
	"io"
)

// LongestLine is the length in bytes of which no more of a line is looked at: a histogram of 64 bins has some 500.
const LongestLine = 1 << 20

// Mark is what is remembered of lines that lie together in a log: where they end, and the last of them, by which a log that was cut back or replaced
// is known. Lines carry times, so what was written anew differs.
type Mark struct {
	Lines  int    `json:"lines"`
	End    int64  `json:"end"`    // offset behind the last newline
	Length int64  `json:"length"` // of the last line, with its newline
	Check  uint32 `json:"check"`  // of its first bytes
}

// MarkOf is the mark of one line, of whose bytes the first are enough, that begins at an offset.
func MarkOf(line []byte, begin, length int64) Mark {
	return Mark{Lines: 1, End: begin + length, Length: length, Check: checksum(line)}
}

// Join is the mark of the lines of both.
func (m Mark) Join(next Mark) Mark {
	next.Lines += m.Lines
	return next
}

// In says whether the last line still stands where it stood.
func (m Mark) In(log io.ReaderAt) bool {
	line := make([]byte, min(m.Length, LongestLine))
	_, err := log.ReadAt(line, m.End-m.Length)
	return err == nil && checksum(line) == m.Check
}

func checksum(line []byte) uint32 {
	return crc32.Checksum(line[:min(len(line), LongestLine)], castagnoli)
}
