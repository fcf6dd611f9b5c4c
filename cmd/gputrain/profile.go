package main

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"

	"gputrain/gpu"
	"gputrain/internal/timeline"
	"gputrain/internal/trace"
)

// layersTogether gives spans of layers the names that they have without the layers' numbers: what a model does in all its layers is one group of the
// table. The trace has each by itself.
func layersTogether(spans []gpu.Span) []gpu.Span {
	spans = slices.Clone(spans)
	for i := range spans {
		spans[i].Group = layerNumber.ReplaceAllString(spans[i].Group, ".*.")
	}
	return spans
}

var layerNumber = regexp.MustCompile(`\.\d+\.`)

// writeProfile prints the time of each group of passes and writes the trace.
func writeProfile(w io.Writer, dev *gpu.Device) error {
	spans := dev.Profile()
	if err := trace.Table(os.Stderr, layersTogether(spans)); err != nil {
		return err
	}
	return trace.Write(w, spans)
}

// writeTimeline prints the time of each group of passes of every device that tells it, and writes the trace of stages and links.
func writeTimeline(w io.Writer, r *timeline.Recorder, devices []*gpu.Device) error {
	var passes []timeline.Passes
	seen := map[*gpu.Device]bool{}
	for stage, d := range devices {
		if seen[d] || d.Dry() || !d.Adapter().Timestamps {
			continue
		}
		seen[d] = true
		spans := d.Profile()
		passes = append(passes, timeline.Passes{Stage: stage, Spans: spans, Origin: d.ProfileOrigin()})
		fmt.Fprintf(os.Stderr, "stage %d, %s\n", stage, d.Adapter())
		if err := trace.Table(os.Stderr, layersTogether(spans)); err != nil {
			return err
		}
	}
	return r.WriteTrace(w, passes...)
}
