package train

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"gputrain/optim"
	"gputrain/run/record"
)

// errNoRun says that there is no run whose schedule could change.
var errNoRun = errors.New("found no checkpoint, wanted a run to go on with")

// reschedule is what Config.Reschedule changes now, and what it changed before: every decision stays in run.yaml, as a comment at its head.
type reschedule struct {
	record.Record
	changes []record.Change
	moved   string // what there is to say of a directory that has moved since; "": none has
}

// reschedule compares the settings of the run directory, which has checkpoints, with those of a run that wants to go on.
func (e earlier) reschedule(c Config) (r reschedule, err error) {
	r.Record = e.Record
	var moved []record.Change
	if r.changes, moved, err = e.compare(c.Settings, c.Reschedule); err != nil {
		return reschedule{}, err
	}
	for _, d := range r.Decisions {
		if d.Err != nil {
			return r, fmt.Errorf("train: run directory %q: %s: %w", c.Dir, runFile, d.Err)
		}
	}
	for _, m := range moved {
		if m.Key != modelFrom {
			return r, &ChangedError{Dir: c.Dir, Key: m.Key, Found: m.Was, Wanted: m.Is}
		}
		r.moved, err = c.follow(m, r.Origin)
	}
	return r, err
}

// reschedule decides at the step of a checkpoint, and tells whether that may be of another schedule.
func (t *opening) reschedule(step int64) bool {
	r := &t.decided
	if len(r.changes) > 0 {
		var parts []string
		for _, c := range r.changes {
			parts = append(parts, fmt.Sprintf("%s %s -> %s", c.Key, c.Was, c.Is))
		}
		d := record.Decision{Step: step, Text: fmt.Sprintf("rescheduled at step %d: %s", step, strings.Join(parts, ", "))}
		r.Decisions = append(r.Decisions, d)
		t.say("%s", d.Text)
	}
	return t.config.Reschedule || slices.ContainsFunc(r.Decisions, func(d record.Decision) bool { return d.Step >= step })
}

// optimizerSettings are the parts of an optimizer's configuration, of which the schedule is one.
func optimizerSettings(c optim.Config) []record.Setting {
	const origin = "program"
	var options map[string]json.RawMessage
	c.Options.Schedule, c.Options.Edition = c.Options.Schedule.Complete(), 0 // checkpoints know the edition
	raw, err := json.Marshal(c.Options)
	if err == nil {
		err = json.Unmarshal(raw, &options)
	}
	if err != nil {
		return []record.Setting{{Key: "optimizer", Value: c, Origin: origin}} // whose form is an error where run.yaml is written
	}
	out := []record.Setting{{Key: "optimizer.name", Value: c.Name, Origin: origin}}
	for _, name := range slices.Sorted(maps.Keys(options)) {
		out = append(out, record.Setting{Key: "optimizer.options." + name, Value: options[name], Origin: origin, Schedule: name == "schedule"})
	}
	return append(out, record.Setting{Key: "optimizer.parameters", Value: c.Parameters, Origin: origin})
}
