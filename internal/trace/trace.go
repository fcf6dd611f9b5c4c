// Package trace writes what passes took: as a file for Perfetto, and as tables.
package trace

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"gputrain/gpu"
)

// event is one of the Trace Event Format, which Perfetto and chrome://tracing open; times in microseconds.
type event struct {
	Name  string         `json:"name"`
	Phase string         `json:"ph"`
	Time  float64        `json:"ts"`
	Dur   float64        `json:"dur,omitempty"`
	PID   int            `json:"pid"`
	TID   int            `json:"tid"`
	Args  map[string]any `json:"args,omitempty"`
}

// Lane is a row of a trace. Lanes of one process stand together.
type Lane struct {
	Process string // "" for none
	Name    string
	Bars    []Bar // not overlapping
}

// Bar is a span of time in a lane; the origin of time is the same for all lanes of a trace.
type Bar struct {
	Name       string
	Begin, End time.Duration
	Args       map[string]any // shown when the bar is chosen
}

// argsOf are what a trace shows of a pass besides its name.
func argsOf(s gpu.Span) map[string]any {
	args := map[string]any{"recording": s.Label}
	if s.Operation != "" {
		args["operation"] = s.Operation
	}
	return args
}

// Passes is the lane of a profile, its times moved by shift.
func Passes(process, name string, spans []gpu.Span, shift time.Duration) Lane {
	lane := Lane{Process: process, Name: name}
	for _, s := range spans {
		lane.Bars = append(lane.Bars, Bar{s.Name(), s.Begin + shift, s.End + shift, argsOf(s)})
	}
	return lane
}

// Write writes spans as a JSON file for Perfetto.
func Write(w io.Writer, spans []gpu.Span) error {
	return WriteLanes(w, []Lane{Passes("", "gpu", spans, 0)})
}

// WriteLanes writes lanes as a JSON file for Perfetto. It begins with the first span.
func WriteLanes(w io.Writer, lanes []Lane) error {
	out := bufio.NewWriter(w)
	trace := struct {
		Events []event `json:"traceEvents"`
		Unit   string  `json:"displayTimeUnit"`
	}{eventsOf(lanes), "ms"}
	if err := json.NewEncoder(out).Encode(trace); err != nil {
		return fmt.Errorf("gpu: write trace: %w", err)
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("gpu: write trace: %w", err)
	}
	return nil
}

func eventsOf(lanes []Lane) []event {
	var origin time.Duration
	seen := false
	for _, lane := range lanes {
		for _, s := range lane.Bars {
			if !seen || s.Begin < origin {
				origin, seen = s.Begin, true
			}
		}
	}
	us := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }
	processes := map[string]int{}
	var events []event
	for i, lane := range lanes {
		process, known := processes[lane.Process]
		if !known {
			process = len(processes) + 1
			processes[lane.Process] = process
			if lane.Process != "" {
				events = append(
					events,
					event{Name: "process_name", Phase: "M", PID: process, Args: map[string]any{"name": lane.Process}},
					event{Name: "process_sort_index", Phase: "M", PID: process, Args: map[string]any{"sort_index": process}},
				)
			}
		}
		thread := i + 1
		events = append(events, event{Name: "thread_name", Phase: "M", PID: process, TID: thread, Args: map[string]any{"name": lane.Name}})
		for _, s := range lane.Bars {
			events = append(events, event{
				Name: s.Name, Phase: "X", Time: us(s.Begin - origin), Dur: us(s.End - s.Begin), PID: process, TID: thread, Args: s.Args,
			})
		}
	}
	return events
}

// Table writes two tables of spans, the longest first: a line an operation, and a line a group.
func Table(w io.Writer, spans []gpu.Span) error {
	out := bufio.NewWriter(w)
	table(out, "operation", spans, func(s gpu.Span) string { return cmp.Or(s.Operation, s.Name()) })
	fmt.Fprintln(out)
	table(out, "group", spans, gpu.Span.Name)
	if err := out.Flush(); err != nil {
		return fmt.Errorf("gpu: profile table: %w", err)
	}
	return nil
}

// table writes a table of spans by a name that they have.
func table(out io.Writer, heading string, spans []gpu.Span, nameOf func(gpu.Span) string) {
	type row struct {
		name         string
		passes       int
		total, worst time.Duration
	}
	rows := map[string]*row{}
	var total time.Duration
	for _, s := range spans {
		r := rows[nameOf(s)]
		if r == nil {
			r = &row{name: nameOf(s)}
			rows[nameOf(s)] = r
		}
		took := s.End - s.Begin
		r.passes++
		r.total += took
		r.worst = max(r.worst, took)
		total += took
	}
	sorted := slices.SortedFunc(maps.Values(rows), func(a, b *row) int {
		return cmp.Or(cmp.Compare(b.total, a.total), cmp.Compare(a.name, b.name))
	})
	width := len(heading)
	for _, r := range sorted {
		width = max(width, len(r.name))
	}
	fmt.Fprintf(out, "%-*s  %8s  %10s  %6s  %10s  %10s\n", width, heading, "passes", "total ms", "share", "mean us", "worst us")
	for _, r := range sorted {
		share := 100 * float64(r.total) / float64(max(total, 1))
		mean := float64(r.total.Nanoseconds()) / float64(r.passes) / 1e3
		fmt.Fprintf(out, "%-*s  %8d  %10.3f  %5.1f%%  %10.1f  %10.1f\n", width, r.name, r.passes,
			float64(r.total.Nanoseconds())/1e6, share, mean, float64(r.worst.Nanoseconds())/1e3)
	}
	fmt.Fprintf(out, "%-*s  %8d  %10.3f\n", width, "all", len(spans), float64(total.Nanoseconds())/1e6)
}
