package system

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/windows"
)

const (
	// RenamesOpen says that open files can be renamed and removed.
	RenamesOpen = false
)

// Lock takes the lock of an open file, shared with other readers or exclusive, without waiting. It ends with the file, and with the process however
// that ends. The error may be ErrLocked or ErrNoLocks. Locks are of bytes here, and keep others from reading them: this one is of a byte that no file has.
func Lock(f *os.File, exclusive bool) error {
	how := uint32(windows.LOCKFILE_FAIL_IMMEDIATELY)
	if exclusive {
		how |= windows.LOCKFILE_EXCLUSIVE_LOCK
	}
	at := windows.Overlapped{Offset: math.MaxUint32 - 1, OffsetHigh: math.MaxInt32}
	switch err := windows.LockFileEx(windows.Handle(f.Fd()), how, 0, 1, 0, &at); {
	case err == nil:
		return nil
	case errors.Is(err, windows.ERROR_LOCK_VIOLATION), errors.Is(err, windows.ERROR_IO_PENDING):
		return ErrLocked
	}
	return ErrNoLocks // of directories, and on some shares
}

// SyncDir does nothing: NTFS journals directory entries and has no call for it.
func SyncDir(string) error { return nil }

// Together cannot tell, and leaves it to the rename.
func Together(string, string) (bool, error) { return true, nil }

// Rename is os.Rename, with patience.
func Rename(from, to string) error { return patiently(func() error { return os.Rename(from, to) }) }

// RemoveAll is os.RemoveAll, with patience, and by the oldest calls: not every system and file system has the newer ones that package os makes.
func RemoveAll(path string) error { return patiently(func() error { return removeAll(path) }) }

func removeAll(path string) error {
	err := os.Remove(path)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	entries, unread := os.ReadDir(path)
	if unread != nil {
		return err
	}
	for _, e := range entries {
		if err := removeAll(filepath.Join(path, e.Name())); err != nil {
			return err
		}
	}
	return os.Remove(path)
}

// patience is how long a file may be held by a program that looks into every new one, such as a virus scanner.
const patience = 2 * time.Second

// patiently tries again while somebody else has a file open.
func patiently(f func() error) error {
	for begin, pause := time.Now(), time.Millisecond; ; pause *= 2 {
		err := f()
		held := errors.Is(err, windows.ERROR_SHARING_VIOLATION) || errors.Is(err, windows.ERROR_ACCESS_DENIED) || errors.Is(err, windows.ERROR_DIR_NOT_EMPTY)
		if !held || time.Since(begin) > patience {
			return err
		}
		time.Sleep(pause)
	}
}

// Free is the number of bytes that this process may still write below dir.
func Free(dir string) (uint64, error) {
	p, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return 0, err
	}
	var free uint64
	if err := windows.GetDiskFreeSpaceEx(p, &free, nil, nil); err != nil {
		return 0, &os.PathError{Op: "free space", Path: dir, Err: err}
	}
	return free, nil
}

// Full tells whether an error is of a disk that is full.
func Full(err error) bool {
	return errors.Is(err, windows.ERROR_DISK_FULL) || errors.Is(err, windows.ERROR_HANDLE_DISK_FULL)
}
