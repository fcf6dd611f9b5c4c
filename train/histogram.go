package train

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"gputrain/buffers"
	"gputrain/buffers/histogram"
	"gputrain/gpu"
	"gputrain/state"
)

// histogramsFile is the name of the log of histograms in a run directory. Runs without any have none.
const histogramsFile = "histograms.jsonl"

// Histogram is one line of histograms.jsonl: how the elements of a tensor are distributed after a step. All figures but the first two
// are of the finite elements.
type Histogram struct {
	Step      int64    `json:"step"`
	Name      string   `json:"name"` // "params/h.0.attn.c_attn.weight", or "grads/..." for its gradient
	Elements  uint64   `json:"elements"`
	NonFinite uint64   `json:"nonfinite,omitempty"`
	Min       Number   `json:"min"`
	Max       Number   `json:"max"`
	Mean      Number   `json:"mean"`
	Deviation Number   `json:"std"`
	Counts    []uint32 `json:"counts"` // of equal parts of [Min, Max]
}

// seen is a State that shows its trees.
type seen interface {
	Trees() (params, grads []*buffers.Tree)
}

// treesOf gives the trees of a state by what their leaves are called by: params/PATH, grads/PATH.
func treesOf(s State) ([]histogram.Source, error) {
	shown, ok := s.(seen)
	if !ok {
		return nil, fmt.Errorf("train: tensors: found a %T, wanted a state with the method Trees", s)
	}
	var out []histogram.Source
	params, grads := shown.Trees()
	for i := range params {
		out = append(out, histogram.Source{Name: "params", Tree: params[i]}, histogram.Source{Name: "grads", Tree: grads[i]})
	}
	return out, nil
}

// matcher matches names with any of several regular expressions, or everything with none.
type matcher []*regexp.Regexp

func newMatcher(patterns []string) (matcher, error) {
	var m matcher
	for _, p := range patterns {
		re, err := regexp.Compile(p)
		if err != nil {
			return nil, fmt.Errorf("match %q: %w", p, err)
		}
		m = append(m, re)
	}
	return m, nil
}

func (m matcher) matches(name string) bool {
	return len(m) == 0 || slices.ContainsFunc(m, func(re *regexp.Regexp) bool { return re.MatchString(name) })
}

// CheckNames refuses a regular expression that is none, or that matches no tensor of what is trained: none of params/PATH and grads/PATH.
func CheckNames(patterns []string, c state.Config) error {
	if len(patterns) == 0 {
		return nil
	}
	if c.Definition == nil {
		return errors.New("model: found none, wanted the definition whose tensors are matched")
	}
	trained, frozen := c.Divide()
	for _, p := range patterns {
		m, err := newMatcher([]string{p})
		if err != nil {
			return err
		}
		matches := func(s buffers.Spec) bool { return m.matches("params/"+s.Path) || m.matches("grads/"+s.Path) }
		path := trained[0].Path
		switch {
		case slices.ContainsFunc(trained, matches):
		case slices.ContainsFunc(frozen, matches):
			return fmt.Errorf("match %q: found frozen parameters alone, wanted a tensor that is trained, such as params/%s or grads/%s", p, path, path)
		default:
			return fmt.Errorf("match %q: found no tensor of the model, wanted one such as params/%s or grads/%s", p, path, path)
		}
	}
	return nil
}

// histograms is what a run has to make its histograms; the zero value makes none.
type histograms struct {
	log      *lineLog
	counters []*histogram.Counter // of each device
	step     int64                // of the counts that are under way; 0: none are
	late     []Histogram          // read, not yet taken
}

// openHistograms rewinds the log, and makes everything that a count needs.
func (t *trainer) openHistograms(ctx context.Context) (err error) {
	if t.config.HistogramEvery == 0 {
		if _, err := os.Stat(t.dir.join(histogramsFile)); errors.Is(err, os.ErrNotExist) {
			return nil
		}
	}
	if t.histograms.log, err = t.openLog(histogramsFile); err != nil || t.config.HistogramEvery == 0 {
		return err
	}
	tensors, bytes, err := t.buildCounters(ctx)
	if err != nil {
		return err
	}
	t.say("histograms of %d tensors every %d steps, %s of device memory besides", tensors, t.config.HistogramEvery, gpu.SizeText(bytes))
	return nil
}

// buildCounters makes a counter for each device of the state, and tells of how many tensors, and what they take.
func (t *trainer) buildCounters(ctx context.Context) (tensors int, bytes uint64, err error) {
	t.releaseCounters()
	m, err := newMatcher(t.config.HistogramMatch)
	if err != nil {
		return 0, 0, err
	}
	sources, err := treesOf(t.state)
	if err != nil {
		return 0, 0, err
	}
	var devices []*gpu.Device
	of := map[*gpu.Device][]histogram.Source{}
	for _, s := range sources {
		if !slices.ContainsFunc(s.Tree.Layout().Leaves(), func(l buffers.Leaf) bool { return len(l.Parts) > 0 && m.matches(s.Name+"/"+l.Path) }) {
			continue
		}
		d := s.Tree.Device()
		if of[d] == nil {
			devices = append(devices, d)
		}
		of[d] = append(of[d], s)
	}
	for _, d := range devices {
		c, err := histogram.New(ctx, m.matches, of[d]...)
		if err != nil {
			return 0, 0, err
		}
		t.histograms.counters = append(t.histograms.counters, c)
		tensors, bytes = tensors+c.Len(), bytes+c.Bytes()
	}
	return tensors, bytes, nil
}

func (t *trainer) releaseCounters() {
	for _, c := range t.histograms.counters {
		c.Release()
	}
	t.histograms.counters = nil
}

// count submits the counts of the step just submitted, if it is to have histograms. They are taken after the next one, or with what
// waits for the device in any case.
func (t *trainer) count(ctx context.Context) error {
	every, step := t.config.HistogramEvery, t.state.Step()
	if every == 0 || step%every != 0 && step != t.config.Steps {
		return nil
	}
	defer t.times.span(spanHistograms)()
	for _, c := range t.histograms.counters {
		if err := c.Submit(context.WithoutCancel(ctx)); err != nil {
			return fmt.Errorf("train: histograms of step %d: %w", step, err)
		}
	}
	t.histograms.step = step
	return nil
}

// takeCounts logs the counts under way. The error of a hook comes when all are logged.
func (t *trainer) takeCounts(ctx context.Context) error {
	if err := t.readCounts(ctx); err != nil || len(t.histograms.late) == 0 {
		return err
	}
	list := t.histograms.late
	t.histograms.late = nil
	hooks := t.tell(ctx, Event{Kind: Counted, Histograms: list})
	for _, line := range list {
		if err := t.histograms.log.write(line); err != nil {
			return err
		}
	}
	return hooks
}

// readCounts waits for the counts under way. They are sorted by name: the order does not tell on how many devices the tensors lie.
func (t *trainer) readCounts(ctx context.Context) error {
	h := &t.histograms
	if h.step == 0 {
		return nil
	}
	defer t.times.span(spanHistograms)()
	var list []histogram.Histogram
	for _, c := range h.counters {
		found, err := c.Take(context.WithoutCancel(ctx))
		if err != nil {
			return fmt.Errorf("train: histograms of step %d: %w", h.step, err)
		}
		list = append(list, found...)
	}
	slices.SortFunc(list, func(a, b histogram.Histogram) int { return strings.Compare(a.Name, b.Name) })
	for _, x := range list {
		h.late = append(h.late, Histogram{
			Step: h.step, Name: x.Name, Elements: x.Elements, NonFinite: x.NonFinite,
			Min: Number(x.Min), Max: Number(x.Max), Mean: Number(x.Mean), Deviation: Number(x.Deviation), Counts: x.Counts[:],
		})
	}
	h.step = 0
	return nil
}

// sync makes the lines durable.
func (h *histograms) sync() error {
	if h.log == nil {
		return nil
	}
	return h.log.sync()
}
