package system

import (
	"os"
	"syscall"
)

// StopSignals are Ctrl-C and Ctrl-Break, and what Go makes of a console that closes, a user who leaves and a system that shuts down.
var StopSignals = []os.Signal{os.Interrupt, syscall.SIGTERM}

// There are no others here.
var Hangups, OutputSignals []os.Signal
