package texts

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"
)

// diskFile is a file that is read where it lies. The fingerprint was made of what it held when it was opened first, so a read fails once it has been
// written to since.
type diskFile struct {
	*os.File
	opened fs.FileInfo
}

// openDisk opens a file, which was found before as was says; nil: it is opened for the first time.
func openDisk(path string, was fs.FileInfo) (diskFile, error) {
	file, err := os.Open(path)
	if err != nil {
		return diskFile{}, fmt.Errorf("data: open %q: %w", path, cause(err))
	}
	f := diskFile{file, was}
	if was == nil {
		f.opened, err = file.Stat()
	} else {
		err = f.unchanged()
	}
	if err != nil {
		return diskFile{}, errors.Join(fmt.Errorf("data: open %q: %w", path, err), file.Close())
	}
	return f, nil
}

// ReadAt looks after the read, so that what was written meanwhile is seen too.
func (f diskFile) ReadAt(dst []byte, offset int64) (int, error) {
	n, err := f.File.ReadAt(dst, offset)
	if changed := f.unchanged(); changed != nil {
		return n, changed
	}
	return n, err
}

// unchanged is an error where the file is not what it was.
func (f diskFile) unchanged() error {
	now, err := f.Stat()
	switch {
	case err != nil:
		return err
	case now.Size() != f.opened.Size():
		return fmt.Errorf("the file changed while it was in use: %d bytes, was %d when it was opened", now.Size(), f.opened.Size())
	case !now.ModTime().Equal(f.opened.ModTime()):
		return fmt.Errorf("the file changed while it was in use: written at %s, was opened as of %s", now.ModTime().Format(time.RFC3339Nano), f.opened.ModTime().Format(time.RFC3339Nano))
	}
	return nil
}

// mostOpen is how many files of a corpus are open at once. As many that are renamed or removed are read on; of more, one may have to be opened again.
const mostOpen = 512

// openFiles are the files of a corpus that are open: at most mostOpen, however many it has.
type openFiles struct {
	mu     sync.Mutex
	open   map[string]diskFile
	closed bool
}

// openFile is a file of a corpus. Reading opens it where it is not open.
type openFile struct {
	all  *openFiles
	path string
	info fs.FileInfo // as it was hashed
}

// ReadAt is that of an open file. One that another goroutine has closed meanwhile, to open others, is opened again.
func (f openFile) ReadAt(dst []byte, offset int64) (int, error) {
	for {
		open, err := f.all.take(f.path, f.info)
		if err != nil {
			return 0, err
		}
		n, err := open.ReadAt(dst, offset)
		if !errors.Is(err, os.ErrClosed) {
			return n, err
		}
	}
}

// take opens a file unless it is open.
func (o *openFiles) take(path string, info fs.FileInfo) (diskFile, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return diskFile{}, fmt.Errorf("data: read %q: the corpus is closed", path)
	}
	if f, there := o.open[path]; there {
		return f, nil
	}
	f, err := openDisk(path, info)
	if err != nil {
		return f, err
	}
	for other, old := range o.open { // any of them
		if len(o.open) == mostOpen {
			_ = old.Close() // it was only read
			delete(o.open, other)
		}
	}
	o.open[path] = f
	return f, nil
}

// Close closes all.
func (o *openFiles) Close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	var errs []error
	for _, f := range o.open {
		errs = append(errs, f.Close())
	}
	o.open, o.closed = nil, true
	return errors.Join(errs...)
}
