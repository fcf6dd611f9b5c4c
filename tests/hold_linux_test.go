package tests

import (
	"bytes"
	"fmt"
	"os"
	"syscall"
)

// heldAs stops a process, and tells whether something is then so; where it is not, the process goes on. What is so stays so until the process is killed,
// however late a busy machine looks.
func (p *process) heldAs(is func() bool) bool {
	_ = p.cmd.Process.Signal(syscall.SIGSTOP) // it may have ended
	for p.running() && !p.isStopped() {
	}
	if is() {
		return true
	}
	_ = p.cmd.Process.Signal(syscall.SIGCONT)
	return false
}

// isStopped reads the state of all threads: SIGSTOP takes a moment to reach each.
func (p *process) isStopped() bool {
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", p.cmd.Process.Pid))
	for _, task := range tasks {
		stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/stat", p.cmd.Process.Pid, task.Name()))
		if _, state, _ := bytes.Cut(stat, []byte(") ")); len(state) > 0 && state[0] != 'T' {
			return false
		}
	}
	return err == nil
}
