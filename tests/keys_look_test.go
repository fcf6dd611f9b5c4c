package tests

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gputrain/model"
)

// look is what a run has left and said.
type look struct {
	dir string
	ended
}

// lines are those of a file of JSON lines; a file that is not there has none.
func (l look) lines(t *testing.T, name string) []map[string]any {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(l.dir, name))
	if os.IsNotExist(err) {
		return nil
	}
	require.NoError(t, err)
	return objects(t, string(raw))
}

// column is a field of the lines of a file that have it.
func column(file, field string) func(*testing.T, look) any {
	return func(t *testing.T, l look) any {
		var out []any
		for _, line := range l.lines(t, file) {
			if v, ok := line[field]; ok {
				out = append(out, v)
			}
		}
		return out
	}
}

// rolledOut is a field of all completions that are logged.
func rolledOut(field string) func(*testing.T, look) any {
	return func(t *testing.T, l look) any {
		var out []any
		for _, line := range l.lines(t, "rollouts.jsonl") {
			for _, one := range line["completions"].([]any) {
				out = append(out, one.(map[string]any)[field])
			}
		}
		require.NotEmpty(t, out, l.err)
		return out
	}
}

var (
	losses = column("metrics.jsonl", "loss")
	norms  = column("metrics.jsonl", "grad_norm")
	rates  = column("metrics.jsonl", "learning_rate")
)

// first is the first item of what is a list.
func first(sees func(*testing.T, look) any) func(*testing.T, look) any {
	return func(t *testing.T, l look) any {
		list, _ := sees(t, l).([]any)
		require.NotEmpty(t, list, l.err)
		return list[0]
	}
}

// distinct are the different items of a list in their order.
func distinct(sees func(*testing.T, look) any) func(*testing.T, look) any {
	return func(t *testing.T, l look) any {
		var out []any
		for _, v := range sees(t, l).([]any) {
			if !slices.Contains(out, v) {
				out = append(out, v)
			}
		}
		return out
	}
}

// count is the length of a list.
func count(sees func(*testing.T, look) any) func(*testing.T, look) any {
	return func(t *testing.T, l look) any { return len(sees(t, l).([]any)) }
}

// steps with a field in metrics.jsonl.
func stepsWith(field string) func(*testing.T, look) any {
	return func(t *testing.T, l look) any {
		var out []any
		for _, line := range l.lines(t, "metrics.jsonl") {
			if line[field] != nil {
				out = append(out, line["step"])
			}
		}
		return out
	}
}

// exit is how the run has ended.
func exit(_ *testing.T, l look) any { return l.code }

// says is what an expression's group finds in all that is said, once or more often.
func says(expression string) func(*testing.T, look) any {
	return func(_ *testing.T, l look) any {
		var out []any
		for _, m := range regexp.MustCompile(expression).FindAllStringSubmatch(l.err, -1) {
			out = append(out, m[len(m)-1])
		}
		return out
	}
}

// newestCheckpoint is the folder of the last checkpoint.
func (l look) newestCheckpoint(t *testing.T) string {
	t.Helper()
	dirs, err := filepath.Glob(filepath.Join(l.dir, "checkpoints", "step-*"))
	require.NoError(t, err)
	require.NotEmpty(t, dirs, l.err)
	return dirs[len(dirs)-1]
}

// checkpoints are the steps of those that are left.
func checkpoints(t *testing.T, l look) any {
	dirs, err := filepath.Glob(filepath.Join(l.dir, "checkpoints", "step-*"))
	require.NoError(t, err)
	out := []any{}
	for _, dir := range dirs {
		out = append(out, number(t, strings.TrimPrefix(filepath.Base(dir), "step-")))
	}
	return out
}

// files are those of the run directory that a pattern matches, by number.
func files(pattern string) func(*testing.T, look) any {
	return func(t *testing.T, l look) any {
		names, err := filepath.Glob(filepath.Join(l.dir, pattern))
		require.NoError(t, err)
		return len(names)
	}
}

// tensors are those of a file of the newest checkpoint, with their shapes.
func (l look) tensors(t *testing.T, file string) map[string]string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(l.newestCheckpoint(t), file))
	require.NoError(t, err)
	var header map[string]struct{ Shape []int }
	require.NoError(t, json.NewDecoder(bytes.NewReader(raw[8:8+binary.LittleEndian.Uint64(raw)])).Decode(&header))
	out := map[string]string{}
	for name, tensor := range header {
		if name != "__metadata__" {
			out[name] = fmt.Sprint(tensor.Shape)
		}
	}
	return out
}

// weightsFile is that of the newest checkpoint.
func (l look) weightsFile(t *testing.T) string {
	t.Helper()
	if _, err := os.Stat(filepath.Join(l.newestCheckpoint(t), model.AdapterWeightsFile)); err == nil {
		return model.AdapterWeightsFile
	}
	return "model.safetensors"
}

// shape is that of a parameter.
func shape(name string) func(*testing.T, look) any {
	return func(t *testing.T, l look) any { return l.tensors(t, l.weightsFile(t))[name] }
}

// parameters is how many there are whose names an expression matches.
func parameters(expression string) func(*testing.T, look) any {
	return func(t *testing.T, l look) any {
		n := 0
		for name := range l.tensors(t, l.weightsFile(t)) {
			if regexp.MustCompile(expression).MatchString(name) {
				n++
			}
		}
		return n
	}
}

// slots are what the optimizer keeps, by name.
func slots(t *testing.T, l look) any {
	seen := map[string]bool{}
	for name := range l.tensors(t, "optimizer.safetensors") {
		seen[strings.Split(name, "/")[0]] = true
	}
	return fmt.Sprint(seen)
}

// weights is a checksum of the model's.
func weights(t *testing.T, l look) any {
	raw, err := os.ReadFile(filepath.Join(l.newestCheckpoint(t), "model.safetensors"))
	require.NoError(t, err)
	return crc32.ChecksumIEEE(raw)
}

// order is what a stage does first, by --profile: microbatches forwards and, with a stroke, backwards; n is how much of it. The last part of a
// model goes forwards and backwards at once.
func order(stage, n int) func(*testing.T, look) any {
	return func(t *testing.T, l look) any {
		var out []string
		for _, e := range l.timeline(t) {
			if e.PID != stage+1 || len(out) == n {
				continue
			}
			switch e.Name {
			case "forward":
				out = append(out, fmt.Sprint(e.Args.Microbatch))
			case "backward":
				out = append(out, fmt.Sprintf("%d'", e.Args.Microbatch))
			}
		}
		return strings.Join(out, " ")
	}
}

// parts is how many pieces of the model a stage has.
func parts(stage int) func(*testing.T, look) any {
	return func(t *testing.T, l look) any {
		seen := map[int]bool{}
		for _, e := range l.timeline(t) {
			if e.PID == stage+1 {
				seen[e.Args.Part] = true
			}
		}
		return len(seen)
	}
}

type timelineEvent struct {
	Name     string
	PID, TID int
	TS       float64
	Args     struct{ Microbatch, Part int }
}

// computing is the lane of a stage in profile.json that has what it computes.
const computing = 1

func (l look) timeline(t *testing.T) []timelineEvent {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(l.dir, "profile.json"))
	require.NoError(t, err, l.err)
	var profile struct{ TraceEvents []json.RawMessage }
	require.NoError(t, json.Unmarshal(raw, &profile))
	var out []timelineEvent
	for _, raw := range profile.TraceEvents {
		var e timelineEvent
		if json.Unmarshal(raw, &e) == nil && e.TID == computing && (e.Name == "forward" || e.Name == "backward") {
			out = append(out, e)
		}
	}
	slices.SortStableFunc(out, func(a, b timelineEvent) int { return cmp.Compare(a.TS, b.TS) })
	return out
}

// alike compares what is seen: lists item by item, numbers up to the sixth digit.
func alike(a, b any) bool {
	listA, isA := a.([]any)
	listB, isB := b.([]any)
	if isA || isB {
		return isA == isB && slices.EqualFunc(listA, listB, alike)
	}
	x, xIs := float(a)
	y, yIs := float(b)
	if xIs && yIs {
		return x == y || math.Abs(x-y) <= 1e-6*max(math.Abs(x), math.Abs(y))
	}
	return reflect.DeepEqual(a, b)
}

func float(v any) (float64, bool) {
	r := reflect.ValueOf(v)
	switch {
	case r.IsValid() && r.CanFloat():
		return r.Float(), true
	case r.IsValid() && r.CanInt():
		return float64(r.Int()), true
	}
	return 0, false
}
