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

	"gputrain/internal/stranger"
)

// mostLine is the length in bytes beyond which a line is not read: a run writes none as long, and memory is bounded whatever the file is.
const mostLine = 64 << 20

// Lines reads the lines that are new in a file to which another process appends, and which that process may cut back or replace.
type Lines struct {
	Name string // below the directory of Poll
	end  int64  // of the lines taken
	last []byte // the last of them, by which a file that was cut back or replaced is known: lines carry times
}

// Poll hands over the whole lines behind those taken before. Where the last of these does not stand in the file where it stood, rewind is called, and
// all lines are handed over. The bytes of a line are valid during the call only. A file that is not there has no lines.
func (l *Lines) Poll(root *os.Root, rewind func(), take func(line []byte, offset int64)) error {
	file, err := stranger.OpenIn(root, l.Name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("follow: open: %w", err)
	}
	if err == nil {
		defer file.Close()
	}
	if l.end > 0 && (err != nil || !l.stands(file)) {
		l.end, l.last = 0, l.last[:0]
		rewind()
	}
	if err != nil {
		return nil
	}
	in := bufio.NewScanner(io.NewSectionReader(file, l.end, 1<<62))
	in.Buffer(make([]byte, 64<<10), mostLine)
	in.Split(wholeLine)
	for in.Scan() {
		take(in.Bytes(), l.end)
		l.end, l.last = l.end+int64(len(in.Bytes())), append(l.last[:0], in.Bytes()...)
	}
	err = in.Err()
	if errors.Is(err, bufio.ErrTooLong) {
		err = fmt.Errorf("found a line of more than %d bytes, wanted lines of JSON", mostLine)
	}
	if err != nil {
		return fmt.Errorf("follow: read %q: %w", l.Name, err)
	}
	return nil
}

// stands tells whether the last line taken stands where it stood.
func (l *Lines) stands(file io.ReaderAt) bool {
	line := make([]byte, len(l.last))
	_, err := file.ReadAt(line, l.end-int64(len(line)))
	return err == nil && bytes.Equal(line, l.last)
}

// wholeLine splits off a line with its newline.
func wholeLine(text []byte, _ bool) (int, []byte, error) {
	n := bytes.IndexByte(text, '\n') + 1
	if n == 0 {
		return 0, nil, nil
	}
	return n, text[:n], nil
}

// At reads a line that Poll has handed over before.
func At(root *os.Root, name string, from, to int64) ([]byte, error) {
	file, err := stranger.OpenIn(root, name)
	if err != nil {
		return nil, fmt.Errorf("follow: open: %w", err)
	}
	defer file.Close()
	line := make([]byte, to-from)
	if _, err := file.ReadAt(line, from); err != nil {
		return nil, fmt.Errorf("follow: read %q: %w", name, err)
	}
	return bytes.TrimSpace(line), nil
}
