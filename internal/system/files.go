// Package system is what differs between operating systems and package os does not have: files that must outlast a crash and be one process's alone, the
// signals that stop a run, memory of the machine and of the process.
package system

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// ErrLocked says that another process has the lock.
var ErrLocked = errors.New("another process holds it")

// ErrNoLocks says that there is no lock to hold: the file system, or the operating system, has none.
var ErrNoLocks = errors.New("files cannot be locked here")

// MkdirAll is os.MkdirAll, and says what is wrong with a link that leads nowhere.
func MkdirAll(dir string) error {
	err := os.MkdirAll(dir, 0o777)
	var at *fs.PathError
	if errors.As(err, &at) && errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s: found a link that leads nowhere, wanted a directory: make the directory that it leads to, or remove the link: %w", at.Path, fs.ErrExist)
	}
	return err
}
