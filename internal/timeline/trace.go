package timeline

import (
	"io"
	"slices"
	"time"

	"gputrain/gpu"
	"gputrain/internal/trace"
)

// Passes are the times of the passes on a stage's device.
type Passes struct {
	Stage  int
	Spans  []gpu.Span // from gpu.Device.Profile
	Origin time.Time  // from gpu.Device.ProfileOrigin
}

// WriteTrace writes the spans kept as a JSON file for Perfetto: for each stage a process with lanes for what its device computes, for what it
// waits for and, where given, for the passes of its device; then a lane a link. Spans that overlap get further lanes of the same name.
func (r *Recorder) WriteTrace(w io.Writer, passes ...Passes) error {
	spans, _ := r.Spans()
	var lanes []trace.Lane
	for i, name := range r.lanes.Stages {
		for _, kind := range []SpanKind{Compute, Wait} {
			lanes = append(lanes, rows(name, kind.String(), spans, func(s Span) bool { return s.Kind == kind && s.Stage == i })...)
		}
		for _, p := range passes {
			if p.Stage == i && len(p.Spans) > 0 {
				lanes = append(lanes, trace.Passes(name, "passes", p.Spans, p.Origin.Sub(r.origin)))
			}
		}
	}
	for i, link := range r.lanes.Links {
		lanes = append(lanes, rows("links", link.Name, spans, func(s Span) bool { return s.Kind == Transfer && s.Link == i })...)
	}
	return trace.WriteLanes(w, lanes)
}

// rows are the lanes for the spans of one kind, one unless some overlap. The spans are in order of their start.
func rows(process, name string, spans []Span, mine func(Span) bool) []trace.Lane {
	lanes := []trace.Lane{{Process: process, Name: name}}
	for _, s := range spans {
		if !mine(s) {
			continue
		}
		free := slices.IndexFunc(lanes, func(l trace.Lane) bool { return len(l.Bars) == 0 || l.Bars[len(l.Bars)-1].End <= s.Start })
		if free < 0 {
			free = len(lanes)
			lanes = append(lanes, trace.Lane{Process: process, Name: name})
		}
		bar := trace.Bar{Name: s.Name, Begin: s.Start, End: s.End, Args: map[string]any{}}
		if s.Part >= 0 {
			bar.Args["part"] = s.Part
		}
		if s.Microbatch >= 0 {
			bar.Args["microbatch"] = s.Microbatch
		}
		lanes[free].Bars = append(lanes[free].Bars, bar)
	}
	return lanes
}
