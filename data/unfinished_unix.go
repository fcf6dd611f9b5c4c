//go:build unix

package data

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

func lockUnfinished(file *os.File) lockState {
	switch err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); {
	case err == nil:
		return taken
	case errors.Is(err, unix.EWOULDBLOCK):
		return held
	}
	return unknown
}

// removeOpen removes a file while its lock keeps others from it.
func removeOpen(file *os.File) { _ = os.Remove(file.Name()) }

// renameUnfinished gives a file its last name before it loses its lock.
func renameUnfinished(file *os.File, to string) error {
	return errors.Join(os.Rename(file.Name(), to), file.Close())
}
