package train

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"syscall"

	"gputrain/hub"
	"gputrain/internal/stranger"
	"gputrain/internal/terminal"
	"gputrain/model"
	"gputrain/run/record"
	"gputrain/run/runfile"
	"gputrain/state/checkpoint"
)

// Summary is what the files of a run directory tell of a run, whether it has ended, goes on or was killed.
type Summary struct {
	Run         string             `json:"run"` // the name of its directory
	Title       string             `json:"title"`
	Step        int64              `json:"step"`
	Steps       int64              `json:"steps"`
	Ended       string             `json:"ended,omitempty"` // of the newest process; "": it goes on, or was killed
	Processes   int                `json:"processes"`
	Adapter     string             `json:"adapter,omitempty"`
	Program     string             `json:"program,omitempty"`
	Checkpoint  string             `json:"checkpoint,omitempty"` // the name of the newest
	Fingerprint string             `json:"fingerprint,omitempty"`
	Origin      string             `json:"origin,omitempty"` // the fingerprint of what model.from had
	Data        *Amounts           `json:"data,omitempty"`
	Facts       facts              `json:"facts"`
	First       *Metrics           `json:"first,omitempty"`
	Last        *Metrics           `json:"last,omitempty"`
	Best        *EvalMetrics       `json:"best,omitempty"`
	Evaluations []EvalMetrics      `json:"evaluations"`
	Samples     []Sample           `json:"samples"`
	Settings    []runfile.Recorded `json:"settings"`

	report report
	why    string // it has ended before all steps were made; "": it has not
	logs   logs
}

// ReadSummary reads a run directory, and changes nothing in it. What is none is a *DirError.
func ReadSummary(dir string) (*Summary, error) { return summary(dir, -1) }

// ReadSummaryAt is ReadSummary of the run as it was at the checkpoint of a step.
func ReadSummaryAt(dir string, step int64) (*Summary, error) { return summary(dir, step) }

// summary reads up to a step; -1: all there is.
func summary(dir string, step int64) (*Summary, error) {
	text, err := stranger.Read(filepath.Join(dir, runFile))
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return nil, &DirError{dir, fmt.Errorf("found no %s, wanted the directory of a run, which has one: %w", runFile, fs.ErrNotExist)}
	case err != nil:
		return nil, &DirError{dir, err}
	case !record.Is(text):
		return nil, &DirError{dir, fmt.Errorf("found a %s that gputrain has not written, wanted the directory of a run", runFile)}
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	begun, err := record.Read(text)
	if err != nil {
		return nil, &DirError{dir, fmt.Errorf("%s: %w", runFile, err)}
	}
	s := &Summary{
		Run: filepath.Base(abs), Evaluations: []EvalMetrics{}, Samples: []Sample{}, Settings: begun.Settings, Origin: begun.Origin,
		report: report{settings: text},
	}
	most := step
	if step < 0 {
		most = math.MaxInt64
	}
	if s.logs, err = readLogs(dir, most); err != nil {
		return nil, fmt.Errorf("train: report: %w", err)
	}
	s.addLogs()
	newest, err := s.readSessions(dir, most)
	if err == nil {
		err = s.readCheckpoint(dir, step)
	}
	if err != nil {
		return nil, fmt.Errorf("train: report: %w", err)
	}
	s.addFacts(begun.Decisions, newest)
	return s, nil
}

// addLogs takes over what the logs tell.
func (s *Summary) addLogs() {
	l := s.logs
	if l.lines > 0 {
		s.First, s.Last, s.Step = &l.first, &l.last, l.last.Step
	}
	s.Best = l.best()
	s.Evaluations, s.Samples = append(s.Evaluations, l.evals...), append(s.Samples, l.samples...)
	for _, r := range s.Settings {
		if r.Key == "train.steps" {
			_ = json.Unmarshal(r.Value, &s.Steps) // of a record that somebody has changed it is 0
		}
	}
}

// readSessions reads what processes have said of the run that began before a step, and gives the newest of them.
func (s *Summary) readSessions(dir string, most int64) (newest session, err error) {
	text, err := stranger.Read(filepath.Join(dir, sessionsFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return newest, err
	}
	for line := range bytes.Lines(text) {
		var one session
		if json.Unmarshal(line, &one) != nil || one.Step >= most {
			continue
		}
		if one.Title == "" { // it has not come to its first step, or is of an older program
			one.told = newest.told
		}
		newest = one
		s.Processes++
	}
	s.Title, s.Adapter, s.Program, s.Data = newest.Title, newest.Adapter, newest.Program, newest.Data
	if newest.Ended != nil && newest.Ended.Step <= most {
		s.Ended, s.why = newest.Ended.Reason, newest.Ended.Why
		s.Step = max(s.Step, newest.Ended.Step)
	}
	return newest, nil
}

// readCheckpoint reads the checkpoint of a step; -1: the newest that can be read.
func (s *Summary) readCheckpoint(dir string, step int64) error {
	store := checkpoint.Store{FS: checkpoint.OS, Dir: filepath.Join(dir, checkpointsDir)}
	steps, err := store.Steps()
	if err != nil {
		return err
	}
	if step >= 0 {
		steps = []int64{step}
	}
	for _, step := range steps {
		at := filepath.Join(store.Dir, checkpoint.DirName(step))
		record, err := checkpoint.ReadRecord(checkpoint.OS, at)
		if err != nil {
			continue // a resume says what is wrong with it
		}
		s.Checkpoint, s.Fingerprint, s.Step = filepath.Base(at), record.Run.Fingerprint, max(s.Step, step)
		if s.Adapter == "" {
			s.Adapter = record.Adapter
		}
		if def, err := hub.ReadConfig(at); err == nil && s.Title == "" {
			s.Title = def.Kind()
			s.Facts.add("model", "%s, %s parameters", def.Kind(), grouped(model.Parameters(def)))
		}
		break
	}
	return nil
}

// addFacts makes the report's table of what was found.
func (s *Summary) addFacts(decided []record.Decision, newest session) {
	if len(newest.Facts) > 0 {
		s.Facts = slices.Clone(newest.Facts)
	} else {
		s.Facts.add("adapter", "%s", s.Adapter)
		s.Facts.add("program", "%s", s.Program)
	}
	if s.Title == "" {
		s.Title = s.Run
	}
	state := "goes on, or was killed,"
	if s.Ended != "" {
		state = s.Ended
	}
	s.Facts.add("state", "%s at step %s of %s%s", state, grouped(s.Step), grouped(s.Steps), because(s.why))
	if s.Processes > 1 {
		s.Facts.add("processes", "%d, the newest from step %s", s.Processes, grouped(newest.Step))
	}
	for _, d := range decided {
		s.Facts.add("schedule", "%s", d.Text)
	}
	if s.Checkpoint != "" {
		s.Facts.add("checkpoint", "%s", s.Checkpoint)
	}
	s.report.title, s.report.facts, s.report.work = s.Title, s.Facts, newest.Work
}

// Text is the report as a page.
func (s *Summary) Text() []byte { return []byte(terminal.Visible(string(s.report.text(s.logs, "")))) }

// IsReport tells a report, as a page or as a Summary in JSON, from a file of somebody else.
func IsReport(text []byte) bool {
	var s struct {
		Run, Title *string
		Settings   []runfile.Recorded
	}
	return record.In(text) || json.Unmarshal(text, &s) == nil && s.Run != nil && s.Title != nil && len(s.Settings) > 0
}
