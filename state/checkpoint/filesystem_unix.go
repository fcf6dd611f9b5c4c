//go:build unix

package checkpoint

import (
	"errors"
	"io"
	"os"

	"gputrain/internal/stranger"
	"gputrain/internal/system"
)

func (osFileSystem) Lock(path string, exclusive bool) (io.Closer, error) {
	open := stranger.Open
	if exclusive {
		open = func(path string) (*os.File, error) { return os.OpenFile(path, os.O_RDWR, 0) }
	}
	f, err := open(path)
	if err != nil {
		return nil, err
	}
	switch err = system.Lock(f, exclusive); {
	case err == nil, errors.Is(err, system.ErrNoLocks):
		return f, nil
	case errors.Is(err, system.ErrLocked):
		err = ErrInUse
	}
	return nil, errors.Join(&os.PathError{Op: "lock", Path: path, Err: err}, f.Close())
}
