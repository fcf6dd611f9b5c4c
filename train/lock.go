package train

import (
	"errors"
	"os"
	"path/filepath"

	"gputrain/internal/stranger"
	"gputrain/internal/system"
)

// lockDir takes a run directory, which is open, for this process. The lock ends with the process, however it ends. Both the directory and a file in
// it are locked: some file systems lock files alone, and a file may be removed by somebody who thinks that it is in the way.
func lockDir(path string, dir *os.File) (unlock func() error, err error) {
	if err := lockFile(dir); errors.Is(err, errLocked) { // any other error is of a file system that does not lock directories
		return nil, err
	}
	f, err := stranger.OpenFile(filepath.Join(path, lockFileName), os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, err
	}
	if err := lockFile(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f.Close, nil
}

// lockFile takes the lock of an open file. A file system without locks has none to hold.
func lockFile(f *os.File) error {
	switch err := system.Lock(f, true); {
	case errors.Is(err, system.ErrNoLocks):
		return nil
	case errors.Is(err, system.ErrLocked):
		return errLocked
	default:
		return err
	}
}
