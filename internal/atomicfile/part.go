package atomicfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"gputrain/internal/system"
)

// Part is a new file that may take several processes to write, one after the other. Until it is whole it lies beside its place, whatever ends them.
type Part struct {
	*os.File
	place string
}

// OpenPart opens the part of a file, or begins one. of names what it is of, in a word: a part of another is another. One process writes it at a time.
func OpenPart(place, of string) (*Part, error) {
	if _, err := os.Lstat(place); !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: found something there, wanted a new file: %w", place, errors.Join(fs.ErrExist, err))
	}
	f, err := os.OpenFile(place+"."+of+".part", os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return nil, err
	}
	if errors.Is(system.Lock(f, true), system.ErrLocked) || !there(f) {
		return nil, errors.Join(fmt.Errorf("%s: another process is writing it, or has just done so", f.Name()), f.Close())
	}
	return &Part{f, place}, nil
}

// Cut leaves only so many bytes, and writes on behind them.
func (p *Part) Cut(size int64) error {
	if err := p.Truncate(size); err != nil {
		return err
	}
	_, err := p.Seek(size, io.SeekStart)
	return err
}

// Finish gives the part, which is whole, the name of the file, and closes it.
func (p *Part) Finish() error {
	err := p.Sync()
	if !system.RenamesOpen {
		err = errors.Join(err, p.Close())
	}
	if err == nil {
		err = placeNew(p.Name(), p.place, os.Link)
	}
	if system.RenamesOpen {
		err = errors.Join(err, p.Close())
	}
	if err != nil {
		return err
	}
	_ = os.Remove(p.Name()) // where it has that name still
	return system.SyncDir(filepath.Dir(p.place))
}
