//go:build unix

package main

import "syscall"

const stopSignal = syscall.SIGUSR1

// ownGroup keeps a terminal's signals from mpirun: they come by way of this process.
var ownGroup = &syscall.SysProcAttr{Setpgid: true}

func killGroup(pid int) { _ = syscall.Kill(-pid, syscall.SIGKILL) }
