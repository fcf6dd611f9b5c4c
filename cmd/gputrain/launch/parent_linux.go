package launch

import "syscall"

// stopWithParent has ranks save and stop when this process is killed.
func stopWithParent(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGUSR1 }
