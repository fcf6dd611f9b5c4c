//go:build unix

package system

import (
	"os"

	"golang.org/x/sys/unix"
)

// StopSignals are those that a user, a service manager, a batch scheduler and a terminal that closes send.
var StopSignals = []os.Signal{os.Interrupt, unix.SIGTERM, unix.SIGUSR1, unix.SIGHUP}

// Hangups are those that may come more than once without meaning more.
var Hangups = []os.Signal{unix.SIGHUP}

// OutputSignals are those of output that nobody reads.
var OutputSignals = []os.Signal{unix.SIGPIPE}
