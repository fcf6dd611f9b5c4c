package window

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"gputrain/cmd/gputrain/follow"
	"gputrain/train"
)

// Files reads what a run writes down, as far as it has come, and tells a Board.
type Files struct {
	board            *Board
	dir              string
	metrics, samples follow.Lines
}

// NewFiles follows the run of a run directory, which need not be there yet.
func NewFiles(dir string, board *Board) *Files {
	return &Files{board: board, dir: dir, metrics: follow.Lines{Name: "metrics.jsonl"}, samples: follow.Lines{Name: "samples.jsonl"}}
}

// Read reads what is new. A run that went back to an earlier step is read again from its beginning.
func (f *Files) Read() error {
	root, err := os.OpenRoot(f.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("window: %w", err)
	}
	defer root.Close()
	again := false
	poll := func(l *follow.Lines, use func(line []byte) error) error {
		var wrong error
		err := l.Poll(root, func(int) { again = true }, func(line []byte, _ int64) {
			if !again && wrong == nil {
				wrong = use(line)
			}
		})
		if err = errors.Join(err, wrong); err != nil {
			return fmt.Errorf("window: %s: %w", filepath.Join(f.dir, l.Name), err)
		}
		return nil
	}
	if err := poll(&f.metrics, f.figures); err != nil {
		return err
	}
	var sample *train.Sample
	err = poll(&f.samples, func(line []byte) error {
		sample = &train.Sample{}
		return json.Unmarshal(line, sample)
	})
	if err != nil {
		return err
	}
	if again {
		f.board.Restart()
		*f = *NewFiles(f.dir, f.board)
		return f.Read()
	}
	if sample != nil {
		f.board.Sampled(*sample)
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
