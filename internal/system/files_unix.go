//go:build unix

package system

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	// RenamesOpen says that open files can be renamed and removed.
	RenamesOpen = true
)

// Lock takes the lock of an open file, shared with other readers or exclusive, without waiting. It ends with the file, and with the process however
// that ends. The error may be ErrLocked or ErrNoLocks.
func Lock(f *os.File, exclusive bool) error {
	how := unix.LOCK_SH
	if exclusive {
		how = unix.LOCK_EX
	}
	err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.ENOTSUP), errors.Is(err, unix.ENOSYS):
		return ErrNoLocks
	case errors.Is(err, unix.EWOULDBLOCK):
		return ErrLocked
	}
	return fmt.Errorf("lock: %w", err)
}

// SyncDir makes the entries of a directory durable.
func SyncDir(dir string) error {
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

// Together tells whether two directories are on one file system, so that a rename moves what is in one into the other.
func Together(a, b string) (bool, error) {
	var devices [2]uint64
	for i, dir := range []string{a, b} {
		info, err := os.Stat(dir)
		if err != nil {
			return false, err
		}
		devices[i] = uint64(info.Sys().(*syscall.Stat_t).Dev)
	}
	return devices[0] == devices[1], nil
}

// Free is the number of bytes that this process may still write below dir.
func Free(dir string) (uint64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	return uint64(s.Bavail) * uint64(s.Bsize), nil
}

// Rename is os.Rename.
func Rename(from, to string) error { return os.Rename(from, to) }

// RemoveAll is os.RemoveAll.
func RemoveAll(path string) error { return os.RemoveAll(path) }

// Full tells whether an error is of a disk that is full.
func Full(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }
