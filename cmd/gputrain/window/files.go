package window

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"gputrain/train"
)

// Files reads what a run writes down, as far as it has come, and tells a Board.
type Files struct {
	board            *Board
	metrics, samples *tail
}

// NewFiles follows the run of a run directory, which need not be there yet.
func NewFiles(dir string, board *Board) *Files {
	return &Files{
		board:   board,
		metrics: &tail{path: filepath.Join(dir, "metrics.jsonl")},
		samples: &tail{path: filepath.Join(dir, "samples.jsonl")},
	}
}

// Read reads what is new. A run that went back to an earlier step is read again from its beginning.
func (f *Files) Read() error {
	lines, again, err := f.metrics.read()
	if err != nil {
		return err
	}
	if again {
		f.board.Restart()
		f.samples.forget()
	}
	for _, line := range lines {
		if err := f.figures(line); err != nil {
			return fmt.Errorf("window: %s: %w", f.metrics.path, err)
		}
	}
	if lines, _, err = f.samples.read(); err != nil {
		return err
	}
	if len(lines) > 0 {
		var s train.Sample
		if err := json.Unmarshal(lines[len(lines)-1], &s); err != nil {
			return fmt.Errorf("window: %s: %w", f.samples.path, err)
		}
		f.board.Sampled(s)
	}
	return nil
}

func (f *Files) figures(line []byte) error {
	if bytes.Contains(line, []byte(`"eval_loss"`)) {
		var m train.EvalMetrics
		if err := json.Unmarshal(line, &m); err != nil {
			return err
		}
		f.board.Evaluated(m)
		return nil
	}
	var m train.Metrics
	if err := json.Unmarshal(line, &m); err != nil {
		return err
	}
	f.board.Add(m)
	return nil
}

// tail reads a file of lines that grows, and is sometimes cut back.
type tail struct {
	path   string
	offset int64  // bytes read
	last   []byte // the line that ends there
}

func (t *tail) forget() { t.offset, t.last = 0, nil }

// read gives the whole lines that are new; again says that the file is another one, or was cut back and has grown since: these are all of
// its lines.
func (t *tail) read() (lines [][]byte, again bool, err error) {
	file, err := os.Open(t.path)
	if errors.Is(err, fs.ErrNotExist) {
		again = t.offset > 0
		t.forget()
		return nil, again, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("window: %w", err)
	}
	defer file.Close()
	if t.offset > 0 && !t.same(file) {
		again = true
		t.forget()
	}
	text, err := io.ReadAll(io.NewSectionReader(file, t.offset, 1<<62))
	if err != nil {
		return nil, again, fmt.Errorf("window: %w", err)
	}
	text = text[:bytes.LastIndexByte(text, '\n')+1]
	for line := range bytes.Lines(text) {
		t.last = line
		if line = bytes.TrimSpace(line); len(line) > 0 {
			lines = append(lines, line)
		}
	}
	t.offset += int64(len(text))
	return lines, again, nil
}

// same says whether the line read last is still where it was.
func (t *tail) same(file io.ReaderAt) bool {
	found := make([]byte, len(t.last))
	n, _ := file.ReadAt(found, t.offset-int64(len(t.last)))
	return n == len(found) && bytes.Equal(found, t.last)
}
