package train

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/gpu/gputest"
)

func status(step int64) Status {
	return Status{Step: step, Steps: 100, Loss: 2.5, LearningRate: 1e-3, TokensPerSecond: 12345.6, Left: 61 * time.Second}
}

func TestPlainProgress(t *testing.T) {
	var out bytes.Buffer
	now := time.Unix(0, 0)
	p := &plainProgress{w: &out, interval: 10 * time.Second, now: func() time.Time { return now }}
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
	p, err := newProgress("json", &out, 0)
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
	p, err := newProgress("bar", &out, 0)
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
	for _, kind := range append(ProgressKinds, "") {
		p, err := newProgress(kind, io.Discard, time.Second)
		require.NoError(t, err, kind)
		p.Step(status(1))
		p.Close()
	}
	_, err := newProgress("tqdm", io.Discard, 0)
	assert.ErrorContains(t, err, `"tqdm"`)
	auto, err := newProgress("auto", io.Discard, 0)
	require.NoError(t, err)
	assert.IsType(t, &plainProgress{}, auto, "not a terminal")
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

func TestChart(t *testing.T) {
	var steep []Point
	for i := range 5000 {
		y := 5.5 * math.Exp(-float64(i)/1000)
		switch i {
		case 2500:
			y = 40 // a spike that thinning must not lose
		case 3000:
			y = math.NaN()
		case 3001:
			y = math.Inf(1)
		}
		steep = append(steep, Point{float64(i), y})
	}
	c := Chart{Title: "a < b & c", Panels: []Panel{{XLabel: "step", YLabel: "loss", Series: []Series{
		{Name: "training", Color: "#1f77b4", Points: steep}, {Name: "validation", Color: "#d62728", Dots: true, Points: []Point{{1, 5}, {5000, 1}}},
	}}}}
	var out bytes.Buffer
	require.NoError(t, c.Write(&out))
	requireXML(t, out.Bytes())
	text := out.String()
	assert.NotContains(t, text, "NaN")
	assert.NotContains(t, text, "Inf")
	assert.Contains(t, text, "a &lt; b &amp; c")
	box := c.Panels[0].box(0, singleWidth)
	assert.Contains(t, text, px(box.px(2500))+","+px(box.py(40)), "the spike is drawn")
	assert.Less(t, len(thin(steep, 0, 5000)), 2*maxColumns+2)

	// Nothing, one point, a flat line.
	for _, s := range [][]Point{nil, {{3, 2}}, {{1, 2}, {2, 2}}} {
		out.Reset()
		require.NoError(t, Chart{Panels: []Panel{{Direct: true, Series: []Series{{Name: "x", Points: s}}}}}.Write(&out))
		assert.NotContains(t, out.String(), "NaN")
	}
}

// requireXML fails where a picture is not well-formed.
func requireXML(t *testing.T, picture []byte) {
	t.Helper()
	d := xml.NewDecoder(bytes.NewReader(picture))
	for {
		_, err := d.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		require.NoError(t, err)
	}
}

// Names at the ends of curves that end together keep clear of each other and inside the panel, in the order of the curves.
func TestNamesOfCurvesKeepClear(t *testing.T) {
	panel := Panel{Direct: true, Top: 4}
	for i, name := range []string{"c", "a", "b", "off", "far"} {
		end := []float64{2.002, 2, 2.001, 900, 800}[i]
		panel.Series = append(panel.Series, Series{Name: name, Color: "#123456", Points: []Point{{0, 5}, {100, end}}})
	}
	var out bytes.Buffer
	require.NoError(t, Chart{Panels: []Panel{panel, panel}}.Write(&out))
	requireXML(t, out.Bytes())
	box := panel.box(1, severalEach)
	assert.Equal(t, 4.0, box.y1, "what is above the top does not stretch the axis")
	at := map[string]float64{}
	for _, m := range regexp.MustCompile(`<text x="([\d.]+)" y="([\d.]+)" font-weight="bold" fill="#123456">(\w+)<`).FindAllStringSubmatch(out.String(), -1) {
		x, err := strconv.ParseFloat(m[1], 64)
		require.NoError(t, err)
		y, err := strconv.ParseFloat(m[2], 64)
		require.NoError(t, err)
		assert.Less(t, x, float64(2*severalEach-boldWidth*len(m[3])))
		at[m[3]] = y
	}
	require.Len(t, at, 5)
	assert.InDelta(t, box.top+4, at["off"], 0.1, "a curve that leaves the panel has its name at the top")
	assert.InDelta(t, at["off"]+labelHeight, at["far"], 0.1)
	assert.GreaterOrEqual(t, at["b"]-at["c"], float64(labelHeight))
	assert.GreaterOrEqual(t, at["a"]-at["b"], float64(labelHeight))
	assert.LessOrEqual(t, at["a"], box.bottom+4)
}

func TestTicks(t *testing.T) {
	assert.Equal(t, "0", label(ticks(0, 5, 6)[0]), "not -0")
	assert.Equal(t, []float64{0, 100, 200, 300, 400, 500, 600}, ticks(0, 600, 6))
	for _, r := range [][2]float64{{1, 2}, {-3, 5}, {2.1e-5, 2.2e-5}, {0, 7e9}} {
		got := ticks(r[0], r[1], 6)
		assert.GreaterOrEqual(t, len(got), 2)
		assert.LessOrEqual(t, len(got), 8)
	}
}

// Values that differ by the rounding of what was computed of them, such as a mean of equal ones, are drawn as one value.
func TestAxesOfEqualValues(t *testing.T) {
	for _, v := range []float64{0, 0.05893313240041345, -3, 1e16, 1e300, 5e-324} {
		for _, other := range []float64{v, math.Nextafter(v, math.Inf(1))} {
			var p plot
			p.scale(Panel{Series: []Series{{Points: []Point{{X: 1, Y: v}, {X: 2, Y: other}}}}})
			assert.LessOrEqual(t, len(p.ys), 14, "%g and %g", v, other)
			assert.Less(t, p.y0, p.y1, "%g and %g", v, other)
			assert.Less(t, p.ys[0], p.ys[1], "%g and %g", v, other)
		}
	}
}

func TestHooksAreFunctions(t *testing.T) {
	wrong := errors.New("no")
	var h Hook = HookFunc(func(_ context.Context, e Event) error {
		if e.Kind == Saved {
			return wrong
		}
		return nil
	})
	assert.NoError(t, h.Event(t.Context(), Event{Kind: Stepped}))
	assert.ErrorIs(t, h.Event(t.Context(), Event{Kind: Saved}), wrong)
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
	for _, kind := range ProgressKinds {
		l := lost{make(chan struct{}, 1)}
		p, err := newProgress(kind, l, time.Nanosecond)
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
