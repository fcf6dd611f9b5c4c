package train

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/term"

	"gputrain/internal/terminal"
)

// Progress shows a run to a person or a program.
type Progress interface {
	// Line says something that is to stay: what was restored, an evaluation, a decision.
	Line(text string)
	// Phase shows work before the first step, such as the compilation of kernels.
	Phase(name string, done, total int)
	// Busy shows work that has taken a second, and from then on every second how far it is; 0 of 0 where nobody counts, "" where it is over.
	Busy(name string, done, total int)
	// Step shows where training is.
	Step(s Status)
	// Times tells, after the last step, where the time went.
	Times(spans []Span)
	// Clear takes from the screen what moves there, so that other text may be written to it.
	Clear()
	// Close ends the display. Lines can still be written.
	Close()
}

// progressKinds are the values of Config.Progress.
var progressKinds = []string{"auto", "bar", "plain", "json", "none"}

// NewProgress makes the display named kind on w; plain shows a line at most every interval. auto (also "") is a bar when w is a
// terminal that may be drawn on, and plain otherwise. What cannot be written is no error: a run goes on without anybody who reads.
func NewProgress(kind string, w io.Writer, interval time.Duration) (Progress, error) {
	if kind == "" || kind == "auto" {
		kind = "plain"
		if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) && moves(os.Getenv) {
			kind = "bar"
		}
	}
	switch kind {
	case "bar":
		return newClocked(newBarProgress(w)), nil
	case "plain":
		return newClocked(&plainProgress{lineProgress: lineProgress{w}, interval: interval, now: time.Now}), nil
	case "json":
		return newClocked(&jsonProgress{w: w}), nil
	case "none":
		return newClocked(lineProgress{w}), nil
	}
	return nil, fmt.Errorf("train: progress: %q, want one of %q", kind, progressKinds)
}

// moves tells whether a terminal is to be drawn on: not one that cannot move its cursor, nor where a person wants plain text (no-color.org).
func moves(env func(string) string) bool { return env("TERM") != "dumb" && env("NO_COLOR") == "" }

// lineProgress shows lines only.
type lineProgress struct{ w io.Writer }

func (p lineProgress) Line(text string)   { fmt.Fprintln(p.w, terminal.Visible(text)) }
func (p lineProgress) Times(spans []Span) { p.Line(timesText(spans)) }
func (lineProgress) Phase(phase)          {}
func (lineProgress) Step(Status)          {}
func (lineProgress) Clear()               {}
func (lineProgress) Close()               {}

// plainProgress shows the first step, the last and one every interval, a line each: for logs.
type plainProgress struct {
	lineProgress
	interval time.Duration
	now      func() time.Time
	last     time.Time
	phase    string        // the last that was shown
	gap      time.Duration // until it is shown again
}

func (p *plainProgress) due(always bool) bool {
	now := p.now()
	if !always && !p.last.IsZero() && now.Sub(p.last) < p.interval {
		return false
	}
	p.last = now
	return true
}

// Phase shows a phase when it is new, after a second, two, four and so on up to the interval, and when it is over. Steps have the interval alone.
func (p *plainProgress) Phase(f phase) {
	if f.name == spanSteps {
		p.gap = p.interval
	} else if f.name != p.phase {
		p.gap = 0
	}
	p.phase = f.name
	if p.gap == 0 || f.over() || p.now().Sub(p.last) >= p.gap {
		p.last, p.gap = p.now(), min(max(tick, 2*p.gap), p.interval)
		fmt.Fprintln(p.w, f.text())
	}
	if f.over() {
		p.last, p.phase = time.Time{}, ""
	}
}

func (p *plainProgress) Step(s Status) {
	p.phase = ""
	if p.due(s.Step == s.Steps) {
		fmt.Fprintln(p.w, s.text())
	}
}

// jsonProgress writes one object a line.
type jsonProgress struct{ w io.Writer }

func (p *jsonProgress) write(v any) {
	data, err := json.Marshal(v)
	if err != nil {
		data = fmt.Appendf(nil, `{"event":"line","text":%q}`, err)
	}
	_, _ = p.w.Write(append(data, '\n'))
}

func (p *jsonProgress) Clear() {}
func (p *jsonProgress) Close() {}

func (p *jsonProgress) Line(text string) {
	p.write(struct {
		Event string `json:"event"`
		Text  string `json:"text"`
	}{"line", text})
}

func (p *jsonProgress) Phase(f phase) {
	p.write(struct {
		Event   string  `json:"event"`
		Name    string  `json:"name"`
		Done    int     `json:"done"`
		Total   int     `json:"total"`
		Seconds float64 `json:"seconds"`
	}{"phase", f.name, f.done, f.total, f.spent.Seconds()})
}

func (p *jsonProgress) Step(s Status) {
	p.write(struct {
		Event string `json:"event"`
		Status
		Left float64 `json:"seconds_left"`
	}{"step", s, s.Left.Seconds()})
}

func (p *jsonProgress) Times(spans []Span) {
	type span struct {
		Name    string  `json:"name"`
		Seconds float64 `json:"seconds"`
		Beside  bool    `json:"beside,omitempty"`
	}
	var out []span
	for _, s := range spans {
		out = append(out, span{s.Name, s.Spent.Seconds(), s.Beside})
	}
	p.write(struct {
		Event   string  `json:"event"`
		Seconds float64 `json:"seconds"`
		Spans   []span  `json:"spans"`
	}{"times", whole(spans).Seconds(), out})
}

// barProgress shows one bar in a terminal, redrawn several times a second; lines appear above it.
type barProgress struct {
	w    io.Writer
	draw *mpb.Progress // nil while nothing is shown
	bar  *mpb.Bar
	name string
	last *Status // of the newest step; nil before the first

	mu     sync.Mutex
	status func(width int) string // shown behind the bar
}

// The width of the bar itself, and what it may shrink to before the status behind it does.
const barWidth, barLeast = 24, 8

func newBarProgress(w io.Writer) *barProgress { return &barProgress{w: w} }

// Line writes above the bar.
func (b *barProgress) Line(text string) {
	text = terminal.Visible(text)
	if b.draw != nil {
		fmt.Fprintln(b.draw, text)
		return
	}
	fmt.Fprintln(b.w, text)
}

// Phase shows a bar of its own, which goes away when the phase is over. Steps have theirs.
func (b *barProgress) Phase(p phase) {
	if p.name == spanSteps && b.last != nil {
		b.Step(*b.last)
		return
	}
	count := strings.TrimPrefix(p.text(), p.name)
	b.show(p.name, int64(p.done), int64(p.total), func(int) string { return strings.TrimLeft(count, " ,") })
	if p.over() {
		b.end(true)
	}
}

// Step moves the bar.
func (b *barProgress) Step(s Status) {
	b.last = &s
	b.show("train", s.Step, s.Steps, s.fit)
}

// Times writes where the time went.
func (b *barProgress) Times(spans []Span) { b.Line(timesText(spans)) }

// Clear takes the bar from the screen.
func (b *barProgress) Clear() { b.end(true) }

// Close leaves the bar as it is on the screen.
func (b *barProgress) Close() { b.end(false) }

func (b *barProgress) show(name string, done, total int64, status func(width int) string) {
	b.mu.Lock()
	b.status = status
	b.mu.Unlock()
	if b.name != name {
		b.end(true)
		b.name = name
		b.draw = mpb.New(mpb.WithOutput(b.w), mpb.WithAutoRefresh(), mpb.WithRefreshRate(150*time.Millisecond))
		// Without a total: the bar must not complete by itself, since lines may follow the last step.
		bar, err := b.draw.Add(0, mpb.BarStyle().Build(), mpb.BarFillerTrim(), mpb.BarWidth(barWidth),
			mpb.PrependDecorators(decor.Name(name+" ")),
			mpb.AppendDecorators(decor.Any(func(s decor.Statistics) string {
				b.mu.Lock()
				defer b.mu.Unlock()
				return " " + b.status(s.AvailableWidth-len(name)-2-barLeast)
			})))
		if b.bar = bar; err != nil { // the terminal is gone, and with it all that could be shown
			b.draw = nil
			return
		}
		b.bar.SetTotal(total, false)
	}
	if b.bar != nil {
		b.bar.SetCurrent(done)
	}
}

// end takes the bar from the screen, or leaves its last picture there.
func (b *barProgress) end(drop bool) {
	if b.draw == nil {
		return
	}
	b.bar.Abort(drop)
	b.draw.Wait()
	b.draw, b.bar, b.name = nil, nil, ""
}
