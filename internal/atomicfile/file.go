package atomicfile

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"gputrain/internal/system"
)

// File is a file that is being written.
type File struct {
	*os.File
	path string
}

// Create begins a file. What dead writers have left beside its place is removed.
func Create(path string, mode fs.FileMode) (*File, error) {
	clean(filepath.Dir(path), nil)
	f, err := hold(path, func(name string) (*os.File, error) { return os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, mode) })
	if err != nil {
		return nil, err
	}
	return &File{f, path}, nil
}

// Replace puts the file in its place, also where another one is, and closes it. After an error it is removed.
func (f *File) Replace() error { return f.settle(system.Rename) }

// settle syncs the file, gives it its last name, and closes it.
func (f *File) settle(place func(from, to string) error) error {
	err := f.Sync()
	if !system.RenamesOpen {
		err = errors.Join(err, f.Close())
	}
	if err == nil {
		err = place(f.Name(), f.path)
	}
	if system.RenamesOpen {
		err = errors.Join(err, f.Close())
	}
	_ = os.Remove(f.Name()) // where it has that name still
	return err
}

// Discard closes and removes the file.
func (f *File) Discard() {
	_ = f.Close()
	_ = os.Remove(f.Name()) // why it is discarded says more
}

// Replace puts a file of this text in its place.
func Replace(path string, text []byte) error {
	f, err := Create(path, 0o666)
	if err != nil {
		return err
	}
	if _, err := f.Write(text); err != nil {
		f.Discard()
		return err
	}
	return f.Replace()
}

// New is a file to be made where nothing is.
type New struct {
	Path  string
	Write func(io.Writer) error
	Bytes int64 // of it, once it is made
}

// Make makes files: all of them or none. What is at the place of one is left there, and is an error that matches fs.ErrExist.
func Make(files ...*New) (err error) {
	begun := make([]*File, 0, len(files))
	for _, n := range files {
		f, err := n.begin()
		if err != nil {
			return err
		}
		defer f.Discard()
		begun = append(begun, f)
	}
	for i, f := range begun {
		if err := f.settle(func(from, to string) error { return placeNew(from, to, os.Link) }); err != nil {
			for _, placed := range files[:i] {
				err = errors.Join(err, os.Remove(placed.Path))
			}
			return err
		}
	}
	return system.SyncDir(filepath.Dir(files[0].Path))
}

// begin writes the file beside its place.
func (n *New) begin() (*File, error) {
	f, err := Create(n.Path, 0o666)
	if err != nil {
		return nil, err
	}
	w := bufio.NewWriterSize(f, 1<<20)
	if err = n.Write(w); err == nil {
		err = w.Flush()
	}
	if err == nil {
		n.Bytes, err = f.Seek(0, io.SeekCurrent)
	}
	if err != nil {
		f.Discard()
		return nil, err
	}
	return f, nil
}

// placeNew gives a file a name that nothing has. Where link, which does so in one go, is not to be had (FAT, some network file systems), the name is taken
// by an empty file of our own, which is then replaced: who is killed in between leaves that.
func placeNew(from, to string, link func(from, to string) error) error {
	linked := link(from, to)
	if linked == nil {
		return nil
	}
	if !errors.Is(linked, fs.ErrExist) {
		taken, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		if err == nil {
			if err = errors.Join(taken.Close(), system.Rename(from, to)); err != nil {
				return errors.Join(linked, err, os.Remove(to))
			}
			return nil
		}
		linked = err
	}
	if errors.Is(linked, fs.ErrExist) {
		return fmt.Errorf("%s: found something there, wanted a new file: %w", to, fs.ErrExist)
	}
	return linked
}
