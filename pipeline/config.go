package pipeline

import (
	"errors"
	"fmt"
	"time"

	"gputrain/gpu"
	"gputrain/internal/schedule"
	"gputrain/model"
	"gputrain/pipeline/partition"
	"gputrain/state"
)

// Config says what a pipeline trains and how.
type Config struct {
	// State is what one device would train: Batch is the rows of a microbatch and Microbatches how many make an update, of which the stages compute
	// state.Job.Share.
	State      state.Config
	Assignment partition.Assignment
	Schedule   string // "gpipe", "1f1b" (also "") or "interleaved"
	Ahead      int    // how many more forwards a stage runs before its first backward, in 1f1b
	// Timeout is how long a step may stand still, with nothing submitted, done or handed on by any stage, before it has failed; 0 is ten
	// minutes. The devices' Patience comes beside. A wait for one device ends by the device's WaitLimit.
	Timeout time.Duration
	// Profile keeps the timeline of every step, for State.Recorder; otherwise only that of the newest.
	Profile bool
	// NewLink makes the link between two devices for messages of the given sizes; nil is one through the host's memory.
	NewLink func(name string, capacity int, sizes []uint64) (Link, error)
}

// timeout is Timeout, or where the stages are on several ranks what these have in its place, which they learn as they train.
func (j job) timeout() time.Duration {
	if j.State.Mesh.Spread() {
		return j.State.Mesh.Patience()
	}
	return j.Timeout
}

// linkMaker makes the link between two devices.
type linkMaker func(name string, capacity int, sizes []uint64) (Link, error)

// job is a Config that has been checked, with every value that was left out.
type job struct {
	Config
	State state.Job
}

// newJob checks a configuration, and fills in what it leaves out. The job knows its ranks after an error too.
func newJob(c Config) (job, error) {
	trained, err := state.NewJob(c.State)
	j := job{Config: c, State: trained}
	if j.Timeout == 0 {
		j.Timeout = 10 * time.Minute
	}
	if j.Schedule == "" {
		j.Schedule = schedule.OneForwardOneBackward
	}
	if j.NewLink == nil {
		j.NewLink = func(name string, capacity int, sizes []uint64) (Link, error) {
			return newHostLink(name, capacity, sizes), nil
		}
	}
	if err == nil {
		err = j.check()
	}
	return j, err
}

// Validate reports the first value that cannot be meant, after the defaults.
func (c Config) Validate() error {
	_, err := newJob(c)
	return err
}

// check reports the first value that cannot be meant.
func (j job) check() error {
	if err := j.State.Validate(); err != nil {
		return err
	}
	if j.Assignment.Stages == 0 && j.Assignment.Parts == 0 {
		return fmt.Errorf("pipeline: assignment: found none, wanted one: partition.Auto and partition.ByRules make it")
	}
	if j.Assignment.Stages < 1 || j.Assignment.Parts < j.Assignment.Stages || j.Assignment.Parts%j.Assignment.Stages != 0 {
		return fmt.Errorf("pipeline: assignment: %d parts on %d stages, want a multiple", j.Assignment.Parts, j.Assignment.Stages)
	}
	for _, p := range j.State.Definition.Params() {
		if at, ok := j.Assignment.Part[p.Path]; !ok || at < 0 || at >= j.Assignment.Parts {
			return fmt.Errorf("pipeline: assignment: parameter %q: no part of %d", p.Path, j.Assignment.Parts)
		}
	}
	if n := j.State.Mesh.Divided(); n > 0 && n != j.Assignment.Stages {
		return fmt.Errorf("pipeline: ranks: found the ranks of %d stages, wanted those of %d", n, j.Assignment.Stages)
	}
	_, err := j.schedule()
	return err
}

// schedule is the order of an update. A replica without microbatches has the programs of one, and does not run them.
func (j job) schedule() (*schedule.Schedule, error) {
	return schedule.New(schedule.Config{
		Name: j.Schedule, Stages: j.Assignment.Stages, Chunks: j.Assignment.Parts / j.Assignment.Stages, Microbatches: max(1, j.State.Share().Count), Ahead: j.Ahead,
	})
}

// Names of outputs.
const (
	lossOutput   = "loss"
	sumsOutput   = "sums"
	logitsOutput = "logits"
)

// training is the line of an update.
func (j job) training() (*line, error) {
	t, err := j.State.Training(j.Assignment.Part)
	if err != nil {
		return nil, err
	}
	wanted := []output{{Name: lossOutput, Value: t.LossSum}}
	if t.Sums != nil {
		wanted = append(wanted, output{Name: sumsOutput, Value: t.Sums})
	}
	cut, err := newCut(t.Graph, t.Forward, j.Assignment.Part, j.Assignment.Parts, t.Gradients, wanted)
	if err != nil {
		return nil, err
	}
	s, err := j.schedule()
	if err != nil {
		return nil, err
	}
	// A tied head makes parts exchange what are no neighbours, which the schedule was not made for.
	if err := s.Check(schedule.LinkMessages, cut.Detours()...); err != nil {
		return nil, err
	}
	l := newLine("training", cut, s)
	l.accumulate = j.State.InPlace()
	return l, nil
}

// forwardLine is the line of a pass without gradients over up to n microbatches.
func (j job) forwardLine(label string, n int, built *model.Built, wanted output) (*line, error) {
	cut, err := newCut(built.Graph, len(built.Graph.Nodes()), j.Assignment.Part, j.Assignment.Parts, nil, []output{wanted})
	if err != nil {
		return nil, err
	}
	l := newLine(label, cut, schedule.ForwardOnly(j.Assignment.Stages, j.Assignment.Parts, n))
	l.caches = built.Caches
	return l, nil
}

// evaluated is how many batches of an evaluation are under way at once.
const evaluated = 8

func (j job) evaluation() (*line, error) {
	built, losses, err := state.Evaluation(j.State.Definition, j.State.Objective.OfBatch(), j.State.Evaluation, j.State.Sequence, j.State.Documents)
	if err != nil {
		return nil, err
	}
	return j.forwardLine("evaluation", evaluated, built, output{Name: lossOutput, Value: losses})
}

// look is the line of the pass before an update.
func (j job) look() (*line, error) {
	o, _ := j.State.Objective.Ahead()
	built, losses, err := state.Evaluation(j.State.Definition, o, j.State.Batch, j.State.Sequence, false)
	if err != nil {
		return nil, err
	}
	return j.forwardLine("look", evaluated, built, output{Name: lossOutput, Value: losses})
}

// continuing is the line of a pass that goes on with texts.
func (j job) continuing(pass string) (*line, error) {
	built, wanted, err := state.Generation(j.State.Definition, j.State.Sequence, j.State.Paging(), pass, j.Assignment.Parts > 1)
	if err != nil {
		return nil, err
	}
	return j.forwardLine(pass, 1, built, output{Name: logitsOutput, Value: wanted})
}

// checkDevices compares devices with the assignment.
func (j job) checkDevices(devices []*gpu.Device) error {
	if len(devices) != j.Assignment.Stages {
		return fmt.Errorf("pipeline: devices: found %d, wanted one for each of %d stages", len(devices), j.Assignment.Stages)
	}
	for i, d := range devices {
		if d == nil {
			return errors.New("pipeline: devices: none for stage " + fmt.Sprint(i))
		}
		if !d.Dry() && !j.State.Mesh.Here(i) {
			return fmt.Errorf("pipeline: devices: stage %d: found a device, wanted one without hardware: the stage is on %s", i, j.State.Mesh.Where(i))
		}
	}
	return nil
}
