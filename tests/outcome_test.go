package tests

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/run/train"
	"gputrain/state/checkpoint"
)

// outcome is what a finished run leaves that must not depend on how often it was stopped: contents by name. The lines of metrics.jsonl
// are without what steps cost.
type outcome map[string]string

// costs are the fields of metrics.jsonl in which runs of the same bits may differ.
func costs() []string {
	keys := []string{"eval_ms"}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[train.Cost]()) {
		key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		keys = append(keys, key)
	}
	return keys
}

func outcomeOf(t *testing.T, runDir string) outcome {
	t.Helper()
	o := outcome{}
	dir := filepath.Join(runDir, "checkpoints", checkpoint.DirName(steps))
	names, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, n := range names {
		o[n.Name()] = read(t, filepath.Join(dir, n.Name()))
	}
	for _, name := range []string{"model.safetensors", "optimizer.safetensors", "state.json"} {
		require.Contains(t, o, name)
	}
	var metrics strings.Builder
	for _, m := range metricsOf(t, runDir) {
		for _, key := range costs() {
			delete(m, key)
		}
		raw, err := json.Marshal(m)
		require.NoError(t, err)
		metrics.Write(append(raw, '\n'))
	}
	o["metrics.jsonl"] = metrics.String()
	o["samples.jsonl"] = read(t, filepath.Join(runDir, "samples.jsonl"))
	return o
}

func read(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(raw)
}

// metricsOf are the whole lines of metrics.jsonl; a file that is not there has none.
func metricsOf(t *testing.T, runDir string) []map[string]any {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(runDir, "metrics.jsonl"))
	if os.IsNotExist(err) {
		return nil
	}
	require.NoError(t, err)
	var all []map[string]any
	for _, line := range bytes.SplitAfter(raw, []byte("\n")) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			continue // being written, or cut short by a kill
		}
		var m map[string]any
		require.NoError(t, json.Unmarshal(line, &m), "%s", line)
		all = append(all, m)
	}
	return all
}

// lastStep is the last step in metrics.jsonl; 0: none. Waits ask for it thousands of times a second: of the file it takes the last whole line.
func lastStep(t *testing.T, runDir string) int64 {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(runDir, "metrics.jsonl"))
	if os.IsNotExist(err) {
		return 0
	}
	require.NoError(t, err)
	end := bytes.LastIndexByte(raw, '\n')
	if end < 0 {
		return 0
	}
	var m struct{ Step int64 }
	require.NoError(t, json.Unmarshal(raw[bytes.LastIndexByte(raw[:end], '\n')+1:end], &m), "%s", raw)
	return m.Step
}

// newest is the newest whole checkpoint of a run directory, none of which may be damaged; 0: none.
func newest(t *testing.T, runDir string) int64 {
	t.Helper()
	found, err := checkpoint.Store{FS: checkpoint.OS, Dir: filepath.Join(runDir, "checkpoints")}.Newest()
	require.NoError(t, err)
	require.Empty(t, found.Rejected)
	return found.Step
}

// differ says what differs between two outcomes, "" for nothing.
func differ(want, got outcome) string {
	var text strings.Builder
	names := slices.AppendSeq(slices.Collect(maps.Keys(want)), maps.Keys(got))
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		a, inWant := want[name]
		b, inGot := got[name]
		switch {
		case !inWant || !inGot:
			fmt.Fprintf(&text, "%s: wanted %v, found %v\n", name, inWant, inGot)
		case a != b:
			at := 0
			for at < min(len(a), len(b)) && a[at] == b[at] {
				at++
			}
			fmt.Fprintf(&text, "%s: %d bytes, wanted %d; first difference at byte %d: %.80q, wanted %.80q\n", name, len(b), len(a), at, b[at:], a[at:])
		}
	}
	return text.String()
}

func requireSame(t *testing.T, want, got outcome) {
	t.Helper()
	require.Empty(t, differ(want, got))
}

// undisturbed is a run of tinyRun that nothing has disturbed, made once for all tests. Runs that are compared with it are made in its
// place: a run knows its text by name.
var undisturbed struct {
	once    sync.Once
	place   *place
	outcome outcome
}

func undisturbedRun(t *testing.T) (*place, outcome) {
	t.Helper()
	adapter(t) // skips before once is used up
	u := &undisturbed
	u.once.Do(func() {
		p := &place{filepath.Join(workshop, "undisturbed")}
		p.write(t, "text.txt", lines(400))
		p.write(t, "run.yaml", tinyRun)
		ok(t, p.train("whole"))
		u.place, u.outcome = p, outcomeOf(t, p.path("whole"))
	})
	require.NotNil(t, u.outcome, "the undisturbed run has failed")
	return u.place, u.outcome
}

func TestDifferNoticesOneFlippedBit(t *testing.T) {
	a := outcome{"model.safetensors": "abcd", "metrics.jsonl": "{}\n"}
	assert.Empty(t, differ(a, maps.Clone(a)))
	for _, b := range []outcome{
		{"model.safetensors": "abce", "metrics.jsonl": "{}\n"},
		{"model.safetensors": "abcd", "metrics.jsonl": "{}\n{}\n"},
		{"model.safetensors": "abcd"},
		{"model.safetensors": "abcd", "metrics.jsonl": "{}\n", "more": ""},
	} {
		assert.NotEmpty(t, differ(a, b))
	}
}
