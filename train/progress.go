package train

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/term"

	"gputrain/internal/terminal"
)

// Progress shows a run to a person or a program. The methods are called from one goroutine.
type Progress interface {
	// Line says something that is to stay: what was restored, an evaluation, a decision.
	Line(text string)
	// Phase shows work before the first step, such as the compilation of kernels.
	Phase(name string, done, total int)
	// Step shows where training is.
	Step(s Status)
	// Times tells, after the last step, where the time went.
	Times(spans []Span)
	// Close ends the display. Lines can still be written.
	Close()
}

// ProgressKinds are the values of Config.Progress.
var ProgressKinds = []string{"auto", "bar", "plain", "json", "none"}

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
		return newBarProgress(w), nil
	case "plain":
		return &plainProgress{w: w, interval: interval, now: time.Now}, nil
	case "json":
		return &jsonProgress{w: w}, nil
	case "none":
		return lineProgress{w}, nil
	}
	return nil, fmt.Errorf("train: progress: %q, want one of %q", kind, ProgressKinds)
}

// moves tells whether a terminal is to be drawn on: not one that cannot move its cursor, nor where a person wants plain text (no-color.org).
func moves(env func(string) string) bool { return env("TERM") != "dumb" && env("NO_COLOR") == "" }

// lineProgress shows lines only.
type lineProgress struct{ w io.Writer }

func (p lineProgress) Line(text string)     { fmt.Fprintln(p.w, terminal.Visible(text)) }
func (p lineProgress) Times(spans []Span)   { p.Line(timesText(spans)) }
func (lineProgress) Phase(string, int, int) {}
func (lineProgress) Step(Status)            {}
func (lineProgress) Close()                 {}

// plainProgress shows the first step, the last and one every interval, a line each: for logs.
type plainProgress struct {
	w        io.Writer
	interval time.Duration
	now      func() time.Time
	last     time.Time
}

func (p *plainProgress) Line(text string)   { fmt.Fprintln(p.w, terminal.Visible(text)) }
func (p *plainProgress) Times(spans []Span) { p.Line(timesText(spans)) }
func (p *plainProgress) Close()             {}

func (p *plainProgress) due(always bool) bool {
	now := p.now()
	if !always && !p.last.IsZero() && now.Sub(p.last) < p.interval {
		return false
	}
	p.last = now
	return true
}

func (p *plainProgress) Phase(name string, done, total int) {
	if done == total || p.due(false) {
		fmt.Fprintf(p.w, "%s %d/%d\n", name, done, total)
	}
	if done == total {
		p.last = time.Time{}
	}
}

func (p *plainProgress) Step(s Status) {
	if p.due(s.Step == s.Steps) {
		fmt.Fprintln(p.w, s.text())
	}
}

// jsonProgress writes one object a line.
type jsonProgress struct {
	w  io.Writer
	mu sync.Mutex
}

func (p *jsonProgress) write(v any) {
	data, err := json.Marshal(v)
	if err != nil {
		data = fmt.Appendf(nil, `{"event":"line","text":%q}`, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	_, _ = p.w.Write(append(data, '\n'))
}

func (p *jsonProgress) Close() {}

func (p *jsonProgress) Line(text string) {
	p.write(struct {
		Event string `json:"event"`
		Text  string `json:"text"`
	}{"line", text})
}

func (p *jsonProgress) Phase(name string, done, total int) {
	p.write(struct {
		Event string `json:"event"`
		Name  string `json:"name"`
		Done  int    `json:"done"`
		Total int    `json:"total"`
	}{"phase", name, done, total})
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

// Phase shows a bar of its own, which goes away when the phase is over.
func (b *barProgress) Phase(name string, done, total int) {
	b.show(name, int64(done), int64(total), func(int) string { return fmt.Sprintf("%d/%d", done, total) })
	if done == total {
		b.end(true)
	}
}

// Step moves the bar.
func (b *barProgress) Step(s Status) {
	b.show("train", s.Step, s.Steps, s.fit)
}

// Times writes where the time went.
func (b *barProgress) Times(spans []Span) { b.Line(timesText(spans)) }

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
