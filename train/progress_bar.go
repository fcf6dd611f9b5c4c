package train

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"gputrain/internal/terminal"
)

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
