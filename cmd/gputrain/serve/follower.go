package serve

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"io/fs"
	"os"
)

// longestLine is the length in bytes beyond which a line is refused: a histogram of 64 bins has some 500.
const longestLine = 1 << 20

var lineSeed = maphash.MakeSeed()

// A follower reads the lines that are new in a file to which another process appends, and which that process may cut back or replace.
type follower struct {
	name  string // below the run directory
	lines []mark // of the lines taken
}

// mark is what is remembered of a line.
type mark struct {
	end  int64 // offset behind its newline
	hash uint64
}

func (f *follower) end() int64 {
	if len(f.lines) == 0 {
		return 0
	}
	return f.lines[len(f.lines)-1].end
}

// poll hands over the whole lines behind those taken before. Where the file does not have those any more, rewind is called first with
// the number of leading lines that it still has. The bytes of a line are valid during the call only. A file that is not there has no lines.
func (f *follower) poll(root *os.Root, rewind func(keep int), take func(line []byte, offset int64)) error {
	file, err := root.Open(f.name)
	if errors.Is(err, fs.ErrNotExist) {
		f.cut(0, rewind)
		return nil
	}
	if err != nil {
		return fmt.Errorf("serve: open: %w", err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return fmt.Errorf("serve: %q: %w", f.name, err)
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("serve: %q: found %s, wanted a file", f.name, info.Mode().Type())
	}
	if !f.unchanged(file) {
		keep, err := f.common(file)
		if err != nil {
			return fmt.Errorf("serve: read %q: %w", f.name, err)
		}
		f.cut(keep, rewind)
	}
	if _, err := file.Seek(f.end(), io.SeekStart); err != nil {
		return fmt.Errorf("serve: read %q: %w", f.name, err)
	}
	err = wholeLines(file, func(line []byte) bool {
		offset := f.end()
		f.lines = append(f.lines, mark{end: offset + int64(len(line)), hash: maphash.Bytes(lineSeed, line)})
		take(line, offset)
		return true
	})
	if err != nil {
		return fmt.Errorf("serve: read %q: %w", f.name, err)
	}
	return nil
}

// unchanged says whether the last line taken still stands where it stood. Lines carry times, so what was written anew differs.
func (f *follower) unchanged(file io.ReaderAt) bool {
	if len(f.lines) == 0 {
		return true
	}
	begin := int64(0)
	if n := len(f.lines); n > 1 {
		begin = f.lines[n-2].end
	}
	line := make([]byte, f.end()-begin)
	_, err := file.ReadAt(line, begin)
	return err == nil && maphash.Bytes(lineSeed, line) == f.lines[len(f.lines)-1].hash
}

// common is the number of leading lines that are those taken.
func (f *follower) common(file io.Reader) (int, error) {
	keep := 0
	err := wholeLines(file, func(line []byte) bool {
		if keep == len(f.lines) || maphash.Bytes(lineSeed, line) != f.lines[keep].hash {
			return false
		}
		keep++
		return true
	})
	return keep, err
}

func (f *follower) cut(keep int, rewind func(keep int)) {
	if keep < len(f.lines) {
		f.lines = f.lines[:keep]
		rewind(keep)
	}
}

// wholeLines hands over the lines that end in a newline, with it, until use says no.
func wholeLines(r io.Reader, use func(line []byte) bool) error {
	in := bufio.NewReaderSize(r, 64<<10)
	var long []byte
	for {
		part, err := in.ReadSlice('\n')
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, bufio.ErrBufferFull):
			if long = append(long, part...); len(long) > longestLine {
				return fmt.Errorf("found a line of more than %d bytes, wanted lines of JSON", longestLine)
			}
			continue
		case err != nil:
			return err
		}
		if len(long) > 0 {
			part = append(long, part...)
			long = nil
		}
		if !use(part) {
			return nil
		}
	}
}

// lineAt reads a line that a follower has handed over before.
func lineAt(root *os.Root, name string, from, to int64) ([]byte, error) {
	file, err := root.Open(name)
	if err != nil {
		return nil, fmt.Errorf("serve: open: %w", err)
	}
	defer file.Close()
	line := make([]byte, to-from)
	if _, err := file.ReadAt(line, from); err != nil {
		return nil, fmt.Errorf("serve: read %q: %w", name, err)
	}
	return bytes.TrimSpace(line), nil
}
