package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/run/record"
)

// report writes a page or an object of a run's files, over an older one but over nothing else; what is no run is wrong usage.
func TestReport(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "small")
	require.NoError(t, os.Mkdir(dir, 0o777))
	at := func(name string) string { return filepath.Join(dir, name) }
	write := func(name, text string) { require.NoError(t, os.WriteFile(at(name), []byte(text), 0o666)) }
	var begun bytes.Buffer
	require.NoError(t, record.Write(&begun, []record.Setting{record.NewSetting("train.steps", 7, "run.yaml:1")}))
	write("run.yaml", begun.String())
	write("metrics.jsonl", `{"step":1,"loss":4.5}`+"\n"+`{"step":1,"eval_loss":"NaN","eval_tokens":9,"eval_ms":1}`+"\n"+`{"step":2,"loss":"NaN"}`+"\n"+`{"step":2,"eval_loss":3.25,"eval_tokens":9,"eval_ms":1}`+"\n")
	write("sessions.jsonl", `{"step":0,"adapter":"a \u001b[31mcard","program":"old"}`+"\n")
	write("mine.md", "# mine\n")
	for _, args := range [][]string{{dir}, {dir, "--to", at("r.md")}, {dir, "--to", at("r.md")}, {dir, "--json", "--to", at("r.json")}, {dir, "--json", "--to", at("r.json")}} {
		assert.Equal(t, 0, run(append([]string{"report"}, args...)), args)
	}
	page, err := os.ReadFile(at("r.md"))
	require.NoError(t, err)
	for _, want := range []string{
		"# small\n", `| adapter | a \x1b[31mcard |`, "| state | goes on, or was killed, at step 2 of 7 |", "4.5000 at step 1, NaN at step 2", "best 3.2500 at step 2", "steps: 7 ",
	} {
		assert.Contains(t, string(page), want)
	}
	object, err := os.ReadFile(at("r.json"))
	require.NoError(t, err)
	var got map[string]any
	require.NoError(t, json.Unmarshal(object, &got))
	for key, want := range map[string]any{
		"run": "small", "step": 2.0, "steps": 7.0, "processes": 1.0, "program": "old", "ended": nil,
		"best":     map[string]any{"step": 2.0, "eval_loss": 3.25, "eval_tokens": 9.0, "eval_ms": 1.0},
		"settings": []any{map[string]any{"key": "train.steps", "value": 7.0, "origin": "run.yaml:1"}},
	} {
		assert.Equal(t, want, got[key], key)
	}
	assert.Equal(t, "NaN", got["last"].(map[string]any)["loss"])

	for _, args := range [][]string{{t.TempDir()}, {at("nowhere")}, {at("mine.md")}, {dir, "--to", at("mine.md")}, {dir, "--to", dir}} {
		assert.Equal(t, 2, run(append([]string{"report"}, args...)), args)
	}
	write("run.yaml", "train: {steps: 7}\n")
	assert.Equal(t, 2, run([]string{"report", dir}), "a run file of somebody else")
	mine, err := os.ReadFile(at("mine.md"))
	require.NoError(t, err)
	assert.Equal(t, "# mine\n", string(mine))
}
