package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

	"gputrain/cluster"
	"gputrain/gpu"
	"gputrain/train/runfile"
	"gputrain/transport/mpi"
)

// together is a command on several ranks, or on one: mpirun and srun say.
type together struct {
	group   *cluster.Group // nil: one
	local   int            // which of the ranks on this host
	out     io.Writer      // of what is said; nothing on ranks but the first
	entered bool           // the run decides with the others how it ends
}

// first tells whether this process is alone, or rank 0.
func (r *together) first() bool { return r.group == nil || r.group.Rank() == 0 }

// open finds the other ranks.
func (r *together) open() error {
	r.out = os.Stderr
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
	r.group, r.local = cluster.New(ranks, cluster.Config{Code: exitCode}), launched.LocalRank
	if !r.first() {
		r.out = io.Discard
	}
	return nil
}

// close ends the command on all ranks, and tells of its error once.
func (r *together) close(ctx context.Context, err error) error {
	if r.group == nil {
		return err
	}
	if !r.entered {
		err = r.group.Conclude(ctx, err, cluster.Fatal)
	}
	tells := r.group.Tells(err)
	if left := r.group.Close(); err == nil {
		err = left
	}
	if err != nil && !tells {
		return toldError{err}
	}
	return err
}

// toldError is one that another rank tells of.
type toldError struct{ error }

func (e toldError) Unwrap() error { return e.error }

// configure takes what a run file says of ranks, and chooses this one's adapter where nobody names one: those on a host take the best ones in turn.
func (c *trainCmd) configure(cfg *runfile.Config) error {
	if c.group == nil {
		return nil
	}
	timeout, err := runfile.ParseDuration(cfg.Cluster.Timeout)
	if err != nil {
		return err
	}
	if timeout == 0 {
		return fmt.Errorf("run file: cluster.timeout (%s): found none, wanted a time: a rank that is gone would be waited for without end", cfg.Origin("cluster.timeout"))
	}
	c.group.SetTimeout(timeout)
	if c.Adapter != "" || len(cfg.Pipeline.Adapters) > 0 || os.Getenv("GPUTRAIN_ADAPTER") != "" {
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
	c.Adapter = strconv.Itoa(adapterOf(c.local, best, all).Index)
	return nil
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
