package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"

	"gputrain/run/runfile"
	"gputrain/run/train"
)

type launchCmd struct {
	Hosts    string   `help:"File with one host a line, as name or name slots=N; # begins a comment. Without it, mpirun starts ranks on this machine or where its batch system says." type:"path" placeholder:"FILE"`
	Ranks    int      `short:"n" help:"Number of ranks; by default the slots of all hosts." placeholder:"N"`
	Restarts int      `help:"Times to resume from the newest checkpoint after a rank has died." default:"0" placeholder:"N"`
	Shrink   bool     `help:"Resume without the hosts that are gone, on fewer ranks."`
	Command  []string `arg:"" help:"Command of every rank: -- train run.yaml and its flags." passthrough:"partial"`
}

// Run starts the ranks. Its exit code is theirs.
func (c *launchCmd) Run(ctx context.Context) error {
	j, err := c.job()
	if err != nil {
		return usageError{err}
	}
	now, end := context.WithCancel(ctx)
	defer end()
	ctx, stop := train.Signals(ctx, os.Stderr, func(int) { end() })
	defer stop()
	code, err := j.run(ctx, now)
	if err != nil || code == 0 {
		return err
	}
	return toldError{codeError(code)}
}

// codeError is the exit code of ranks.
type codeError int

func (e codeError) Error() string {
	return fmt.Sprintf("launch: the ranks have ended with code %d", int(e))
}

// job is what is launched.
type job struct {
	command  []string // of every rank
	ranks    int
	replica  int      // ranks that have a replica of the model between them: their number stays a multiple
	hosts    []string // with their slots, as mpirun takes them, such as a:2; none: where mpirun starts ranks by itself
	restarts int      // at most, after deaths
	shrink   bool     // go on without hosts that are gone
	log      io.Writer
}

// job is what the command line says, checked once, so that not every rank finds the mistake.
func (c *launchCmd) job() (j job, err error) {
	program, err := os.Executable()
	if err != nil {
		return j, fmt.Errorf("launch: %w", err)
	}
	args := c.Command
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	j = job{append([]string{program}, args...), c.Ranks, 1, nil, c.Restarts, c.Shrink, os.Stderr}
	if c.Hosts != "" {
		if j.hosts, err = readHosts(c.Hosts); err != nil {
			return j, err
		}
	}
	slots := slotsOf(j.hosts)
	j.ranks = cmp.Or(j.ranks, slots)
	switch {
	case j.ranks < 1 || j.ranks > mostRanks:
		return j, fmt.Errorf("launch: found -n %d, wanted 1 to %d ranks", c.Ranks, mostRanks)
	case len(j.hosts) > 0 && j.ranks > slots:
		return j, fmt.Errorf("launch: found -n %d and %d slots in %s, wanted slots for all ranks, as in `name slots=2`", j.ranks, slots, c.Hosts)
	case c.Restarts < 0:
		return j, fmt.Errorf("launch: found --restarts %d, wanted 0 or more", c.Restarts)
	case c.Shrink && (len(j.hosts) == 0 || c.Restarts == 0):
		return j, errors.New("launch: found --shrink, wanted also --hosts, of which some may go, and --restarts")
	}
	cfg, err := checkCommand(args)
	if err != nil {
		return j, err
	}
	j.replica = max(1, cfg.Pipeline.PerReplica())
	if c.Ranks == 0 {
		j.ranks -= j.ranks % j.replica
	}
	if j.ranks == 0 || j.ranks%j.replica != 0 {
		return j, fmt.Errorf("launch: found %d ranks, wanted a multiple of the %d that the stages are on (pipeline.adapters, %s)", j.ranks, j.replica, cfg.Origin("pipeline.adapters"))
	}
	return j, nil
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

// hostLine is a host as mpirun takes it, a name or an IPv4 address, with a user before it, who is no option of ssh.
var hostLine = regexp.MustCompile(`^((?:\w[\w.-]*@)?[A-Za-z0-9](?:[\w.-]*[A-Za-z0-9])?)(?:\s+slots=([1-9]\d{0,3}))?$`)

// readHosts reads a file of one host a line, `name` or `name slots=N`. A # begins a comment.
func readHosts(path string) (hosts []string, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("launch: hosts: %w", err)
	}
	for i, line := range strings.Split(string(text), "\n") {
		line, _, _ = strings.Cut(line, "#")
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		host := hostLine.FindStringSubmatch(line)
		if host == nil {
			return nil, fmt.Errorf("launch: hosts: %s:%d: found %q, wanted a host, as `name` or `name slots=N`", path, i+1, line)
		}
		hosts = append(hosts, host[1]+":"+cmp.Or(host[2], "1"))
	}
	if len(hosts) == 0 {
		return nil, fmt.Errorf("launch: hosts: %s: found no host, wanted one a line, as `name` or `name slots=N`", path)
	}
	return hosts, nil
}

// slotsOf is how many ranks hosts take together.
func slotsOf(hosts []string) (slots int) {
	for _, h := range hosts {
		n, _ := strconv.Atoi(h[strings.Index(h, ":")+1:])
		slots += n
	}
	return slots
}
