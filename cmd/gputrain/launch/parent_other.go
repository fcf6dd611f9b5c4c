//go:build unix && !linux

package launch

import "syscall"

func stopWithParent(*syscall.SysProcAttr) {}
