package train

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/internal/gputest"
)

func status(step int64) Status {
	return Status{Step: step, Steps: 100, Loss: 2.5, LearningRate: 1e-3, TokensPerSecond: 12345.6, Left: 61 * time.Second}
}

func TestPlainProgress(t *testing.T) {
	var out bytes.Buffer
	now := time.Unix(0, 0)
	p := &plainProgress{lineProgress: lineProgress{&out}, interval: 10 * time.Second, now: func() time.Time { return now }}
	for step := int64(1); step <= 100; step++ {
		p.Step(status(step))
		now = now.Add(time.Second / 2)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	assert.Len(t, lines, 6, "the first, one every ten seconds, the last")
	assert.Equal(t, "step 1/100  loss 2.5000  lr 0.001  12,346 tokens/s  1m01s left", lines[0])
	assert.Contains(t, lines[5], "step 100/100")
}

func TestJSONProgress(t *testing.T) {
	var out bytes.Buffer
	p, err := NewProgress("json", &out, 0)
	require.NoError(t, err)
	p.Line("hello")
	p.Phase("compile", 1, 2)
	s := status(3)
	s.Loss = Number(math.NaN())
	p.Step(s)
	p.Close()
	var events []map[string]any
	for d := json.NewDecoder(&out); ; {
		var e map[string]any
		if err := d.Decode(&e); errors.Is(err, io.EOF) {
			break
		} else {
			require.NoError(t, err)
		}
		events = append(events, e)
	}
	require.Len(t, events, 3)
	assert.Equal(t, "hello", events[0]["text"])
	assert.EqualValues(t, 2, events[1]["total"])
	assert.Equal(t, "NaN", events[2]["loss"])
	assert.EqualValues(t, 61, events[2]["seconds_left"])
}

func TestBarProgress(t *testing.T) {
	var out bytes.Buffer
	p, err := NewProgress("bar", &out, 0)
	require.NoError(t, err)
	p.Line("before")
	p.Phase("compile kernels", 1, 2)
	p.Phase("compile kernels", 2, 2)
	p.Step(status(1))
	p.Line("between")
	p.Step(status(100))
	p.Close()
	p.Line("after")
	text := out.String()
	for _, want := range []string{"before\n", "between", "step 100/100", "12,346 tokens/s", "1m01s left", "after\n"} {
		assert.Contains(t, text, want)
	}
}

// A narrow terminal has what matters most, whole.
func TestStatusFits(t *testing.T) {
	s := status(7)
	s.StageBusy, s.MFU, s.DataWait, s.Clipped = []Number{0.9, 0.8}, 0.31, 0.12, 0.5
	for width, want := range map[int]string{
		200: "step 7/100  loss 2.5000  lr 0.001  12,346 tokens/s  stages 90% 80%  mfu 31%  data wait 12%  clipped 50%  1m01s left",
		100: "step 7/100  loss 2.5000  lr 0.001  12,346 tokens/s  mfu 31%  data wait 12%  1m01s left",
		50:  "step 7/100  loss 2.5000  1m01s left",
		25:  "step 7/100  loss 2.5000",
		3:   "step 7/100",
	} {
		assert.Equal(t, want, s.fit(width), width)
	}
	s.DataWait, s.Clipped = 0.04, 0.04
	assert.NotRegexp(t, "data|clipped", s.text(), "little is not worth telling")
}

func TestProgressKinds(t *testing.T) {
	for _, kind := range append(progressKinds, "") {
		p, err := NewProgress(kind, io.Discard, time.Second)
		require.NoError(t, err, kind)
		p.Step(status(1))
		p.Close()
	}
	_, err := NewProgress("tqdm", io.Discard, 0)
	assert.ErrorContains(t, err, `"tqdm"`)
	auto, err := NewProgress("auto", io.Discard, 0)
	require.NoError(t, err)
	assert.IsType(t, &plainProgress{}, auto.(*clocked).screen, "not a terminal")
}

func TestTexts(t *testing.T) {
	assert.Equal(t, "999", grouped(999))
	assert.Equal(t, "1,000", grouped(1000))
	assert.Equal(t, "12,345,678", grouped(12345678))
	assert.Equal(t, "?", leftText(-1))
	assert.Equal(t, "0m05s", leftText(5*time.Second))
	assert.Equal(t, "2h03m", leftText(2*time.Hour+3*time.Minute+4*time.Second))
	assert.Equal(t, "-", rate(math.NaN()))
}

// lost is a terminal that has been closed; tried tells that something was to be written to it.
type lost struct{ tried chan struct{} }

func (l lost) Write([]byte) (int, error) {
	select {
	case l.tried <- struct{}{}:
	default:
	}
	return 0, syscall.EIO
}

// Output that cannot be written ends nothing and holds up nothing, in every form of it: it is tried, and what follows is tried again.
func TestOutputThatCannotBeWritten(t *testing.T) {
	for _, kind := range progressKinds {
		l := lost{make(chan struct{}, 1)}
		p, err := NewProgress(kind, l, time.Nanosecond)
		require.NoError(t, err)
		for step := range int64(3) {
			p.Phase("compile kernels", int(step), 2)
			p.Step(Status{Step: step, Steps: 3})
			p.Line("a line")
			select {
			case <-l.tried: // a bar draws in its own time
			case <-time.After(gputest.Patience):
				t.Fatalf("%s: step %d: nothing was written", kind, step)
			}
		}
		p.Times(nil)
		p.Close()
	}
}

func TestTerminalsThatAreNotDrawnOn(t *testing.T) {
	env := map[string]string{"TERM": "xterm"}
	of := func(key string) string { return env[key] }
	assert.True(t, moves(of))
	env["NO_COLOR"] = "1"
	assert.False(t, moves(of))
	env = map[string]string{"TERM": "dumb"}
	assert.False(t, moves(of))
}
