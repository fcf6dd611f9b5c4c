package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"

	"gputrain/gpu"
	"gputrain/pipeline/timeline"
)

// writeProfile prints the time of each group of passes and writes the trace.
func writeProfile(dev *gpu.Device, path string) error {
	spans := dev.Profile()
	if err := gpu.ProfileTable(os.Stderr, spans); err != nil {
		return err
	}
	return writeFile(path, func(w io.Writer) error { return gpu.WriteTrace(w, spans) })
}

// writeTimeline prints the time of each group of passes of every device that tells it, and writes the trace of stages and links.
func writeTimeline(r *timeline.Recorder, devices []*gpu.Device, path string) error {
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
		if err := gpu.ProfileTable(os.Stderr, spans); err != nil {
			return err
		}
	}
	return writeFile(path, func(w io.Writer) error { return r.WriteTrace(w, passes...) })
}

// writeFile writes a file through a buffer.
func writeFile(path string, write func(io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	w := bufio.NewWriter(f)
	if err := write(w); err != nil {
		return err
	}
	return errors.Join(w.Flush(), f.Close())
}
