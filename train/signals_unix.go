//go:build unix

package train

import (
	"os"

	"golang.org/x/sys/unix"
)

// stopSignals are those that a user, a service manager and a batch scheduler send.
var stopSignals = []os.Signal{os.Interrupt, unix.SIGTERM, unix.SIGUSR1}
