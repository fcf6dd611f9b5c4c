//go:build unix

package reward

import (
	"os/exec"

	"golang.org/x/sys/unix"
)

// A group is a process and the processes that it has started and that have not left it.
type group struct{ leader int }

// started starts a command as the leader of a group.
func started(cmd *exec.Cmd) (*group, error) {
	cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &group{cmd.Process.Pid}, nil
}

func (g *group) kill() { _ = unix.Kill(-g.leader, unix.SIGKILL) }

func (*group) release() {}
