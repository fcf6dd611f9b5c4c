package main

import (
	"bufio"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"gputrain/internal/system"
)

// newFile is a file that is made where nothing is yet.
type newFile struct {
	to    string
	write func(io.Writer) error

	temporary string      // beside its place, until it is whole
	whole     fs.FileInfo // of what was written
}

// makeNew makes files in one directory, and that: all of them or none. A file that is there already is refused, and stays.
func makeNew(files ...*newFile) error {
	for _, f := range files {
		switch _, err := os.Lstat(f.to); {
		case err == nil:
			return usageError{fmt.Errorf("%s: found something there, wanted a new file: %w", f.to, fs.ErrExist)}
		case !errors.Is(err, fs.ErrNotExist):
			return usageError{err}
		}
	}
	dir := filepath.Dir(files[0].to)
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	for _, f := range files {
		f.temporary = filepath.Join(dir, "."+filepath.Base(f.to)+"-"+rand.Text())
		defer os.Remove(f.temporary)
		if err := f.fill(); err != nil {
			return err
		}
	}
	for i, f := range files {
		if err := placeNew(f.temporary, f.to, os.Link); err != nil {
			for _, placed := range files[:i] {
				err = errors.Join(err, placed.takeBack())
			}
			return err
		}
	}
	return system.SyncDir(dir)
}

// fill writes the file beside its place.
func (f *newFile) fill() error {
	out, err := os.OpenFile(f.temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(out, 1<<20)
	err = f.write(w)
	if err == nil {
		err = w.Flush()
	}
	if err == nil {
		err = out.Sync()
	}
	var failed error
	f.whole, failed = out.Stat()
	return errors.Join(err, failed, out.Close())
}

// takeBack removes the file from its place, unless another is there by now.
func (f *newFile) takeBack() error {
	if there, err := os.Lstat(f.to); err != nil || !os.SameFile(there, f.whole) {
		return nil
	}
	return os.Remove(f.to)
}
