package train

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gputrain/optim"
)

// ErrNoRun says that there is no run whose schedule could change.
var ErrNoRun = errors.New("found no checkpoint, wanted a run to go on with")

// A change is a setting that is not what it was, both in JSON.
type change struct{ key, was, is string }

// reschedule is what Config.Reschedule changes now, and what it changed before: every decision stays in run.yaml, as a comment at its head.
type reschedule struct {
	changes   []change
	decisions []decision
	moved     string // what there is to say of a directory that has moved since; "": none has
	origin    string // the fingerprint of what the run began with; "": nobody has noted it
}

// decision is a change of the schedule at a step: a checkpoint of that step or of an earlier one may have been made with the former one.
type decision struct {
	step int64
	text string
}

var decisionLine = regexp.MustCompile(`(?m)^# (rescheduled at step (\d+): .*)$`)

// reschedule compares the settings of the run directory, which has checkpoints, and reads what was decided before.
func (e earlier) reschedule(c Config) (reschedule, error) {
	var r reschedule
	changes, moved, err := e.compare(c.Settings, c.Reschedule)
	if err != nil {
		return r, err
	}
	r.changes = changes
	for _, m := range decisionLine.FindAllSubmatch(e.record, -1) {
		step, err := strconv.ParseInt(string(m[2]), 10, 64)
		if err != nil {
			return r, fmt.Errorf("train: run directory %q: %s: %q: %w", c.Dir, runFile, m[0], err)
		}
		r.decisions = append(r.decisions, decision{step, string(m[1])})
	}
	if m := originLine.FindSubmatch(e.record); m != nil {
		r.origin = string(m[1])
	}
	for _, m := range moved {
		if m.key != modelFrom {
			return r, &ChangedError{Dir: c.Dir, Key: m.key, Found: m.was, Wanted: m.is}
		}
		r.moved, err = c.follow(m, r.origin)
	}
	return r, err
}

// text is the head of run.yaml.
func (r reschedule) text() []byte {
	var out strings.Builder
	for _, d := range r.decisions {
		fmt.Fprintf(&out, "# %s\n", d.text)
	}
	if r.origin != "" {
		fmt.Fprintf(&out, originForm+"\n", r.origin)
	}
	return []byte(out.String())
}

// reschedule decides at the step of a checkpoint, and tells whether that may be of another schedule.
func (t *opening) reschedule(step int64) bool {
	r := &t.decided
	if len(r.changes) > 0 {
		var parts []string
		for _, c := range r.changes {
			parts = append(parts, fmt.Sprintf("%s %s -> %s", c.key, c.was, c.is))
		}
		d := decision{step, fmt.Sprintf("rescheduled at step %d: %s", step, strings.Join(parts, ", "))}
		r.decisions = append(r.decisions, d)
		t.say("%s", d.text)
	}
	return t.config.Reschedule || slices.ContainsFunc(r.decisions, func(d decision) bool { return d.step >= step })
}

// optimizerSettings are the parts of an optimizer's configuration, of which the schedule is one.
func optimizerSettings(c optim.Config) []Setting {
	const origin = "program"
	var options map[string]json.RawMessage
	c.Options.Schedule, c.Options.Edition = c.Options.Schedule.Complete(), 0 // checkpoints know the edition
	raw, err := json.Marshal(c.Options)
	if err == nil {
		err = json.Unmarshal(raw, &options)
	}
	if err != nil {
		return []Setting{{Key: "optimizer", Value: c, Origin: origin}} // whose form is an error where run.yaml is written
	}
	out := []Setting{{Key: "optimizer.name", Value: c.Name, Origin: origin}}
	for _, name := range slices.Sorted(maps.Keys(options)) {
		out = append(out, Setting{Key: "optimizer.options." + name, Value: options[name], Origin: origin, Schedule: name == "schedule"})
	}
	return append(out, Setting{Key: "optimizer.parameters", Value: c.Parameters, Origin: origin})
}
