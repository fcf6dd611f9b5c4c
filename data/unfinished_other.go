//go:build !unix

package data

import (
	"errors"
	"os"
	"syscall"
	"time"
)

// Here no file can be removed that a process has open; one that has just been closed gets its last name.
const closedFor = time.Minute

func lockUnfinished(file *os.File) lockState {
	if info, err := file.Stat(); err == nil && time.Since(info.ModTime()) > closedFor {
		return taken
	}
	return unknown
}

func removeOpen(file *os.File) {
	_ = file.Close()
	_ = os.Remove(file.Name())
}

func renameUnfinished(file *os.File, to string) error {
	if err := file.Close(); err != nil {
		return err
	}
	return os.Rename(file.Name(), to)
}

// isFull tells whether an error is of a disk that is full: ERROR_DISK_FULL or ERROR_HANDLE_DISK_FULL.
func isFull(err error) bool {
	return errors.Is(err, syscall.Errno(112)) || errors.Is(err, syscall.Errno(39))
}
