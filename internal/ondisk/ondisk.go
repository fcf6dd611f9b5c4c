// Package ondisk is what package os lacks for files that must outlast a crash and be one process's alone: locks of open files, directories whose
// entries are durable, links in the way of new directories, and which directories share a file system.
package ondisk

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
