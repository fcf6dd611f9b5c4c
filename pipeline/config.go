package pipeline

import (
	"errors"
	"fmt"
	"time"

	"gputrain/gpu"
	"gputrain/model"
	"gputrain/pipeline/partition"
	"gputrain/pipeline/schedule"
	"gputrain/state"
)

// Config says what a pipeline trains and how.
type Config struct {
	// State is what one device would train: Batch is the rows of a microbatch and Microbatches how many make an update, of which the stages compute
	// State.Share.
	State      state.Config
	Assignment partition.Assignment
	Schedule   string // GPipe, OneForwardOneBackward or Interleaved
	Ahead      int    // see schedule.Config
	// Timeout is how long a step may stand still, with nothing submitted, done or handed on by any stage, before it has failed; 0 is ten
	// minutes. The devices' Patience comes beside. A wait for one device ends by the device's WaitLimit.
	Timeout time.Duration
	// Profile keeps the timeline of every step, for State.Recorder; otherwise only that of the newest.
	Profile bool
	// NewLink makes the link between two devices for messages of the given sizes; nil is a HostLink.
	NewLink func(name string, capacity int, sizes []uint64) (Link, error)
}

// timeout is Timeout, or where the stages are on several ranks what these have in its place, which they learn as they train.
func (c Config) timeout() time.Duration {
	if c.State.Mesh.Spread() {
		return c.State.Mesh.Patience()
	}
	return c.Timeout
}

// linkMaker makes the link between two devices.
type linkMaker func(name string, capacity int, sizes []uint64) (Link, error)

func (c Config) withDefaults() Config {
	c.State = c.State.WithDefaults()
	if c.Timeout == 0 {
		c.Timeout = 10 * time.Minute
	}
	if c.Schedule == "" {
		c.Schedule = schedule.OneForwardOneBackward
	}
	if c.NewLink == nil {
		c.NewLink = func(name string, capacity int, sizes []uint64) (Link, error) {
			return NewHostLink(name, capacity, sizes)
		}
	}
	return c
}

// Validate reports the first value that cannot be meant, after the defaults.
func (c Config) Validate() error {
	c = c.withDefaults()
	if err := c.State.Validate(); err != nil {
		return err
	}
	if c.Assignment.Stages == 0 && c.Assignment.Parts == 0 {
		return fmt.Errorf("pipeline: assignment: found none, wanted one: partition.Auto and partition.ByRules make it")
	}
	if c.Assignment.Stages < 1 || c.Assignment.Parts < c.Assignment.Stages || c.Assignment.Parts%c.Assignment.Stages != 0 {
		return fmt.Errorf("pipeline: assignment: %d parts on %d stages, want a multiple", c.Assignment.Parts, c.Assignment.Stages)
	}
	for _, p := range c.State.Definition.Params() {
		if at, ok := c.Assignment.Part[p.Path]; !ok || at < 0 || at >= c.Assignment.Parts {
			return fmt.Errorf("pipeline: assignment: parameter %q: no part of %d", p.Path, c.Assignment.Parts)
		}
	}
	if n := c.State.Mesh.Divided(); n > 0 && n != c.Assignment.Stages {
		return fmt.Errorf("pipeline: ranks: found the ranks of %d stages, wanted those of %d", n, c.Assignment.Stages)
	}
	_, err := c.schedule()
	return err
}

// schedule is the order of an update. A replica without microbatches has the programs of one, and does not run them.
func (c Config) schedule() (*schedule.Schedule, error) {
	return schedule.New(schedule.Config{
		Name: c.Schedule, Stages: c.Assignment.Stages, Chunks: c.Assignment.Parts / c.Assignment.Stages, Microbatches: max(1, c.State.Share().Count), Ahead: c.Ahead,
	})
}

// Names of outputs.
const (
	lossOutput   = "loss"
	pairsOutput  = "pairs"
	logitsOutput = "logits"
)

// training is the line of an update.
func (c Config) training() (*line, error) {
	t, err := c.State.Training(c.Assignment.Part)
	if err != nil {
		return nil, err
	}
	wanted := []partition.Output{{Name: lossOutput, Value: t.LossSum}}
	if t.PairSums != nil {
		wanted = append(wanted, partition.Output{Name: pairsOutput, Value: t.PairSums})
	}
	cut, err := partition.NewCut(t.Graph, t.Forward, c.Assignment.Part, c.Assignment.Parts, t.Gradients, wanted)
	if err != nil {
		return nil, err
	}
	s, err := c.schedule()
	if err != nil {
		return nil, err
	}
	// A tied head makes parts exchange what are no neighbours, which the schedule was not made for.
	if err := s.Check(schedule.LinkMessages, cut.Detours()...); err != nil {
		return nil, err
	}
	l := newLine("training", cut, s)
	l.accumulate = c.State.InPlace()
	return l, nil
}

// forwardLine is the line of a pass without gradients over up to n microbatches.
func (c Config) forwardLine(label string, n int, built *model.Built, wanted partition.Output) (*line, error) {
	cut, err := partition.NewCut(built.Graph, len(built.Graph.Nodes()), c.Assignment.Part, c.Assignment.Parts, nil, []partition.Output{wanted})
	if err != nil {
		return nil, err
	}
	l := newLine(label, cut, schedule.ForwardOnly(c.Assignment.Stages, c.Assignment.Parts, n))
	l.caches = built.Caches
	return l, nil
}

// evaluated is how many batches of an evaluation are under way at once.
const evaluated = 8

func (c Config) evaluation() (*line, error) {
	built, losses, err := state.Evaluation(c.State.Definition, c.State.Preference, c.State.Evaluation, c.State.Sequence, c.State.Documents)
	if err != nil {
		return nil, err
	}
	return c.forwardLine("evaluation", evaluated, built, partition.Output{Name: lossOutput, Value: losses})
}

// prefill is the line that takes a piece of a window in, decode the one that goes on with a token.
func (c Config) prefill() (*line, error) {
	return c.generation("prefill", state.PrefillRows(c.State.Sequence))
}

func (c Config) decode() (*line, error) { return c.generation("decode", 1) }

func (c Config) generation(label string, rows int) (*line, error) {
	built, err := state.Generation(c.State.Definition, rows, c.State.Sequence)
	if err != nil {
		return nil, err
	}
	return c.forwardLine(label, 1, built, partition.Output{Name: logitsOutput, Value: built.Logits})
}

// check compares devices with the assignment.
func (c Config) check(devices []*gpu.Device) error {
	if err := c.Validate(); err != nil {
		return err
	}
	if len(devices) != c.Assignment.Stages {
		return fmt.Errorf("pipeline: devices: found %d, wanted one for each of %d stages", len(devices), c.Assignment.Stages)
	}
	for i, d := range devices {
		if d == nil {
			return errors.New("pipeline: devices: none for stage " + fmt.Sprint(i))
		}
		if !d.Dry() && !c.State.Mesh.Here(i) {
			return fmt.Errorf("pipeline: devices: stage %d: found a device, wanted one without hardware: the stage is on %s", i, c.State.Mesh.Where(i))
		}
	}
	return nil
}
