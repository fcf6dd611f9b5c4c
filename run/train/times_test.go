package train

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// clock is a time that passes when it is told to.
type clock struct{ at time.Time }

func (c *clock) now() time.Time   { return c.at }
func (c *clock) pass(seconds int) { c.at = c.at.Add(time.Duration(seconds) * time.Second) }
func seconds(n int) time.Duration { return time.Duration(n) * time.Second }
func phases(string, int, int)     {}
func spent(s []Span) map[string]int { // in seconds
	out := map[string]int{}
	for _, x := range s {
		out[x.Name] = int(x.Spent / time.Second)
	}
	return out
}

// A span within another is not counted twice, and all together are the time that has passed, also where an error has left one open.
func TestTimes(t *testing.T) {
	c := &clock{at: time.Unix(100, 0)}
	times := newTimes(c.now)
	c.pass(1)
	steps := times.span("steps")
	c.pass(10)
	hooks := times.span("hooks")
	c.pass(3)
	hooks()
	c.pass(5)
	_ = times.span("left open")
	c.pass(2)
	steps()
	c.pass(4)
	again := times.span("steps")
	c.pass(1)
	again()
	times.beside["write"] = seconds(7)
	list := times.list()
	assert.Equal(t, map[string]int{"other": 5, "steps": 16, "hooks": 3, "left open": 2, "write": 7}, spent(list))
	assert.Equal(t, Span{"steps", seconds(16), false}, list[0])
	assert.Equal(t, Span{"write", seconds(7), true}, list[4], "what went by beside comes last")
	assert.Equal(t, seconds(26), whole(list))
	assert.Equal(t, "time 26s: steps 62%, other 19%, hooks 12%, left open 8%, write 7s beside", timesText(list))
}

// Phases are spans, one after the other, and within what is under way.
func TestTimesOfPhases(t *testing.T) {
	c := &clock{at: time.Unix(100, 0)}
	times := newTimes(c.now)
	create := times.span("create")
	show := times.phase(phases)
	for done := range 3 {
		show("compile a", done+1, 3)
		c.pass(2)
	}
	show("compile b", 0, 2)
	c.pass(5)
	show("compile c", 1, 2) // b never ended
	c.pass(1)
	show("compile c", 2, 2)
	c.pass(1)
	create()
	assert.Equal(t, map[string]int{"compile a": 4, "compile b": 5, "compile c": 1, "create": 3, "other": 0}, spent(times.list()))
}

func TestTimesAreShown(t *testing.T) {
	spans := []Span{{"steps", seconds(9), false}, {"other", seconds(1), false}, {"write checkpoints", seconds(2), true}}
	for _, kind := range []string{"plain", "bar", "none"} {
		var out bytes.Buffer
		p, err := NewProgress(kind, &out, time.Second)
		require.NoError(t, err)
		p.Times(spans)
		p.Close()
		assert.Equal(t, "time 10s: steps 90%, other 10%, write checkpoints 2s beside\n", out.String(), kind)
	}
	var out bytes.Buffer
	p, err := NewProgress("json", &out, time.Second)
	require.NoError(t, err)
	p.Times(spans)
	var event map[string]any
	require.NoError(t, json.Unmarshal(out.Bytes(), &event))
	assert.Equal(t, map[string]any{"event": "times", "seconds": 10., "spans": []any{
		map[string]any{"name": "steps", "seconds": 9.},
		map[string]any{"name": "other", "seconds": 1.},
		map[string]any{"name": "write checkpoints", "seconds": 2., "beside": true},
	}}, event)
}
