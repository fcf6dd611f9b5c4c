package train

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// Work that takes more than a second is shown with its count and its time, whether anybody tells of it meanwhile or not; shorter work leaves no trace. Steps
// have a clock of their own, from the last one that was shown.
func TestNoWorkIsSilent(t *testing.T) {
	var out bytes.Buffer
	now := time.Unix(0, 0)
	at := func() time.Time { return now }
	c := newClocked(&plainProgress{lineProgress: lineProgress{&out}, interval: 10 * time.Second, now: at})
	c.now = at
	shows := func(want string, after time.Duration, do func()) {
		t.Helper()
		out.Reset()
		now = now.Add(after)
		do()
		assert.Equal(t, want, out.String())
	}
	busy := func(name string, done, total int) func() { return func() { c.Busy(name, done, total) } }
	const second = time.Second
	shows("", 0, busy("evaluation", 0, 4))
	shows("", second/2, busy("evaluation", 4, 4))
	shows("", second, c.tick)

	shows("", 0, busy("evaluation", 0, 4))
	shows("evaluation 0/4, 1 s\n", second, c.tick)
	shows("", second/2, busy("evaluation", 1, 4))
	shows("evaluation 1/4, 2 s\n", second/2, c.tick)
	shows("", second, c.tick)
	shows("evaluation 1/4, 4 s\n", second, c.tick)
	shows("evaluation 1/4, 20 s\n", 16*second, c.tick)
	shows("evaluation 1/4, 28 s\n", 8*second, c.tick)
	shows("", 9*second, c.tick)
	shows("evaluation 1/4, 38 s\n", second, c.tick)
	shows("evaluation 4/4, 38 s\n", 0, busy("evaluation", 4, 4))

	shows("compile 0/2\n", 0, func() { c.Phase("compile", 0, 2) })
	shows("compile 0/2, 12 s\n", 12*second, c.tick)
	shows("compile 2/2, 13 s\n", second, func() { c.Phase("compile", 2, 2) })
	shows("", 20*second, c.tick)

	shows("", 0, busy(spanSteps, 0, 0))
	shows("steps, 11 s\n", 11*second, c.tick)
	shows(status(3).text()+"\n", 11*second, func() { c.Step(status(3)) })
	shows("", 9*second, c.tick)
	shows("steps 3/100, 10 s\n", second, c.tick)
	shows("", 0, busy(spanSamples, 0, 9))
	shows("samples 0/9, 2 s\n", 2*second, c.tick)
	shows("", 0, busy("", 0, 0))
	shows("", 20*second, c.tick)
	c.Busy("report", 0, 0)
	c.Close()
	shows("", 20*second, c.tick)
}
