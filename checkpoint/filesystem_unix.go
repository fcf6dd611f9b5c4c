//go:build unix

package checkpoint

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

func (osFileSystem) SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	// Some network file systems have no fsync of directories and say so this way.
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOTSUP) {
		err = nil
	}
	return errors.Join(err, d.Close())
}

func (osFileSystem) Free(dir string) (uint64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	return uint64(s.Bavail) * uint64(s.Bsize), nil
}

func (osFileSystem) Lock(path string, exclusive bool) (io.Closer, error) {
	mode, how := os.O_RDONLY, unix.LOCK_SH
	if exclusive {
		mode, how = os.O_RDWR, unix.LOCK_EX
	}
	f, err := os.OpenFile(path, mode, 0)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
	switch {
	case err == nil, errors.Is(err, unix.ENOTSUP), errors.Is(err, unix.ENOSYS):
		return f, nil
	case errors.Is(err, unix.EWOULDBLOCK):
		err = ErrInUse
	}
	return nil, errors.Join(&os.PathError{Op: "lock", Path: path, Err: err}, f.Close())
}
