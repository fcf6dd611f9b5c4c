package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"gputrain/run/train"
)

// firstPause is between a death and the first restart; each pause is twice the last.
var firstPause = time.Second

const longestPause = 30 * time.Second

// run launches the job until it ends, and returns the exit code of the last mpirun. When ctx ends the ranks are told to
// save and stop, when now ends they are ended.
func (j job) run(ctx, now context.Context) (int, error) {
	mpirun, err := exec.LookPath("mpirun")
	if err != nil {
		return 0, fmt.Errorf("launch: %w: wanted Open MPI 4 or 5 (Debian, Ubuntu: apt-get install openmpi-bin; Fedora: dnf install openmpi, module load mpi)", err)
	}
	dir := filepath.Join(os.TempDir(), "gputrain-launch-"+rand.Text())
	if err := os.Mkdir(dir, 0o700); err != nil {
		return 0, fmt.Errorf("launch: %w", err)
	}
	defer os.RemoveAll(dir)
	pause, next := firstPause, j
	for restart := 1; ; restart++ {
		code, err := next.once(ctx, now, mpirun, dir)
		if err != nil || !train.MayGoOn(code) || restart > j.restarts || ctx.Err() != nil {
			return code, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return train.KindStopped.ExitCode(), nil // the newest checkpoint is there
		}
		if pause = min(2*pause, longestPause); j.shrink {
			next.hosts = j.reachable(now, mpirun)
			slots := slotsOf(next.hosts)
			if next.ranks = min(j.ranks, slots) / j.replica * j.replica; next.ranks == 0 {
				return code, fmt.Errorf("launch: restart: found hosts of %d slots, wanted %d or more", slots, j.replica)
			}
		}
		fmt.Fprintf(j.log, "gputrain: launch: the job has ended with code %d: restart %d of %d from the newest checkpoint, on %d ranks\n",
			code, restart, j.restarts, next.ranks)
	}
}

// endPatience is how long mpirun may take to end its ranks, which it gives two seconds.
const endPatience = 10 * time.Second

// once runs mpirun until it ends.
func (j job) once(ctx, now context.Context, mpirun, dir string) (int, error) {
	note := filepath.Join(dir, noteFile)
	_ = os.Remove(note) // an earlier start's
	args := mpirunArgs(j.hosts)
	environment := append(os.Environ(), launchVariable+"="+dir)
	for _, v := range environment { // for ranks on other hosts too
		if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(name, "GPUTRAIN_") {
			args = append(args, "-x", name)
		}
	}
	now, end := context.WithCancel(now)
	defer end()
	c := exec.CommandContext(now, mpirun, append(append(args, "-n", strconv.Itoa(j.ranks)), j.command...)...)
	c.Env, c.Stdout, c.Stderr, c.SysProcAttr = environment, os.Stdout, j.log, ownGroup
	c.Cancel, c.WaitDelay = func() error { return c.Process.Signal(syscall.SIGTERM) }, endPatience
	runtime.LockOSThread() // Linux takes the thread for mpirun's parent
	defer runtime.UnlockOSThread()
	if err := c.Start(); err != nil {
		return 0, fmt.Errorf("launch: %w", err)
	}
	defer context.AfterFunc(ctx, func() { _ = c.Process.Signal(stopSignal) })() // after SIGTERM mpirun would kill the ranks
	go endLate(now, note, end)
	err := c.Wait()
	if c.ProcessState == nil {
		return 0, fmt.Errorf("launch: %w", err)
	}
	if now.Err() != nil {
		killGroup(c.Process.Pid) // what mpirun has left, such as an ssh behind a link that is cut
	}
	code := c.ProcessState.ExitCode()
	if s, ok := c.ProcessState.Sys().(syscall.WaitStatus); ok && s.Signaled() {
		code = 128 + int(s.Signal())
	}
	if own, noted := readNote(note); noted && code > 128 { // mpirun was ended
		code = own
	}
	if ctx.Err() != nil && code == 128+int(stopSignal) { // it came before it could be understood: nothing had begun
		code = train.KindStopped.ExitCode()
	}
	return code, nil
}

// finishPatience is how long mpirun may take to end the other ranks after one has failed. It waits for all hosts: for one
// behind a link that is cut until TCP gives up, after a quarter of an hour.
var finishPatience = 20 * time.Second

// endLate calls end when a rank has noted its failure and mpirun has had its time since.
func endLate(ctx context.Context, note string, end func()) {
	wait := finishPatience / 40
	for noted := false; !noted; {
		if _, noted = readNote(note); noted {
			wait = finishPatience
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
	end()
}

// mpirunArgs are mpirun's arguments whatever it starts.
func mpirunArgs(hosts []string) []string {
	args := []string{"--bind-to", "none"} // a rank has threads for its adapter and its data
	if os.Geteuid() == 0 {
		args = append(args, "--allow-run-as-root")
	}
	if len(hosts) == 0 {
		return append(args, "--oversubscribe")
	}
	return append(args, "--host", strings.Join(hosts, ","))
}

// probePatience is how long a host may take to start a program.
const probePatience = 30 * time.Second

// reachable are the hosts on which mpirun can start something.
func (j job) reachable(now context.Context, mpirun string) (hosts []string) {
	there := make([]bool, len(j.hosts))
	var all sync.WaitGroup
	for i, h := range j.hosts {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(now, probePatience)
			defer cancel()
			c := exec.CommandContext(ctx, mpirun, append(mpirunArgs([]string{h}), "-n", "1", "true")...)
			c.WaitDelay = time.Second
			there[i] = c.Run() == nil
		})
	}
	all.Wait()
	for i, h := range j.hosts {
		if there[i] {
			hosts = append(hosts, h)
		} else {
			fmt.Fprintf(j.log, "gputrain: launch: host %s is gone\n", h[:strings.Index(h, ":")])
		}
	}
	return hosts
}
