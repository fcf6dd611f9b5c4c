//go:build unix

package launch

import (
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

func supported() error { return nil }

// stoppedEarly is the exit code of what does not know the signal to stop yet.
const stoppedEarly = 128 + int(syscall.SIGUSR1)

// start starts mpirun in a process group of its own, so that a terminal's signals come by way of this process, and gives its end.
func start(c *exec.Cmd) (<-chan error, error) {
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stopWithParent(c.SysProcAttr)
	started, ended := make(chan error), make(chan error, 1)
	go func() {
		runtime.LockOSThread() // Linux takes the thread for the parent
		defer runtime.UnlockOSThread()
		err := c.Start()
		started <- err
		if err == nil {
			ended <- c.Wait()
		}
	}()
	return ended, <-started
}

// stop tells all ranks to save and stop: mpirun hands this signal on at once. It would kill them two seconds after the others.
func stop(p *os.Process) { _ = p.Signal(syscall.SIGUSR1) }

// asks tells the signal of stop.
func asks(s os.Signal) bool { return s == syscall.SIGUSR1 }

// endPatience is how long mpirun may take to end its ranks, which it gives two seconds.
const endPatience = 10 * time.Second

// end has mpirun end all ranks.
func end(p *os.Process, over <-chan struct{}) {
	_ = p.Signal(syscall.SIGTERM)
	select {
	case <-over:
	case <-time.After(endPatience):
		_ = syscall.Kill(-p.Pid, syscall.SIGKILL)
	}
}

// exitCode is 128 and the signal for a process that a signal has ended.
func exitCode(s *os.ProcessState) int {
	if w, ok := s.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return 128 + int(w.Signal())
	}
	return s.ExitCode()
}
