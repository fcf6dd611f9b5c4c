package train

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Span is a part of the time of a run.
type Span struct {
	Name   string // "steps"
	Spent  time.Duration
	Beside bool // it went by while the loop did something else, as the writing of checkpoints does
}

// What the time of a run goes into, beside compilation, which is called by its phase.
const (
	spanOther      = "other"
	spanPeak       = "measure the peak"
	spanForecast   = "estimate the time"
	spanCreate     = "create the state"
	spanRestore    = "restore"
	spanData       = "wait for data"
	spanSteps      = "steps"
	spanEvaluation = "evaluation"
	spanSamples    = "samples"
	spanRollouts   = "rollouts"
	spanRewards    = "rewards"
	spanHistograms = "histograms and watchers"
	spanHooks      = "hooks"
	spanCopy       = "copy for a checkpoint"
	spanSaveWait   = "wait for a checkpoint"
	spanSaveWrite  = "write checkpoints"
	spanReport     = "report"
)

// times is where the time of a run goes. A span within another one is taken out of it, so that all together are the whole. It is used from
// one goroutine.
type times struct {
	now    func() time.Time
	mark   time.Time // up to which everything is shared out
	open   []string
	spent  map[string]time.Duration
	beside map[string]time.Duration
	watch  func(name string) // is told of the innermost span, "" for none
}

func newTimes(now func() time.Time) *times {
	return &times{
		now: now, mark: now(), open: []string{spanOther}, spent: map[string]time.Duration{}, beside: map[string]time.Duration{}, watch: func(string) {},
	}
}

// settle gives the time since the last call to the innermost span.
func (t *times) settle() {
	now := t.now()
	t.spent[t.open[len(t.open)-1]] += now.Sub(t.mark)
	t.mark = now
}

// span begins a span, and returns what ends it, with those within it.
func (t *times) span(name string) (end func()) {
	t.settle()
	depth := len(t.open)
	t.open = append(t.open, name)
	t.watch(name)
	return func() {
		t.settle()
		t.open = t.open[:min(depth, len(t.open))]
		if name := t.open[len(t.open)-1]; name != spanOther {
			t.watch(name)
		} else {
			t.watch("")
		}
	}
}

// phase makes spans of the phases of a progress display.
func (t *times) phase(show func(name string, done, total int)) func(name string, done, total int) {
	running, end := "", func() {}
	return func(name string, done, total int) {
		if running != name {
			end()
			running, end = name, t.span(name)
		}
		show(name, done, total)
		if done == total {
			end()
			running, end = "", func() {}
		}
	}
}

// compiled is the time of the phases so far in which kernels were compiled.
func (t *times) compiled() (sum time.Duration) {
	for name, d := range t.spent {
		if strings.HasPrefix(name, "compile ") {
			sum += d
		}
	}
	return sum
}

// list is all spans so far, those of the loop first, each kind by its time.
func (t *times) list() []Span {
	t.settle()
	var out []Span
	for name, d := range t.spent {
		out = append(out, Span{Name: name, Spent: d})
	}
	for name, d := range t.beside {
		out = append(out, Span{Name: name, Spent: d, Beside: true})
	}
	last := map[bool]int{true: 1}
	slices.SortFunc(out, func(a, b Span) int {
		return cmp.Or(last[a.Beside]-last[b.Beside], cmp.Compare(b.Spent, a.Spent), strings.Compare(a.Name, b.Name))
	})
	return out
}

// whole is the time of all spans that are not beside others.
func whole(spans []Span) (sum time.Duration) {
	for _, s := range spans {
		if !s.Beside {
			sum += s.Spent
		}
	}
	return sum
}

// timesText tells in one line where the time went; what is less than half a percent is not told.
func timesText(spans []Span) string {
	all := whole(spans)
	var parts []string
	for _, s := range spans {
		share := float64(s.Spent) / float64(all)
		switch {
		case s.Beside:
			parts = append(parts, fmt.Sprintf("%s %s beside", s.Name, s.Spent.Round(time.Millisecond)))
		case share >= 0.005:
			parts = append(parts, fmt.Sprintf("%s %s", s.Name, percent(share)))
		}
	}
	return fmt.Sprintf("time %s: %s", all.Round(time.Millisecond), strings.Join(parts, ", "))
}
