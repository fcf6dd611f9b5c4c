package train

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/internal/histogram"
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

// treed is a State that shows its trees.
type treed interface {
	Trees() (params, grads []*buffers.Tree)
}

// treesOf gives the trees of a state by what their leaves are called by: params/PATH, grads/PATH.
func treesOf(s State) ([]histogram.Source, error) {
	shown, ok := s.(treed)
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
	trained, frozen := state.Job{Config: c}.Divide()
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

// histograms counts how tensors are distributed, on the devices; one whose every is 0 counts nothing.
type histograms struct {
	every, steps int64
	match        []string
	times        *times
	tell         func(ctx context.Context, e Event) error // of what is counted

	counters []*histogram.Counter // of each device
	step     int64                // of the counts that are under way; 0: none are
	late     []Histogram          // read, not yet taken
}

// build makes a counter for each device of a state, and tells of how many tensors, and what they take.
func (h *histograms) build(ctx context.Context, s State) (tensors int, bytes uint64, err error) {
	h.release()
	m, err := newMatcher(h.match)
	if err != nil {
		return 0, 0, err
	}
	sources, err := treesOf(s)
	if err != nil {
		return 0, 0, err
	}
	var devices []*gpu.Device
	of := map[*gpu.Device][]histogram.Source{}
	for _, src := range sources {
		if !slices.ContainsFunc(src.Tree.Layout().Leaves(), func(l buffers.Leaf) bool { return len(l.Parts) > 0 && m.matches(src.Name+"/"+l.Path) }) {
			continue
		}
		d := src.Tree.Device()
		if of[d] == nil {
			devices = append(devices, d)
		}
		of[d] = append(of[d], src)
	}
	for _, d := range devices {
		c, err := histogram.New(ctx, m.matches, of[d]...)
		if err != nil {
			return 0, 0, err
		}
		h.counters = append(h.counters, c)
		tensors, bytes = tensors+c.Len(), bytes+c.Bytes()
	}
	return tensors, bytes, nil
}

func (h *histograms) release() {
	for _, c := range h.counters {
		c.Release()
	}
	h.counters = nil
}

// submit submits the counts of the step just submitted, if it is to have histograms. They are taken after the next one, or with what
// waits for the device in any case.
func (h *histograms) submit(ctx context.Context, step int64) error {
	if h.every == 0 || step%h.every != 0 && step != h.steps {
		return nil
	}
	defer h.times.span(spanHistograms)()
	for _, c := range h.counters {
		if err := c.Submit(context.WithoutCancel(ctx)); err != nil {
			return fmt.Errorf("train: histograms of step %d: %w", step, err)
		}
	}
	h.step = step
	return nil
}

// take tells of the counts under way.
func (h *histograms) take(ctx context.Context) error {
	if err := h.read(ctx); err != nil || len(h.late) == 0 {
		return err
	}
	list := h.late
	h.late = nil
	return h.tell(ctx, Event{Kind: Counted, Histograms: list})
}

// read waits for the counts under way. They are sorted by name: the order does not tell on how many devices the tensors lie.
func (h *histograms) read(ctx context.Context) error {
	if h.step == 0 {
		return nil
	}
	defer h.times.span(spanHistograms)()
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
