package reward

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"gputrain/internal/terminal"
)

// each is a command that is started for each row, which reads the completion: 1 where it ends with 0, else 0, and nothing where it is not over in time.
type each struct {
	args     []string
	dir      string
	limit    time.Duration // of a row
	at       int           // processes at once
	said     *sayings
	timeouts atomic.Int64
	late     atomic.Int64 // batches running of which nothing was over in time
}

// lookForCommand says whether there is such a program.
func lookForCommand(s Spec, e Env) error {
	if _, err := limitOf(s.Timeout); err != nil {
		return err
	}
	program := s.Command[0]
	if filepath.Base(program) != program && !filepath.IsAbs(program) {
		program = filepath.Join(e.Dir, program)
		if !filepath.IsAbs(program) { // or it is looked for in $PATH
			program = "." + string(filepath.Separator) + program
		}
	}
	_, err := exec.LookPath(program)
	if wrong, is := errors.AsType[*exec.Error](err); is {
		err = wrong.Err // without the name, which stands before it
	}
	if path, is := errors.AsType[*fs.PathError](err); is {
		err = path.Err
	}
	if err != nil {
		return fmt.Errorf("command %q: %w: wanted a program that may be run, and its arguments as items of the list", terminal.Text(s.Command[0]), err)
	}
	return nil
}

func openEach(s Spec, e Env) (Function, error) {
	limit, err := limitOf(s.Timeout)
	if err != nil {
		return nil, err
	}
	return &each{args: s.Command, dir: e.Dir, limit: limit, at: cmp.Or(s.Processes, runtime.NumCPU()), said: &sayings{name: s.Called(), to: e.Log}}, nil
}

// Rewards starts the command for each row, several at once.
func (c *each) Rewards(ctx context.Context, samples []Sample) ([]float64, error) {
	c.said.renew()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	answers, errs := nothing(len(samples)), make([]error, len(samples))
	var next, late atomic.Int64
	var running sync.WaitGroup
	for range min(c.at, len(samples)) {
		running.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(samples) && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				if answers[i], errs[i] = c.one(ctx, samples[i]); errs[i] != nil {
					stop()
				}
				if math.IsNaN(answers[i]) {
					late.Add(1)
				}
			}
		})
	}
	running.Wait()
	for _, err := range errs {
		if err != nil && !errors.Is(err, context.Canceled) {
			return nil, err
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c.timeouts.Add(late.Load())
	switch {
	case len(samples) == 0 || int(late.Load()) < len(samples):
		c.late.Store(0)
	case c.late.Add(1) > 1:
		return nil, fmt.Errorf("row %d: the time is over after %v, as for all rows of two batches running: wanted a faster command, or a longer timeout", samples[0].ID, c.limit)
	}
	return answers, nil
}

// one starts the command for a row.
func (c *each) one(parent context.Context, s Sample) (float64, error) {
	cmd := exec.Command(c.args[0], c.args[1:]...)
	cmd.Dir, cmd.Stdin, cmd.Stderr, cmd.WaitDelay = c.dir, strings.NewReader(s.Completion), lines{c.said}, leftPatience
	g, err := started(cmd)
	if err != nil {
		return 0, fmt.Errorf("row %d: command %q: %w", s.ID, terminal.Text(c.args[0]), err)
	}
	defer g.release()
	ctx, cancel := context.WithTimeout(parent, c.limit)
	defer cancel()
	unstopped := context.AfterFunc(ctx, g.kill)
	err = cmd.Wait()
	inTime := unstopped()
	g.kill() // what it has left
	switch {
	case parent.Err() != nil:
		return 0, parent.Err()
	case cmd.ProcessState == nil:
		return 0, fmt.Errorf("row %d: command %q: %w", s.ID, terminal.Text(c.args[0]), err)
	case !inTime && !cmd.ProcessState.Success():
		return math.NaN(), nil
	}
	return share(cmd.ProcessState.Success()), nil
}

// Timeouts counts the rows that reached the limit.
func (c *each) Timeouts() int64 { return c.timeouts.Load() }

// lines logs what is written, a line each.
type lines struct{ to *sayings }

// Write logs it.
func (l lines) Write(text []byte) (int, error) {
	for line := range bytes.Lines(text) {
		l.to.add(bytes.TrimRight(line, "\r\n"))
	}
	return len(text), nil
}
