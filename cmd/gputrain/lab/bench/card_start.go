package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// cardStart is a training of one step of the default model in a process of its own, from its start to its end.
type cardStart struct {
	Caches  string      `json:"caches"` // cold or warm
	Seconds float64     `json:"seconds"`
	Spans   []startSpan `json:"spans"` // as the run tells where its time went
}

// startSpan is what a part of that time went into.
type startSpan struct {
	Name    string  `json:"name"`
	Seconds float64 `json:"seconds"`
	Beside  bool    `json:"beside,omitempty"`
}

// starts trains twice: the drivers' caches of kernels are in a folder that is empty at first. Where a driver keeps its cache elsewhere, both are warm.
func (m *Meter) starts(ctx context.Context) error {
	if m.Program == "" {
		return nil
	}
	dir, err := os.MkdirTemp("", "gputrain-card-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	text := filepath.Join(dir, "text.txt")
	if err := os.WriteFile(text, []byte(strings.Repeat("What is measured here is the time of a start. ", 400)), 0o600); err != nil {
		return err
	}
	for _, caches := range []string{"cold", "warm"} {
		s, err := m.start(ctx, dir, text)
		if err != nil {
			return fmt.Errorf("a start with %s caches: %w", caches, err)
		}
		s.Caches = caches
		if err := m.done(ctx, func(c *Card, _ *cardPart) { c.Starts = append(c.Starts, s) }); err != nil {
			return err
		}
	}
	return nil
}

func (m *Meter) start(ctx context.Context, dir, text string) (s cardStart, err error) {
	args := []string{"train", "--adapter", strconv.Itoa(m.Adapter.Index), "--run-dir", filepath.Join(dir, "run"), "--fresh", "--progress", "json"}
	for _, set := range append([]string{"data.text=" + text, "train.steps=1", "train.sample_tokens=0", "data.validation=0"}, m.Scale.start...) {
		args = append(args, "--set", set)
	}
	cmd := exec.CommandContext(ctx, m.Program, args...)
	cmd.Env = append(os.Environ(), "MESA_SHADER_CACHE_DIR="+dir, "__GL_SHADER_DISK_CACHE_PATH="+dir)
	var told bytes.Buffer
	cmd.Stderr = &told
	begun := time.Now()
	if err := cmd.Run(); err != nil {
		return s, fmt.Errorf("%w: %s", err, lastLine(told.String()))
	}
	s.Seconds = time.Since(begun).Seconds()
	for line := range strings.Lines(told.String()) {
		var event struct {
			Event string
			Spans []startSpan
		}
		if json.Unmarshal([]byte(line), &event) == nil && event.Event == "times" {
			s.Spans = event.Spans
		}
	}
	return s, nil
}

func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return text[strings.LastIndexByte(text, '\n')+1:]
}
