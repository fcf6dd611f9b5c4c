package tensorboard

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// prefix begins the name of every event file.
const prefix = "events.out.tfevents."

// Files are the event files of a directory, in the order in which they were begun. A directory that is not there has none.
func Files(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("tensorboard: %w", err)
	}
	var names []string
	for _, e := range entries { // sorted by name
		if IsEventFile(e.Name()) {
			names = append(names, filepath.Join(dir, e.Name()))
		}
	}
	return names, nil
}

// IsEventFile tells whether a path has the name of an event file.
func IsEventFile(path string) bool { return strings.HasPrefix(filepath.Base(path), prefix) }

// writer writes an event file. Every call of Write hands whole records to the system: what has been written is there also when the process is
// killed.
type writer struct {
	file   *os.File
	failed error // of a write, after which the file may end within a record
}

// Create begins an event file in a directory, which it makes if need be, for a process that makes step first: readers forget what earlier
// files hold of that step and of those after it. Its name sorts behind those of the files that are there, as readers expect of newer ones, also
// where the clock says otherwise.
func Create(dir string, first int64) (*writer, error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, fmt.Errorf("tensorboard: %w", err)
	}
	files, err := Files(dir)
	if err != nil {
		return nil, err
	}
	seconds := time.Now().Unix()
	for _, name := range files {
		begun, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(name), prefix), ".")
		if n, err := strconv.ParseInt(begun, 10, 64); err == nil {
			seconds = max(seconds, n+1)
		}
	}
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "localhost"
	}
	name := fmt.Sprintf("%s%010d.%s.%d", prefix, seconds, host, os.Getpid())
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return nil, fmt.Errorf("tensorboard: %w", err)
	}
	w := &writer{file: f}
	if err := w.Write(Event{WallTime: now(), Version: fileVersion}, Event{WallTime: now(), Step: first, Start: true}); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return w, nil
}

func now() float64 { return float64(time.Now().UnixMicro()) / 1e6 }

// Write appends events. Nothing is written after an error, which comes again.
func (w *writer) Write(events ...Event) error {
	if w.failed != nil {
		return w.failed
	}
	var records []byte
	for _, e := range events {
		message, err := encode(e)
		if err != nil {
			return err
		}
		records = appendRecord(records, message)
	}
	if _, err := w.file.Write(records); err != nil {
		w.failed = fmt.Errorf("tensorboard: %w", err)
	}
	return w.failed
}

// Sync makes durable what has been written.
func (w *writer) Sync() error {
	if err := w.file.Sync(); err != nil {
		return fmt.Errorf("tensorboard: %w", err)
	}
	return nil
}

// Close ends the file.
func (w *writer) Close() error {
	if err := w.file.Close(); err != nil {
		return fmt.Errorf("tensorboard: %w", err)
	}
	return nil
}
