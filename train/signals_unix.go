//go:build unix

package train

import (
	"os"

	"golang.org/x/sys/unix"
)

// stopSignals are those that a user, a service manager, a batch scheduler and a terminal that closes send.
var stopSignals = []os.Signal{os.Interrupt, unix.SIGTERM, unix.SIGUSR1, unix.SIGHUP}

// hangups are those that may come more than once without meaning more.
var hangups = []os.Signal{unix.SIGHUP}

// outputSignals are those of output that nobody reads.
var outputSignals = []os.Signal{unix.SIGPIPE}
