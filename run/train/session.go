package train

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"gputrain/internal/stranger"
)

// sessionsFile has a line for each process that made steps of a run. It says when, so it differs where all else is the same, and is never
// taken back: what a process has computed beyond its last checkpoint is in no other file.
const sessionsFile = "sessions.jsonl"

// session is a line of it.
type session struct {
	Step    int64     `json:"step"` // that the process went on from; 0: it began
	Time    time.Time `json:"time"`
	Adapter string    `json:"adapter"`
	Program string    `json:"program,omitempty"`
	// Measured is what the process measured before its first step; nil: nothing.
	Measured *measured `json:"measured,omitempty"`
	told
	// Ended is why and where the process ended; nil: it goes on, or was killed.
	Ended *ended `json:"ended,omitempty"`
}

// told is what a process knows of its run before its first step, for reports that others make of its files.
type told struct {
	Title string   `json:"title,omitempty"`
	Facts facts    `json:"facts,omitempty"`
	Work  []work   `json:"work,omitempty"`
	Data  *Amounts `json:"data,omitempty"`
}

type ended struct {
	Reason string `json:"reason"`
	Why    string `json:"why,omitempty"` // before all steps were made, if no evaluation was better
	Step   int64  `json:"step"`
}

// measured is how long everything takes that a run does, in nanoseconds, and what that holds for.
type measured struct {
	Program      string        `json:"program"`
	Memory       []uint64      `json:"memory"` // planned bytes of each stage, which tell shapes apart
	SampleTokens int           `json:"sample_tokens"`
	Step         time.Duration `json:"step"`
	Evaluation   time.Duration `json:"evaluation"`
	Sample       time.Duration `json:"sample"`
	Checkpoint   time.Duration `json:"checkpoint"`
}

// measuring is what a measurement of this process would hold for.
func (t *trainer) measuring() measured {
	m := measured{Program: Program(), SampleTokens: t.config.Sample.Tokens}
	for _, stage := range t.reporter.takes.Memory {
		m.Memory = append(m.Memory, stage.Total())
	}
	return m
}

// measuredBefore is what an earlier process of this run measured, and at which step, where that holds for this one: on processors, and where a step takes
// long. What takes a moment is measured again, and submits to a card are planned by what is measured.
func (t *trainer) measuredBefore() (found *measured, step int64) {
	if t.resumed == 0 || t.config.Ranks != nil || t.ends() {
		return nil, 0
	}
	for _, d := range t.team.own() {
		if !d.Limits().Software {
			return nil, 0
		}
	}
	text, _ := stranger.Read(t.dir.join(sessionsFile)) // where it cannot be read, all is measured
	want := t.measuring()
	for line := range bytes.Lines(text) {
		var s session
		if json.Unmarshal(line, &s) != nil || s.Measured == nil || s.Adapter != t.adapter() || s.Measured.Step < measureFor {
			continue
		}
		if m := s.Measured; m.Program == want.Program && m.SampleTokens == want.SampleTokens && slices.Equal(m.Memory, want.Memory) {
			found, step = m, s.Step
		}
	}
	return found, step
}

// noteBegun writes into the line of this process what is known before its first step; measured says that some of it was measured.
func (t *trainer) noteBegun(measured bool) error {
	if t.session == nil {
		return nil
	}
	if f := t.display.forecast; measured && f.steps.each > 0 {
		m := t.measuring()
		m.Step, m.Evaluation, m.Sample, m.Checkpoint = f.steps.each, f.evaluations.each, f.samples.each, f.checkpoints.each
		t.session.Measured = &m
	}
	t.session.told = told{Title: t.config.Title, Facts: t.reporter.facts, Work: t.reporter.work, Data: t.config.Data}
	return t.noteSession()
}

// noteEnded writes into it why and where the process ends.
func (t *trainer) noteEnded(kind Kind, why string) error {
	if t.session == nil {
		return nil
	}
	t.session.Ended = &ended{kind.String(), why, t.state.Step()}
	return t.noteSession()
}

// noteSession writes the line of this process anew.
func (t *trainer) noteSession() error {
	text, err := stranger.Read(t.dir.join(sessionsFile))
	if err != nil {
		return fmt.Errorf("train: run directory: %w", err)
	}
	return t.writeSession(bytes.TrimSuffix(text, []byte("\n")))
}

// logSession adds a line for this process, unless there is nothing left for it to do.
func (t *opening) logSession() error {
	step := t.state.Step()
	if t.ends() {
		return nil
	}
	text, err := stranger.Read(t.dir.join(sessionsFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("train: run directory: %w", err)
	}
	t.session = &session{Step: step, Time: time.Now().UTC().Truncate(time.Second), Adapter: t.adapter(), Program: Program()}
	return t.writeSession(text)
}

// writeSession puts the line of this process behind the lines of a text that have an end.
func (t *trainer) writeSession(text []byte) error {
	line, err := json.Marshal(t.session)
	if err != nil {
		return fmt.Errorf("train: %s: %w", sessionsFile, err)
	}
	text = text[:bytes.LastIndexByte(text, '\n')+1]
	return t.dir.replace(sessionsFile, append(append(text, line...), '\n'))
}
