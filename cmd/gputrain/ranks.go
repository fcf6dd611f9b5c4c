package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"gputrain/gpu"
	"gputrain/internal/ranks/mesh"
	"gputrain/internal/ranks/transport/mpi"
	"gputrain/run/runfile"
	"gputrain/run/setup"
	"gputrain/run/train"
)

// mostRanks is more than the largest machines have accelerators. A number beyond it is a slip.
const mostRanks = 1 << 20

// launchVariable names the directory of a launch to its ranks: one for all its starts and all hosts, though it is on the
// host of the launcher alone.
const launchVariable = "GPUTRAIN_LAUNCH"

// launched tells whether this process is a rank that launch has started. Launch asks it to stop by SIGUSR1: a SIGTERM is
// mpirun's, which ends what a death has left of a job.
func launched() bool { return os.Getenv(launchVariable) != "" }

// launchID tells one launch from others; "": this process is no rank of one.
func launchID() string {
	_, id := filepath.Split(os.Getenv(launchVariable))
	return id
}

// noteFile is a link to the code of the first rank that failed: a link is made whole, and only once.
const noteFile = "end"

// noteEnd is called by a rank that ends. If it failed, its launcher hears of it, if that is on the same host.
func noteEnd(code int) {
	if launched() && code != 0 {
		_ = os.Symlink(strconv.Itoa(code), filepath.Join(os.Getenv(launchVariable), noteFile))
	}
}

func readNote(path string) (code int, noted bool) {
	text, err := os.Readlink(path)
	code, _ = strconv.Atoi(text)
	return code, err == nil
}

// together is a command on several ranks, or on one: mpirun and srun say.
type together struct {
	group   *mesh.Mesh // nil: one
	local   int        // which of the ranks on this host
	own     string     // the adapter that this rank takes by itself; "": GPUTRAIN_ADAPTER's or the best
	out     io.Writer  // of what is said; nothing on ranks but the first
	entered bool       // the run decides with the others how it ends
}

// open finds the other ranks.
func (r *together) open() error {
	r.out = told
	launched, err := mpi.Launch(os.Getenv)
	if err != nil {
		return usageError{err}
	}
	if launched.Size == 1 {
		return nil
	}
	ranks, err := mpi.Open()
	if err != nil {
		return err
	}
	r.group, r.local = mesh.New(ranks, mesh.Config{Code: exitCode}), launched.LocalRank
	if !r.group.Leads() {
		r.out = io.Discard
	}
	return nil
}

// close ends the command on all ranks, and tells of its error once: before it lets go of the others, as mpirun ends them
// all with the first that ends badly.
func (r *together) close(ctx context.Context, err error) error {
	if r.group == nil {
		return err
	}
	if !r.entered {
		err = r.group.Conclude(ctx, err, mesh.Fatal)
	}
	if err != nil {
		if r.group.Tells(err) {
			tell(err)
		}
		err = toldError{err}
	}
	if left := r.group.Close(); err == nil {
		err = left
	}
	return err
}

// toldError is one that is told already, by this rank or another.
type toldError struct{ error }

func (e toldError) Unwrap() error { return e.error }

// configure takes what a run file says of ranks, and finds this one's adapter where nobody names one: those on a host take
// the best ones in turn.
func (c *trainCmd) configure(ctx context.Context, cfg *runfile.Config) error {
	if c.group == nil {
		return nil
	}
	timeout := cfg.Cluster.Timeout.Time()
	if timeout == 0 {
		return usageError{cfg.Invalid("cluster.timeout", "none", "a time: a rank that is gone would be waited for without end")}
	}
	c.group.SetTimeout(timeout)
	c.group.Expect(train.StartPatience)
	if err := setup.Divide(ctx, cfg, c.group); err != nil {
		return err
	}
	if c.Adapter != "" || os.Getenv("GPUTRAIN_ADAPTER") != "" {
		return nil
	}
	best, err := gpu.Select("")
	if errors.Is(err, gpu.ErrNoAdapter) {
		return nil // opening it says so
	}
	if err != nil {
		return err
	}
	all, err := gpu.Adapters()
	if err != nil {
		return err
	}
	c.own = strconv.Itoa(adapterOf(c.local, best, all).Index)
	return nil
}

// adapters are those of the stages that are in this process.
func (c *trainCmd) adapters(cfg *runfile.Config) ([]gpu.Adapter, error) {
	if c.group == nil {
		return setup.Adapters(cfg, c.Adapter)
	}
	rank, _ := c.group.InRow()
	all, err := setup.RankAdapters(cfg, rank, c.Adapter, c.own)
	if err != nil && c.group.Leads() { // what ends others is told with their names
		err = fmt.Errorf("%s: %w", c.group.Name(0), err)
	}
	return all, err
}

// adapterOf is the adapter of one of the ranks of a host: the best, and then those of its class and backend, in turn.
func adapterOf(local int, best gpu.Adapter, all []gpu.Adapter) gpu.Adapter {
	alike := []gpu.Adapter{best}
	for _, a := range all {
		if a.Index != best.Index && a.Class() == best.Class() && a.Backend == best.Backend {
			alike = append(alike, a)
		}
	}
	return alike[local%len(alike)]
}
