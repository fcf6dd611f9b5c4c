//go:build !unix

package main

import "syscall"

const stopSignal = syscall.SIGTERM

var ownGroup *syscall.SysProcAttr

func killGroup(int) {}
