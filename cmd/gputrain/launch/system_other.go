//go:build !unix

package launch

import (
	"errors"
	"os"
	"os/exec"
)

func supported() error {
	return errors.New("launch: found a system without Open MPI, wanted Linux, macOS or another Unix")
}

const stoppedEarly = -1

func start(*exec.Cmd) (<-chan error, error) { return nil, supported() }

func stop(*os.Process) {}

func asks(os.Signal) bool { return false }

func end(p *os.Process, _ <-chan struct{}) { _ = p.Kill() }

func exitCode(s *os.ProcessState) int { return s.ExitCode() }
