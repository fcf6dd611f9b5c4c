//go:build !unix

package data

import (
	"os"
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
