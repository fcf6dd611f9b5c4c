// Package launch starts ranks with mpirun, hands on signals, and starts them again after a death.
package launch

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"gputrain/train"
)

// Job is what is launched.
type Job struct {
	Program  string   // of every rank
	Args     []string // its own
	Ranks    int
	Replica  int    // ranks that have a replica of the model between them: their number stays a multiple; 0: 1
	Hosts    []Host // none: where mpirun starts ranks by itself
	Restarts int    // at most, after deaths
	Shrink   bool   // go on without hosts that are gone
	Log      io.Writer
}

// firstPause is between a death and the first restart; each pause is twice the last.
var firstPause = time.Second

const longestPause = 30 * time.Second

// Run launches the job until it ends, and returns the exit code of the last mpirun. When ctx ends the ranks are told to save and stop, when now ends
// they are ended.
func (j Job) Run(ctx, now context.Context) (int, error) {
	mpirun, err := exec.LookPath("mpirun")
	if err != nil {
		return 0, fmt.Errorf("launch: %w: wanted Open MPI 4 or 5 (Debian, Ubuntu: apt-get install openmpi-bin; Fedora: dnf install openmpi, module load mpi)", err)
	}
	if err := supported(); err != nil {
		return 0, err
	}
	hosts, pause, id := j.Hosts, firstPause, rand.Text()
	for restart := 0; ; restart++ {
		code, err := j.once(ctx, now, mpirun, id, hosts)
		if err != nil || !train.MayGoOn(code) || restart == j.Restarts || ctx.Err() != nil {
			return code, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return train.KindStopped.ExitCode(), nil // the newest checkpoint is there
		}
		if pause = min(2*pause, longestPause); j.Shrink {
			if hosts = j.reachable(now, mpirun); len(hosts) == 0 {
				return code, errors.New("launch: restart: found none of the hosts, wanted one or more")
			}
			if j.ranks(hosts) == 0 {
				return code, fmt.Errorf("launch: restart: found hosts of %d slots, wanted %d or more: as many ranks have the stages between them", Slots(hosts), j.Replica)
			}
		}
		fmt.Fprintf(j.Log, "gputrain: launch: the job has ended with code %d%s: restart %d of %d from the newest checkpoint%s, on %s\n",
			code, meaning(code), restart+1, j.Restarts, j.since(), j.size(hosts))
	}
}

// since says which checkpoints a run that starts over resumes from.
func (j Job) since() string {
	if slices.ContainsFunc(j.Args, func(arg string) bool { return arg == "--fresh" || strings.HasPrefix(arg, "--fresh=") }) {
		return " of this launch"
	}
	return ""
}

func meaning(code int) string {
	switch {
	case code > 128 && code < 160:
		return fmt.Sprintf(" (signal %d)", code-128)
	case code == train.KindRankLost.ExitCode():
		return " (a rank was lost)"
	}
	return ""
}

// ranks are as many as hosts have room for, in whole replicas.
func (j Job) ranks(hosts []Host) int {
	if len(hosts) == 0 {
		return j.Ranks
	}
	n := min(j.Ranks, Slots(hosts))
	return n - n%max(1, j.Replica)
}

func (j Job) size(hosts []Host) string {
	n := fmt.Sprintf("%d ranks", j.ranks(hosts))
	if len(hosts) == 0 {
		return n
	}
	return n + " of " + list(hosts)
}

// once runs mpirun until it ends.
func (j Job) once(ctx, now context.Context, mpirun, id string, hosts []Host) (int, error) {
	dir, err := os.MkdirTemp("", "gputrain-launch-")
	if err != nil {
		return 0, fmt.Errorf("launch: %w", err)
	}
	defer os.RemoveAll(dir)
	note := filepath.Join(dir, "end")
	environment := append(os.Environ(), endVariable+"="+note, idVariable+"="+id)
	c := exec.Command(mpirun, append(slices.Concat(common(hosts), variables(environment), []string{"-n", strconv.Itoa(j.ranks(hosts)), j.Program}), j.Args...)...)
	c.Env, c.Stdout, c.Stderr = environment, os.Stdout, j.Log
	ended, err := start(c)
	if err != nil {
		return 0, fmt.Errorf("launch: %w", err)
	}
	over := make(chan struct{})
	var handing sync.WaitGroup
	handing.Go(func() {
		finished := finishing(note, over)
		select {
		case <-ctx.Done():
			ask(note, context.Cause(ctx))
			stop(c.Process)
		case <-now.Done():
		case <-finished:
		case <-over:
			return
		}
		select {
		case <-now.Done():
			end(c.Process, over)
		case <-finished:
			end(c.Process, over)
		case <-over:
		}
	})
	err = <-ended
	close(over)
	handing.Wait()
	var failed *exec.ExitError
	if err != nil && !errors.As(err, &failed) {
		return 0, fmt.Errorf("launch: %w", err)
	}
	code := exitCode(c.ProcessState)
	if own, noted := readNote(note); noted && code > 128 { // mpirun was ended
		code = own
	}
	if ctx.Err() != nil && code == stoppedEarly {
		return train.KindStopped.ExitCode(), nil // the signal came before it could be understood: nothing had begun
	}
	return code, nil
}

// common are mpirun's arguments whatever it starts.
func common(hosts []Host) []string {
	args := []string{"--bind-to", "none"} // a rank has threads for its adapter and its data
	if os.Geteuid() == 0 {
		args = append(args, "--allow-run-as-root")
	}
	if len(hosts) == 0 {
		return append(args, "--oversubscribe")
	}
	return append(args, "--host", list(hosts))
}

// variables has mpirun hand this program's variables to ranks on other hosts too.
func variables(environment []string) []string {
	var args []string
	for _, v := range environment {
		if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(name, "GPUTRAIN_") {
			args = append(args, "-x", name)
		}
	}
	return args
}

// probePatience is how long a host may take to start a program.
const probePatience = 30 * time.Second

// reachable are the hosts on which mpirun can start something.
func (j Job) reachable(now context.Context, mpirun string) []Host {
	there := make([]bool, len(j.Hosts))
	var all sync.WaitGroup
	for i, h := range j.Hosts {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(now, probePatience)
			defer cancel()
			c := exec.CommandContext(ctx, mpirun, append(common([]Host{h}), "-n", "1", "true")...)
			c.WaitDelay = time.Second
			there[i] = c.Run() == nil
		})
	}
	all.Wait()
	var hosts []Host
	for i, h := range j.Hosts {
		if there[i] {
			hosts = append(hosts, h)
		} else {
			fmt.Fprintf(j.Log, "gputrain: launch: host %s is gone\n", h.Name)
		}
	}
	return hosts
}
