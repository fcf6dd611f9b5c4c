//go:build unix

package train

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// lockDir takes a run directory for this process. The lock ends with the process, however it ends.
func lockDir(dir string) (unlock func() error, err error) {
	path := filepath.Join(dir, ".lock")
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return nil, fmt.Errorf("train: run directory: %w", err)
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	switch {
	case errors.Is(err, unix.EWOULDBLOCK):
		return nil, errors.Join(fmt.Errorf("train: run directory %q: another process is training in it", dir), f.Close())
	case errors.Is(err, unix.ENOTSUP), errors.Is(err, unix.ENOSYS), err == nil:
		return f.Close, nil // a file system without locks has none to hold
	}
	return nil, errors.Join(fmt.Errorf("train: run directory %q: lock: %w", dir, err), f.Close())
}
