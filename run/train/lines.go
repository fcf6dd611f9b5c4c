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
	"strconv"

	"gputrain/internal/jsonline"
	"gputrain/internal/stranger"
	"gputrain/state/checkpoint"
)

// lineLog is a file of JSON objects, one a line, each with a "step" that never goes down: metrics.jsonl, samples.jsonl.
type lineLog struct {
	file   *os.File
	dir    *runDir // nil: of no run
	extent         // of what was in it when it was opened
}

// openLines opens a line log to resume after a step: later lines, and a line that a kill has cut short, are cut off, so that the finished file is
// equal to the file of a run that was never interrupted. What is cut off goes into a file beside it.
func openLines(dir *runDir, path string, step int64) (_ *lineLog, err error) {
	if err := dir.check(); err != nil {
		return nil, err
	}
	l := &lineLog{dir: dir, extent: extent{last: -1}}
	if l.file, err = stranger.OpenFile(path, os.O_RDWR|os.O_CREATE); err != nil {
		return nil, fmt.Errorf("train: open log: %w", err)
	}
	if err = l.upTo(l.file, step); err == nil {
		err = cutOff(l.file, l.keep)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("train: open log %q: %w", path, err), l.close())
	}
	return l, nil
}

// cutOff ends a file at keep, once what is behind it is in the file of what was cut off.
func cutOff(f *os.File, keep int64) error {
	size, err := f.Seek(0, io.SeekEnd)
	if err == nil && size > keep {
		err = appendTo(f.Name()+cutSuffix, io.NewSectionReader(f, keep, size-keep))
	}
	if err == nil {
		err = f.Truncate(keep)
	}
	if err == nil {
		_, err = f.Seek(keep, io.SeekStart)
	}
	return err
}

// appendTo appends text to a file, as a line of its own.
func appendTo(path string, text io.Reader) error {
	f, err := stranger.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, text)
	if err == nil {
		_, err = f.WriteString("\n")
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// extent is how much of a log belongs to a step.
type extent struct {
	keep       int64  // bytes
	last       int64  // the step of its last line, or -1
	lastOfStep int64  // and of the last that is no evaluation's, or 0
	eval       []byte // the last line of an evaluation
	damaged    int    // lines among them that cannot be read, and are left as they are
}

// upTo goes to the last line of a step up to step that no line of a later one stands before. Lines that cannot be read are passed over; those behind
// the last one that can belong to nothing.
func (e *extent) upTo(r io.Reader, step int64) error {
	in := bufio.NewReaderSize(r, 1<<16)
	unread, damaged := int64(0), 0
	for {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		of, ok := stepOf(line)
		if !ok {
			unread, damaged = unread+int64(len(line)), damaged+1
			continue
		}
		if of > step {
			return nil
		}
		e.keep, unread = e.keep+unread+int64(len(line)), 0
		e.last, e.damaged = of, damaged
		if isEval(line) {
			e.eval = line
		} else {
			e.lastOfStep = of
		}
	}
}

// stepOf is the step of a line.
func stepOf(line []byte) (step int64, ok bool) {
	valid := jsonline.Members(line, func(key, value []byte) {
		if string(key) == "step" {
			var err error
			step, err = strconv.ParseInt(string(value), 10, 64)
			ok = err == nil
		}
	})
	return step, ok && valid
}

// write appends one line.
func (l *lineLog) write(v any) error {
	if l == nil { // of a rank that writes nothing
		return nil
	}
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("train: log: %w", err)
	}
	if err := l.dir.check(); err != nil {
		return err
	}
	data = append(data, '\n')
	if _, err = l.file.Write(data); err != nil {
		return logError{err}
	}
	return nil
}

// sync makes the lines durable. It comes before the checkpoint that they belong to.
func (l *lineLog) sync() error {
	if l == nil { // of a run that has none
		return nil
	}
	if err := l.file.Sync(); err != nil {
		return logError{err}
	}
	return nil
}

// logError says that the disk does not take a log. Checkpoints belong to the lines before them: the error is one of writing checkpoints,
// whichever of the two a full disk refuses first.
type logError struct{ err error }

func (e logError) Error() string   { return "train: log: " + e.err.Error() }
func (e logError) Unwrap() []error { return []error{checkpoint.Err, e.err} }

func (l *lineLog) close() error { return l.file.Close() }

// readMetrics reads metrics.jsonl. A file that is not there has no lines; damaged are the numbers of those that cannot be read.
func readMetrics(path string) (steps []Metrics, evals []EvalMetrics, damaged []int, err error) {
	size := int64(0)
	if info, err := os.Stat(path); err == nil {
		size = info.Size()
	}
	damaged, err = readLines(path, func(line []byte) error {
		if isEval(line) {
			return appendLine(&evals, line)
		}
		var m Metrics
		if err := m.read(line); err != nil {
			return err
		}
		if steps == nil { // lines are about as long as the first; to grow step by step would take twice the memory
			steps = make([]Metrics, 0, min(size/int64(len(line)), 1<<24)+1)
		}
		steps = append(steps, m)
		return nil
	})
	return steps, evals, damaged, err
}

func isEval(line []byte) bool { return bytes.Contains(line, []byte(`"eval_loss"`)) }

// readLines gives the lines of a log to take, and counts those that it refuses. A file that is not there has none.
func readLines(path string, take func(line []byte) error) (damaged []int, err error) {
	f, err := stranger.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("train: log: %w", err)
	}
	defer f.Close()
	number := 0
	err = eachLine(f, func(line []byte) error {
		number++
		if len(bytes.TrimSpace(line)) > 0 && take(line) != nil {
			damaged = append(damaged, number)
		}
		return nil
	})
	return damaged, err
}

// eachLine gives the lines of a log, the last also where it has no end.
func eachLine(log io.Reader, take func(line []byte) error) error {
	in := bufio.NewReaderSize(log, 1<<16)
	for {
		line, err := in.ReadBytes('\n')
		if len(line) > 0 {
			if err := take(line); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("train: log: %w", err)
		}
	}
}

// appendLine appends what a line says.
func appendLine[T any](to *[]T, line []byte) error {
	var v T
	err := json.Unmarshal(line, &v)
	if err == nil {
		*to = append(*to, v)
	}
	return err
}

// damagedText tells of lines that cannot be read.
func damagedText(name string, damaged []int) string {
	if len(damaged) == 1 {
		return fmt.Sprintf("%s: line %d cannot be read and is passed over", name, damaged[0])
	}
	return fmt.Sprintf("%s: %d lines cannot be read and are passed over, the first is line %d", name, len(damaged), damaged[0])
}
