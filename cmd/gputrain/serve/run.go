package serve

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"gputrain/cmd/gputrain/follow"
	"gputrain/model"
	"gputrain/run/runfile"
)

// Files of a run directory, the only ones that are read.
const (
	metricsFile    = "metrics.jsonl"
	samplesFile    = "samples.jsonl"
	rolloutsFile   = "rollouts.jsonl"
	histogramsFile = "histograms.jsonl"
	sessionsFile   = "sessions.jsonl"
	settingsFile   = runfile.RecordFile
	reportFile     = "report.md"
	checkpointsDir = "checkpoints"
)

// run is one run directory and what has been read of it.
type run struct {
	id  int
	dir string

	mu          sync.Mutex
	metrics     follow.Lines
	table       *table // of its lines; nil: it has not been looked at
	samples     list
	rollouts    list
	histograms  list
	sessions    list // of processes, each with the step that it went on from
	settings    []runfile.Recorded
	settingsAge time.Time // of the run file
	reportAge   time.Time
	changed     time.Time // when metrics.jsonl last grew, by its file
	warnings    []string
	version     int64 // goes up with every change
	rewound     int64 // the version at which something was last taken back
}

func newRun(id int, dir string) *run {
	return &run{
		id: id, dir: dir,
		metrics: follow.Lines{Name: metricsFile}, samples: list{lines: follow.Lines{Name: samplesFile}}, rollouts: list{lines: follow.Lines{Name: rolloutsFile}}, histograms: list{lines: follow.Lines{Name: histogramsFile}}, sessions: list{lines: follow.Lines{Name: sessionsFile}},
	}
}

// isRun says whether a directory is a run's. A run file alone may be one that somebody wrote.
func isRun(dir string) bool {
	info, err := os.Stat(filepath.Join(dir, metricsFile))
	return err == nil && info.Mode().IsRegular()
}

// poll reads what is new. Version next is taken where something is.
func (r *run) poll(next func() int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	root, err := os.OpenRoot(r.dir)
	if err != nil {
		r.warn(next, []string{err.Error()})
		return
	}
	defer root.Close()
	var warnings []string
	failed := func(err error) {
		if err != nil && len(warnings) < 5 {
			warnings = append(warnings, err.Error())
		}
	}
	changed := false
	if info, err := root.Stat(settingsFile); err == nil && !info.ModTime().Equal(r.settingsAge) {
		text, err := readSmall(root, settingsFile)
		failed(err)
		if r.settings, err = runfile.ReadRecord(text); err != nil {
			failed(fmt.Errorf("serve: %s: %w", settingsFile, err))
		}
		r.settingsAge, changed = info.ModTime(), true
	}
	if r.table == nil {
		r.table = newTable()
	}
	failed(r.metrics.Poll(root, func() {
		r.table, changed, r.version = newTable(), true, next()
		r.rewound = r.version
	}, func(line []byte, _ int64) {
		changed = true
		if err := r.table.add(line); err != nil {
			failed(fmt.Errorf("%s: line %d: %w", metricsFile, r.table.lines(), err))
		}
	}))
	for _, l := range []*list{&r.samples, &r.rollouts, &r.histograms, &r.sessions} {
		grown, err := l.poll(root)
		failed(err)
		changed = changed || grown
	}
	if info, err := root.Stat(metricsFile); err == nil && info.ModTime().After(r.changed) {
		r.changed = info.ModTime()
	}
	if info, err := root.Stat(reportFile); err == nil && !info.ModTime().Equal(r.reportAge) {
		r.reportAge, changed = info.ModTime(), true
	}
	if changed {
		r.version = next()
	}
	if len(warnings) > 0 || changed {
		r.warn(next, warnings)
	}
}

// warn replaces the warnings.
func (r *run) warn(next func() int64, warnings []string) {
	if strings.Join(warnings, "\n") != strings.Join(r.warnings, "\n") {
		r.warnings, r.version = warnings, next()
	}
}

// resumes are the steps from which processes went on, but for what a later one has taken back.
func (r *run) resumes() []float64 {
	out := []float64{}
	for _, s := range r.sessions.items {
		step := float64(s.step)
		for len(out) > 0 && out[len(out)-1] >= step {
			out = out[:len(out)-1]
		}
		if step > 0 {
			out = append(out, step)
		}
	}
	return out
}

// ended is how the newest process has ended.
func (r *run) ended() string {
	if n := len(r.sessions.items); n > 0 {
		return r.sessions.items[n-1].ended
	}
	return ""
}

// summary is what the list of runs shows, and what an event carries.
type summary struct {
	ID         int              `json:"id"`
	Dir        string           `json:"dir"`
	Version    int64            `json:"version"`
	Rewound    int64            `json:"rewound"`
	Step       float64          `json:"step"`
	Steps      float64          `json:"steps"`   // wanted; 0: not known
	Changed    int64            `json:"changed"` // when it last measured something, in ms since 1970
	Now        int64            `json:"now"`
	Time       float64          `json:"time"` // in steps, in seconds
	Series     []string         `json:"series"`
	Counts     string           `json:"counts"` // what counts in the loss, which tokens are then
	Last       map[string]value `json:"last"`
	Resumes    []float64        `json:"resumes"`
	Ended      string           `json:"ended"` // how the newest process has; "": it goes on, or was killed
	Samples    int              `json:"samples"`
	Rollouts   int              `json:"rollouts"`
	Histograms int              `json:"histograms"`
	Report     int64            `json:"report"` // its age; 0: none yet
	Settings   int64            `json:"settings"`
	Warnings   []string         `json:"warnings"`
}

func (r *run) summary() summary {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := summary{
		ID: r.id, Dir: r.dir, Version: r.version, Rewound: r.rewound, Now: time.Now().UnixMilli(), Last: map[string]value{},
		Series: []string{}, Resumes: r.resumes(), Ended: r.ended(),
		Samples: len(r.samples.items), Rollouts: len(r.rollouts.items), Histograms: len(r.histograms.items), Warnings: append([]string{}, r.warnings...),
		Changed: stamp(r.changed), Report: stamp(r.reportAge), Settings: stamp(r.settingsAge),
	}
	figures := map[string]bool{} // of the objective
	if r.table != nil {
		_, s.Step = r.table.ends(0)
		_, s.Time = r.table.ends(2)
		s.Series = append(s.Series, r.table.names...)
		for _, name := range r.table.names {
			values := r.table.series[name].value
			s.Last[name] = value(values[len(values)-1])
			if figure, is := strings.CutPrefix(name, "figures."); is {
				figures[figure] = true
			}
		}
	}
	s.Counts = model.Telling(figures).Counts
	for _, set := range r.settings {
		if set.Key == "train.steps" {
			_ = json.Unmarshal(set.Value, &s.Steps) // what is no number is not known
		}
	}
	return s
}

func (r *run) at() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.version
}

func stamp(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// value is a number in JSON; null where it is not finite.
type value float64

// MarshalJSON writes seven digits, as many as a float32 has.
func (v value) MarshalJSON() ([]byte, error) { return appendNumber(nil, float64(v), 7), nil }

func appendNumber(out []byte, v float64, digits int) []byte {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return append(out, "null"...)
	}
	if v == math.Trunc(v) && math.Abs(v) < 1<<53 {
		digits = 17
	}
	return strconv.AppendFloat(out, v, 'g', digits, 64)
}
