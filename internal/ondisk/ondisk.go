// Package ondisk is what package os lacks for files that must outlast a crash and be one process's alone: locks of open files, directories whose
// entries are durable, and which directories share a file system.
package ondisk

import "errors"

// ErrLocked says that another process has the lock.
var ErrLocked = errors.New("another process holds it")

// ErrNoLocks says that there is no lock to hold: the file system, or the operating system, has none.
var ErrNoLocks = errors.New("files cannot be locked here")
