//go:build !unix

package train

import (
	"os"
	"syscall"
)

// stopSignals are those that a user and a service manager send.
var stopSignals = []os.Signal{os.Interrupt, syscall.SIGTERM}

// There are no others here.
var hangups, outputSignals []os.Signal
