package train

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"gputrain/state"
)

// lineLog is a file of JSON objects, one a line, each with a "step" that never goes down: metrics.jsonl, samples.jsonl.
type lineLog struct {
	file *os.File
}

// openLines opens a line log to go on after a step: later lines, and a line cut short by a kill, are taken away, so that the finished
// file is that of a run that was never interrupted. It returns the highest step left, or -1.
func openLines(path string, step int64) (*lineLog, int64, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return nil, 0, fmt.Errorf("train: open log: %w", err)
	}
	keep, last, err := linesUpTo(f, step)
	if err == nil {
		err = f.Truncate(keep)
	}
	if err == nil {
		_, err = f.Seek(keep, io.SeekStart)
	}
	if err != nil {
		return nil, 0, errors.Join(fmt.Errorf("train: open log %q: %w", path, err), f.Close())
	}
	return &lineLog{file: f}, last, nil
}

// linesUpTo is the length in bytes of the leading whole lines whose step is at most step, and the last of these steps.
func linesUpTo(r io.Reader, step int64) (keep, last int64, err error) {
	in := bufio.NewReader(r)
	last = -1
	for {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return keep, last, nil
		}
		if err != nil {
			return 0, 0, err
		}
		var at struct {
			Step *int64 `json:"step"`
		}
		if json.Unmarshal(line, &at) != nil || at.Step == nil || *at.Step > step {
			return keep, last, nil
		}
		keep, last = keep+int64(len(line)), *at.Step
	}
}

// write appends one line.
func (l *lineLog) write(v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("train: log: %w", err)
	}
	if _, err := l.file.Write(append(data, '\n')); err != nil {
		return logError{err}
	}
	return nil
}

// sync makes the lines durable. It comes before the checkpoint that they belong to.
func (l *lineLog) sync() error {
	if err := l.file.Sync(); err != nil {
		return logError{err}
	}
	return nil
}

// logError says that the disk does not take a log. Checkpoints belong to the lines before them: the error is one of writing checkpoints,
// whichever of the two a full disk refuses first.
type logError struct{ err error }

func (e logError) Error() string   { return "train: log: " + e.err.Error() }
func (e logError) Unwrap() []error { return []error{state.ErrCheckpoint, e.err} }

func (l *lineLog) close() error { return l.file.Close() }

// readMetrics reads metrics.jsonl. A file that is not there has no lines.
func readMetrics(path string) (steps []Metrics, evals []EvalMetrics, err error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("train: metrics: %w", err)
	}
	for number, line := range bytes.Split(data, []byte("\n")) {
		if len(line) == 0 {
			continue
		}
		if bytes.Contains(line, []byte(`"eval_loss"`)) {
			var e EvalMetrics
			err = json.Unmarshal(line, &e)
			evals = append(evals, e)
		} else {
			var m Metrics
			err = json.Unmarshal(line, &m)
			steps = append(steps, m)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("train: metrics %q: line %d: %w", path, number+1, err)
		}
	}
	return steps, evals, nil
}
