package train

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/internal/gputest"
)

// Where a pass takes long one is enough, or two where the first takes twice as long as it should: that was compiled.
func TestLongPassesAreMeasuredOnce(t *testing.T) { synctest.Test(t, longPassesAreMeasuredOnce) }

func longPassesAreMeasuredOnce(t *testing.T) {
	for compiles, want := range map[time.Duration]int{0: 1, 2*measureFor + time.Millisecond: 2} {
		r := &rehearsal{team: &team{}, display: &display{}, pass: measureFor}
		calls := 0
		each, err := r.measured(func() (time.Duration, error) {
			if calls++; calls == 1 {
				time.Sleep(compiles)
			}
			return time.Duration(calls) * time.Hour, nil
		})
		require.NoError(t, err)
		assert.Equal(t, want, calls)
		assert.Equal(t, time.Duration(want)*time.Hour, each, "the last")
		assert.Equal(t, compiles, r.display.forecast.compiling)
	}
}

// The rehearsal shows how far it is. A run that goes on where steps take long knows the times of an earlier start, unless they are of another program or
// of other shapes.
func TestRehearsalOfARunThatGoesOn(t *testing.T) {
	dev, dir := gputest.Device(t), t.TempDir()
	once := func(stop int64, change func(m *measured)) string {
		path := filepath.Join(dir, sessionsFile)
		if change != nil {
			var lines []string
			text := textAt(t, path)
			for line := range strings.Lines(text) {
				var s session
				require.NoError(t, json.Unmarshal([]byte(line), &s))
				if s.Measured != nil {
					change(s.Measured)
				}
				raw, err := json.Marshal(s)
				require.NoError(t, err)
				lines = append(lines, string(raw)+"\n")
			}
			require.NoError(t, os.WriteFile(path, []byte(strings.Join(lines, "")), 0o666))
		}
		var out bytes.Buffer
		c := tinyRun(t, dir)
		c.Output = &out
		halted(t, dev, c, StepEnd, stop)
		return out.String()
	}
	const rehearsed = "estimate the time 0/6\nestimate the time 6/6\n"
	assert.Contains(t, once(2, nil), rehearsed)
	text := once(3, func(m *measured) {
		assert.Positive(t, m.Step)
		assert.Positive(t, m.Evaluation)
		assert.Positive(t, m.Sample)
		m.Step = measureFor - 1
	})
	assert.Contains(t, text, rehearsed, "steps that are short")
	text = once(4, func(m *measured) { m.Step = 100 * time.Hour })
	assert.NotContains(t, text, "estimate the time")
	assert.Contains(t, text, "times as they were measured at step 2\nthe run takes about 900 h ", "nine steps")
	for i, other := range []func(m *measured){
		func(m *measured) { m.Program = "another" }, func(m *measured) { m.Memory[0]++ }, func(m *measured) { m.SampleTokens++ },
	} {
		text = once(int64(5+i), other)
		assert.Contains(t, text, rehearsed)
		assert.NotContains(t, text, "times as they were")
	}
}

// An evaluation shows each of its batches.
func TestEvaluationShowsItsBatches(t *testing.T) {
	dev := gputest.Device(t)
	c := tinyRun(t, t.TempDir()).withDefaults()
	c.State.Evaluation = 1
	of, err := c.evaluation()
	require.NoError(t, err)
	s, err := oneDevice{device: dev}.Create(t.Context(), c.State, nil)
	require.NoError(t, err)
	defer s.Release()
	var shown []int
	r, err := (&team{}).evaluate(t.Context(), s, of, func(done, all int) {
		assert.Equal(t, of.Batches(), all)
		shown = append(shown, done)
	})
	require.NoError(t, err)
	require.Greater(t, of.Batches(), 2)
	for i, done := range shown {
		assert.Equal(t, i+1, done)
	}
	assert.Len(t, shown, of.Batches())
	plain, err := s.Evaluate(t.Context(), of)
	require.NoError(t, err)
	assert.Equal(t, plain, r)
}

// The account of a run has what went before it and the report.
func TestAccountIsOfTheWholeRun(t *testing.T) {
	dev := gputest.Device(t)
	var out bytes.Buffer
	c := tinyRun(t, t.TempDir())
	c.Output, c.Before = &out, []Span{{Name: "read the text", Spent: 1000 * time.Hour}}
	result := ran(t, dev, c)
	spent := map[string]time.Duration{}
	for _, s := range result.Times {
		spent[s.Name] = s.Spent
	}
	assert.Equal(t, 1000*time.Hour, spent["read the text"])
	assert.Positive(t, spent[spanReport])
	assert.Contains(t, out.String(), "read the text 100%")
	assert.Contains(t, out.String(), "the run takes about 1000 h ")
}

// A signal before the first step does not promise to finish one.
func TestSignalBeforeTheFirstStep(t *testing.T) {
	for begun, want := range map[bool]string{false: "leaving before the first step", true: "finishing the step and saving"} {
		out := make(said, 1)
		ctx, stop := StepSignals(context.Background(), out, func(int) {}, func() bool { return begun })
		p, err := os.FindProcess(os.Getpid())
		require.NoError(t, err)
		require.NoError(t, p.Signal(os.Interrupt))
		select {
		case <-ctx.Done():
		case <-time.After(gputest.Patience):
			t.Fatal("the signal does not end the context")
		}
		assert.Equal(t, "interrupt: "+want+"; once more to leave at once\n", <-out)
		stop()
	}
}

// said hands on what is written.
type said chan string

func (s said) Write(p []byte) (int, error) {
	s <- string(p)
	return len(p), nil
}
