package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/alecthomas/kong"

	"gputrain/cmd/gputrain/launch"
	"gputrain/train"
	"gputrain/train/runfile"
)

type launchCmd struct {
	Hosts    string   `help:"File with one host a line, as name or name slots=N; # begins a comment. Without it, mpirun starts ranks on this machine or where its batch system says." type:"path" placeholder:"FILE"`
	Ranks    int      `short:"n" help:"Number of ranks; by default the slots of all hosts." placeholder:"N"`
	Restarts int      `help:"Times to resume from the newest checkpoint after a rank has died." default:"0" placeholder:"N"`
	Shrink   bool     `help:"Resume without the hosts that are gone, on fewer ranks."`
	Command  []string `arg:"" help:"Command of every rank: -- train run.yaml and its flags." passthrough:"partial"`
}

// mostRestarts take a year of pauses.
const mostRestarts = 1 << 20

// Run starts the ranks. Its exit code is theirs.
func (c *launchCmd) Run(ctx context.Context) error {
	job, err := c.job()
	if err != nil {
		return usageError{err}
	}
	now, end := context.WithCancel(ctx)
	defer end()
	ctx, stop := train.Signals(ctx, os.Stderr, func(int) { end() })
	defer stop()
	code, err := job.Run(ctx, now)
	switch {
	case err != nil:
		return err
	case code != 0:
		return codeError(code)
	}
	return nil
}

// codeError is the exit code of ranks, who have said why.
type codeError int

func (e codeError) Error() string {
	return fmt.Sprintf("launch: the ranks have ended with code %d", int(e))
}

// job is what the command line says, checked once, so that not every rank finds the mistake.
func (c *launchCmd) job() (launch.Job, error) {
	program, err := os.Executable()
	if err != nil {
		return launch.Job{}, fmt.Errorf("launch: %w", err)
	}
	args := c.Command
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	job := launch.Job{Program: program, Args: args, Ranks: c.Ranks, Restarts: c.Restarts, Shrink: c.Shrink, Log: os.Stderr}
	if c.Hosts != "" {
		if job.Hosts, err = launch.ReadHosts(c.Hosts); err != nil {
			return job, err
		}
		if job.Ranks == 0 {
			job.Ranks = launch.Slots(job.Hosts)
		}
	}
	switch slots := launch.Slots(job.Hosts); {
	case job.Ranks < 1 || job.Ranks > mostRanks:
		return job, fmt.Errorf("launch: found -n %d, wanted 1 to %d ranks", c.Ranks, mostRanks)
	case len(job.Hosts) > 0 && job.Ranks > slots:
		return job, fmt.Errorf("launch: found -n %d and %d slots in %s, wanted slots for all ranks, as in `name slots=2`", job.Ranks, slots, c.Hosts)
	case c.Restarts < 0 || c.Restarts > mostRestarts:
		return job, fmt.Errorf("launch: found --restarts %d, wanted 0 to %d", c.Restarts, mostRestarts)
	case c.Shrink && (len(job.Hosts) == 0 || c.Restarts == 0):
		return job, errors.New("launch: found --shrink, wanted also --hosts, of which some may go, and --restarts")
	}
	cfg, err := checkCommand(job.Args)
	if err != nil {
		return job, err
	}
	if n := cfg.Pipeline.PerReplica(); n > 1 {
		job.Replica = n
		if c.Ranks == 0 {
			job.Ranks -= job.Ranks % job.Replica
		}
		if job.Ranks == 0 || job.Ranks%job.Replica != 0 {
			return job, fmt.Errorf("launch: found %d ranks, wanted a multiple of the %d that the stages are on (pipeline.adapters, %s)", job.Ranks, job.Replica, cfg.Origin("pipeline.adapters"))
		}
	}
	return job, nil
}

// checkCommand reads what the ranks will read.
func checkCommand(args []string) (*runfile.Config, error) {
	var ranks cli
	parsed, err := kong.Must(&ranks, kong.Name("gputrain"), kong.NamedMapper("path", kong.MapperFunc(somePath))).Parse(args)
	if err != nil {
		return nil, fmt.Errorf("launch: after --: %w", err)
	}
	if command := parsed.Path[1].Node().Name; command != "train" {
		return nil, fmt.Errorf("launch: after --: found %q, wanted train, the command that ranks share", command)
	}
	return ranks.Train.load()
}
