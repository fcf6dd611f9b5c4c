// Package follow reads what a run writes while it is under way, and chooses what a picture of it needs. Nothing is written and nothing is
// locked: the process that writes does not know of it.
package follow

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	"gputrain/internal/stranger"
	"gputrain/train/table"
)

// mostLine is the length in bytes beyond which what is no line is not read any further.
const mostLine = 64 << 20

// Lines reads the lines that are new in a file to which another process appends, and which that process may cut back or replace.
type Lines struct {
	Name  string       // below the directory of Poll
	taken []table.Mark // of one line each, but for those that are long past
	past  int          // how many of taken have more
}

// together is how many lines that are long past share a mark, so that a million take no memory.
const together = 4096

// Skip takes lines as handed over before that are known by their marks.
func (l *Lines) Skip(marks []table.Mark) { l.taken, l.past = marks, len(marks) }

func (l *Lines) end() int64 {
	if len(l.taken) == 0 {
		return 0
	}
	return l.taken[len(l.taken)-1].End
}

// add takes a line.
func (l *Lines) add(m table.Mark) {
	l.taken = append(l.taken, m)
	if len(l.taken)-l.past == 2*together {
		joined := l.taken[l.past]
		for _, m := range l.taken[l.past+1 : l.past+together] {
			joined = joined.Join(m)
		}
		l.taken = slices.Replace(l.taken, l.past, l.past+together, joined)
		l.past++
	}
}

// Poll hands over the whole lines behind those taken before. Where the file does not have those any more, rewind is called first with
// the number of leading lines that it still has. The bytes of a line are valid during the call only; of one that is longer than any that a run writes
// they are the beginning. A file that is not there has no lines.
func (l *Lines) Poll(root *os.Root, rewind func(keep int), take func(line []byte, offset, length int64)) error {
	file, err := stranger.OpenIn(root, l.Name)
	if errors.Is(err, fs.ErrNotExist) {
		l.cut(0, rewind)
		return nil
	}
	if err != nil {
		return fmt.Errorf("follow: open: %w", err)
	}
	defer file.Close()
	if !l.unchanged(file) {
		keep, err := l.common(file)
		if err != nil {
			return fmt.Errorf("follow: read %q: %w", l.Name, err)
		}
		l.cut(keep, rewind)
	}
	if _, err := file.Seek(l.end(), io.SeekStart); err != nil {
		return fmt.Errorf("follow: read %q: %w", l.Name, err)
	}
	err = wholeLines(file, func(line []byte, length int64) bool {
		offset := l.end()
		l.add(table.MarkOf(line, offset, length))
		take(line, offset, length)
		return true
	})
	if err != nil {
		return fmt.Errorf("follow: read %q: %w", l.Name, err)
	}
	return nil
}

// unchanged says whether the last line taken still stands where it stood.
func (l *Lines) unchanged(file io.ReaderAt) bool {
	return len(l.taken) == 0 || l.taken[len(l.taken)-1].In(file)
}

// common is the number of leading marks that the file still has.
func (l *Lines) common(file *os.File) (int, error) {
	keep, at := 0, int64(0)
	for keep < l.past && l.taken[keep].In(file) {
		at = l.taken[keep].End
		keep++
	}
	if keep < l.past {
		return keep, nil
	}
	if _, err := file.Seek(at, io.SeekStart); err != nil {
		return 0, err
	}
	err := wholeLines(file, func(line []byte, length int64) bool {
		if keep == len(l.taken) || table.MarkOf(line, at, length) != l.taken[keep] {
			return false
		}
		at += length
		keep++
		return true
	})
	return keep, err
}

// cut forgets all but the first marks.
func (l *Lines) cut(keep int, rewind func(keep int)) {
	if keep < len(l.taken) {
		l.taken, l.past = l.taken[:keep], min(keep, l.past)
		lines := 0
		for _, m := range l.taken {
			lines += m.Lines
		}
		rewind(lines)
	}
}

// wholeLines hands over the lines that end in a newline, with it and their length, until use says no. Of a line longer than table.LongestLine that many
// bytes are handed over.
func wholeLines(r io.Reader, use func(line []byte, length int64) bool) error {
	in := bufio.NewReaderSize(r, 64<<10)
	var long []byte
	length := int64(0)
	for {
		part, err := in.ReadSlice('\n')
		length += int64(len(part))
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil && !errors.Is(err, bufio.ErrBufferFull):
			return err
		case length > mostLine:
			return fmt.Errorf("found a line of more than %d bytes, wanted lines of JSON", mostLine)
		case err != nil || len(long) > 0:
			long = append(long, part[:min(len(part), table.LongestLine-len(long))]...)
			part = long
		}
		if err != nil {
			continue
		}
		if !use(part, length) {
			return nil
		}
		long, length = long[:0], 0
	}
}

// At reads a line that Poll has handed over before.
func At(root *os.Root, name string, from, to int64) ([]byte, error) {
	file, err := stranger.OpenIn(root, name)
	if err != nil {
		return nil, fmt.Errorf("follow: open: %w", err)
	}
	defer file.Close()
	line := make([]byte, min(to-from, table.LongestLine))
	if _, err := file.ReadAt(line, from); err != nil {
		return nil, fmt.Errorf("follow: read %q: %w", name, err)
	}
	return bytes.TrimSpace(line), nil
}
