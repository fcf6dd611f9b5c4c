package timeline_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gputrain/gpu"
	"gputrain/internal/timeline"
)

// bar is where a trace shows a span: the names of process and lane, and what it says.
type bar struct {
	Process, Lane string
	Name          string
	Time, Dur     float64
	Args          map[string]any
}

// parseTrace gives the bars of a trace, and how many lanes go by each name.
func parseTrace(t *testing.T, raw []byte) (bars []bar, lanes map[string]int) {
	t.Helper()
	var trace struct {
		Events []struct {
			Name, Ph string
			Ts, Dur  float64
			Pid, Tid int
			Args     map[string]any
		} `json:"traceEvents"`
	}
	require.NoError(t, json.Unmarshal(raw, &trace))
	processes, threads := map[int]string{}, map[[2]int]string{}
	lanes = map[string]int{}
	for _, e := range trace.Events {
		switch {
		case e.Name == "process_name" && e.Ph == "M":
			processes[e.Pid] = e.Args["name"].(string)
		case e.Name == "thread_name" && e.Ph == "M":
			name := e.Args["name"].(string)
			threads[[2]int{e.Pid, e.Tid}] = name
			lanes[processes[e.Pid]+"/"+name]++
		case e.Ph == "X":
			bars = append(bars, bar{processes[e.Pid], threads[[2]int{e.Pid, e.Tid}], e.Name, e.Ts, e.Dur, e.Args})
		}
	}
	return bars, lanes
}

func TestWriteTrace(t *testing.T) {
	r := timeline.NewRecorder(twoStages, 0)
	r.Begin()
	origin := time.Now()
	add := func(s timeline.Span, from, to int) {
		at := func(us int) time.Time { return origin.Add(time.Duration(us) * time.Microsecond) }
		r.Add(s, at(from), at(to))
	}
	add(timeline.Span{Kind: timeline.Wait, Stage: 1, Link: 0, Name: "forward", Part: 1, Microbatch: 0}, 100, 160)
	add(timeline.Span{Kind: timeline.Compute, Stage: 0, Name: "forward", Part: 0, Microbatch: 0}, 100, 150)
	add(timeline.Span{Kind: timeline.Compute, Stage: 1, Name: "update", Part: -1, Microbatch: -1}, 160, 200)
	add(timeline.Span{Kind: timeline.Transfer, Link: 0, Name: "out", Part: 0, Microbatch: 1}, 150, 170)
	add(timeline.Span{Kind: timeline.Transfer, Link: 0, Name: "in", Part: 0, Microbatch: 0}, 155, 160)
	add(timeline.Span{Kind: timeline.Transfer, Link: 0, Name: "in", Part: 0, Microbatch: 1}, 170, 175)
	passes := timeline.Passes{Stage: 1, Origin: origin, Spans: []gpu.Span{
		{Label: "step", Group: "head", Begin: 165 * time.Microsecond, End: 195 * time.Microsecond},
	}}
	var out bytes.Buffer
	require.NoError(t, r.WriteTrace(&out, passes, timeline.Passes{Stage: 0}))
	bars, lanes := parseTrace(t, out.Bytes())
	args := func(part, microbatch float64) map[string]any {
		return map[string]any{"part": part, "microbatch": microbatch}
	}
	require.ElementsMatch(t, []bar{
		{"stage 0", "compute", "forward", 0, 50, args(0, 0)},
		{"stage 1", "wait", "forward", 0, 60, args(1, 0)},
		{"stage 1", "compute", "update", 60, 40, nil},
		{"stage 1", "passes", "head", 65, 30, map[string]any{"recording": "step"}},
		{"links", "0 to 1", "out", 50, 20, args(0, 1)},
		{"links", "0 to 1", "in", 55, 5, args(0, 0)},
		{"links", "0 to 1", "in", 70, 5, args(0, 1)},
	}, bars)
	require.Equal(t, map[string]int{
		"stage 0/compute": 1, "stage 0/wait": 1, "stage 1/compute": 1, "stage 1/wait": 1, "stage 1/passes": 1,
		"links/0 to 1": 2, // two messages at once
		"links/1 to 0": 1,
	}, lanes)
	require.ErrorIs(t, r.WriteTrace(brokenWriter{}), errBroken)
}

var errBroken = errors.New("broken")

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errBroken }
