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
	"gputrain/run/train"
)

// files reads what a run writes down, as far as it has come, and tells a board.
type files struct {
	board            *Board
	dir              string
	metrics, samples follow.Lines
}

// newFiles follows the run of a run directory, which need not be there yet.
func newFiles(dir string, board *Board) *files {
	return &files{board: board, dir: dir, metrics: follow.Lines{Name: "metrics.jsonl"}, samples: follow.Lines{Name: "samples.jsonl"}}
}

// read reads what is new. A run that went back to an earlier step is read again from its beginning.
func (f *files) read() error {
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
		err := l.Poll(root, func() { again = true }, func(line []byte, _ int64) {
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
		f.board.restart()
		*f = *newFiles(f.dir, f.board)
		return f.read()
	}
	if sample != nil {
		f.board.sampled(*sample)
	}
	return nil
}

func (f *files) figures(line []byte) error {
	if bytes.Contains(line, []byte(`"eval_loss"`)) {
		var m train.EvalMetrics
		if err := json.Unmarshal(line, &m); err != nil {
			return err
		}
		f.board.evaluated(m)
		return nil
	}
	var m train.Metrics
	if err := json.Unmarshal(line, &m); err != nil {
		return err
	}
	f.board.add(m)
	return nil
}
