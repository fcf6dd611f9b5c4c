package train

import (
	"fmt"
	"sync"
	"time"
)

// screen is what a Progress draws on: it knows nothing of time.
type screen interface {
	Line(text string)
	Phase(p phase)
	Step(s Status)
	Times(spans []Span)
	Clear()
	Close()
}

// phase is work under way.
type phase struct {
	name        string
	done, total int // 0 of 0: nobody counts
	spent       time.Duration
}

func (p phase) over() bool { return p.total > 0 && p.done == p.total }

func (p phase) text() string {
	text := p.name
	if p.total > 0 {
		text += fmt.Sprintf(" %d/%d", p.done, p.total)
	}
	return text + p.clock()
}

// clock is the time that a phase has taken so far, from a second on.
func (p phase) clock() string {
	if p.spent < tick {
		return ""
	}
	return ", " + durationText(p.spent.Truncate(time.Second))
}

// tick is how long nothing is shown at most.
const tick = time.Second

// clocked shows every second what is under way, so that no work is silent however long it takes.
type clocked struct {
	screen
	now func() time.Time

	mu      sync.Mutex
	current phase // its name is "" where nothing is under way
	begun   time.Time
	shown   bool    // the current phase is on the screen
	last    *Status // nil: no step has been shown
	timer   *time.Timer
	closed  bool
}

func newClocked(s screen) *clocked { return &clocked{screen: s, now: time.Now} }

// Phase shows work at once.
func (c *clocked) Phase(name string, done, total int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at(name, done, total)
	c.show()
}

// Busy shows work once it has taken a second, and then every second how far it is.
func (c *clocked) Busy(name string, done, total int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if name == "" {
		c.rest()
		return
	}
	c.at(name, done, total)
	if !c.current.over() {
		return
	}
	if c.shown {
		c.show()
	}
	c.rest()
}

// at takes note of work, and that nothing else is under way.
func (c *clocked) at(name string, done, total int) {
	if c.current.name != name {
		c.rest()
		c.begun = c.now()
		c.wake()
	}
	c.current = phase{name: name, done: done, total: total}
}

func (c *clocked) wake() {
	switch {
	case c.closed:
	case c.timer == nil:
		c.timer = time.AfterFunc(tick, c.tick)
	default:
		c.timer.Reset(tick)
	}
}

func (c *clocked) tick() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current.name != "" && !c.closed {
		c.show()
		c.wake()
	}
}

// show draws what is under way, and takes it from the screen once that is over.
func (c *clocked) show() {
	c.current.spent = c.now().Sub(c.begun)
	if c.current.name == spanSteps && c.last != nil {
		c.current.done, c.current.total = int(c.last.Step), int(c.last.Steps)
	}
	c.screen.Phase(c.current)
	c.shown = true
	if c.current.over() && c.current.name != spanSteps {
		c.current.name, c.shown = "", false
	}
}

// rest says that nothing is under way any more.
func (c *clocked) rest() {
	if c.shown && c.current.name != spanSteps {
		c.screen.Clear()
	}
	c.current, c.shown = phase{}, false
	if c.timer != nil {
		c.timer.Stop()
	}
}

func (c *clocked) Line(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.screen.Line(text)
}

func (c *clocked) Step(s Status) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current.name != spanSteps {
		c.rest()
	}
	c.last, c.begun, c.shown = &s, c.now(), false
	c.screen.Step(s)
}

func (c *clocked) Times(spans []Span) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rest()
	c.screen.Times(spans)
}

// Clear takes from the screen what moves there; it comes again a second later, if it still goes on.
func (c *clocked) Clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shown = false
	c.screen.Clear()
}

func (c *clocked) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rest()
	c.closed = true
	c.screen.Close()
}
