//go:build unix

package checkpoint

import (
	"errors"
	"io"
	"os"

	"gputrain/internal/ondisk"
	"gputrain/internal/stranger"
)

func (osFileSystem) SyncDir(dir string) error { return ondisk.SyncDir(dir) }

func (osFileSystem) Lock(path string, exclusive bool) (io.Closer, error) {
	open := stranger.Open
	if exclusive {
		open = func(path string) (*os.File, error) { return os.OpenFile(path, os.O_RDWR, 0) }
	}
	f, err := open(path)
	if err != nil {
		return nil, err
	}
	switch err = ondisk.Lock(f, exclusive); {
	case err == nil, errors.Is(err, ondisk.ErrNoLocks):
		return f, nil
	case errors.Is(err, ondisk.ErrLocked):
		err = ErrInUse
	}
	return nil, errors.Join(&os.PathError{Op: "lock", Path: path, Err: err}, f.Close())
}
