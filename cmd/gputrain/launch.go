package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

	"github.com/alecthomas/kong"

	"gputrain/cmd/gputrain/launch"
	"gputrain/gpu"
	"gputrain/mesh"
	"gputrain/train"
	"gputrain/train/runfile"
	"gputrain/train/setup"
	"gputrain/transport/mpi"
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

// mostRanks is more than the largest machines have accelerators. A number beyond it is a slip.
const mostRanks = 1 << 20

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

// close ends the command on all ranks, and tells of its error once: before it lets go of the others, as mpirun ends them all with the first that ends badly.
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

// configure takes what a run file says of ranks, and finds this one's adapter where nobody names one: those on a host take the best ones in turn.
func (c *trainCmd) configure(ctx context.Context, cfg *runfile.Config) error {
	if c.group == nil {
		return nil
	}
	timeout := cfg.Cluster.Timeout.Time()
	if timeout == 0 {
		return usageError{fmt.Errorf("run file: cluster.timeout (%s): found none, wanted a time: a rank that is gone would be waited for without end", cfg.Origin("cluster.timeout"))}
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
