package reward

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

const (
	usualLimit   = time.Minute     // of time: of a batch, or of a row
	closingGrace = 2 * time.Second // after the end of its stdin, until a command is killed
	leftPatience = time.Second     // with pipes that a process which has ended has left to others
)

// limitOf reads a time limit.
func limitOf(text string) (time.Duration, error) {
	if text == "" {
		return usualLimit, nil
	}
	limit, err := time.ParseDuration(text)
	if err != nil || limit <= 0 {
		return 0, fmt.Errorf("timeout: found %q, wanted a time such as 60s or 5m", text)
	}
	return limit, nil
}

// A command is a process that reads a row a line and answers a line each, for as long as the run.
type command struct {
	args     []string
	dir      string
	limit    time.Duration // of a batch
	said     *sayings
	timeouts atomic.Int64

	mu     sync.Mutex
	now    *process // nil: none is there
	late   int      // batches running that reached the limit
	failed error    // after which it is asked no more
}

func openCommand(s Spec, e Env) (Function, error) {
	limit, err := limitOf(s.Timeout)
	if err != nil {
		return nil, err
	}
	c := &command{args: s.Command, dir: e.Dir, limit: limit, said: &sayings{name: s.Called(), to: e.Log}}
	c.now, err = start(c.args, c.dir, c.said)
	return c, err
}

// Rewards writes the rows of a batch and reads the answers at once. Rows without an answer when the time is over get none; the process is then
// another one.
func (c *command) Rewards(ctx context.Context, samples []Sample) (answers []float64, err error) {
	text, err := rows(samples)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := cmp.Or(c.failed, ctx.Err()); err != nil || len(samples) == 0 {
		return nil, err
	}
	if c.now == nil {
		if c.now, err = start(c.args, c.dir, c.said); err != nil {
			return nil, err
		}
	}
	c.said.renew()
	answers, err = c.ask(ctx, samples, text)
	switch {
	case err == nil:
		c.late = 0
	case errors.Is(err, errLate):
		c.timeouts.Add(1)
		c.now.end(0)
		if c.late++; c.late > 1 {
			c.now, c.failed = nil, fmt.Errorf("%w, twice running: wanted answers that are flushed, or a longer timeout", err)
			return nil, c.failed
		}
		c.said.tell(err.Error() + "; it is started again, and rows without an answer have none of this reward")
		if c.now, err = start(c.args, c.dir, c.said); err != nil {
			c.failed = err
		}
	case ctx.Err() != nil:
		c.now.end(closingGrace)
		c.now = nil
	default:
		c.now.end(0)
		c.now, c.failed = nil, err
	}
	return answers, err
}

// errLate ends a batch whose time is over.
var errLate = errors.New("time is over")

// ask has a batch answered.
func (c *command) ask(ctx context.Context, samples []Sample, text []byte) ([]float64, error) {
	p, answers := c.now, nothing(len(samples))
	select {
	case a, ok := <-p.answers:
		if ok {
			return nil, fmt.Errorf("row %d: found %s before the row was written, wanted one line a row", samples[0].ID, a.text)
		}
		return nil, p.ended(samples, 0)
	default:
	}
	timer := time.NewTimer(c.limit)
	defer timer.Stop()
	wrote := p.write(text)
	n := 0
	for n < len(samples) || wrote != nil {
		select {
		case a, ok := <-p.answers:
			switch {
			case !ok:
				return nil, p.ended(samples, n)
			case n == len(samples):
				return nil, tooMany(a.text, n)
			case a.err != nil:
				return nil, fmt.Errorf("row %d: %w", samples[n].ID, a.err)
			}
			answers[n] = a.value
			if n++; n == len(samples) && a.more {
				return nil, tooMany("more", n)
			}
		case <-wrote:
			wrote = nil
		case <-timer.C:
			if n == len(samples) {
				return answers, fmt.Errorf("the %w after %v: found %d answers, but rows that were not read", errLate, c.limit, n)
			}
			return answers, fmt.Errorf("row %d: the %w after %v: found %d of %d answers", samples[n].ID, errLate, c.limit, n, len(samples))
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	select {
	case a, ok := <-p.answers:
		if ok {
			return nil, tooMany(a.text, n)
		}
	default:
	}
	return answers, nil
}

func tooMany(text string, rows int) error {
	return fmt.Errorf("found %s after %d answers, wanted as many lines as rows", text, rows)
}

// Timeouts counts the batches that reached the limit.
func (c *command) Timeouts() int64 { return c.timeouts.Load() }

// Close ends the process.
func (c *command) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.now != nil {
		c.now.end(closingGrace)
		c.now = nil
	}
	c.said.renew()
	if c.failed == nil {
		c.failed = errors.New("found a command that is closed")
	}
	return nil
}

// nothing is said of n rows.
func nothing(n int) []float64 {
	answers := make([]float64, n)
	for i := range answers {
		answers[i] = math.NaN()
	}
	return answers
}

// rows are samples as lines of JSON: the columns of each, and what it is in the place of columns of the same names.
func rows(samples []Sample) ([]byte, error) {
	var all bytes.Buffer
	for _, s := range samples {
		row := maps.Clone(s.Columns)
		if row == nil {
			row = map[string]any{}
		}
		ids := s.Tokens
		if ids == nil {
			ids = []int32{}
		}
		row["id"], row["prompt"], row["completion"], row["completion_ids"], row["truncated"] = s.ID, s.Prompt, s.Completion, ids, s.Truncated
		text, err := line(row)
		if err != nil {
			return nil, fmt.Errorf("row %d: columns: %w", s.ID, err)
		}
		all.Write(text)
	}
	return all.Bytes(), nil
}
