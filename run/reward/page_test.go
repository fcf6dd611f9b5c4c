package reward

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The commands that docs/rewards.md shows answer what it says.
func TestExamplesOfThePage(t *testing.T) {
	page, err := os.ReadFile("../../docs/rewards.md")
	require.NoError(t, err)
	samples := []Sample{
		{Completion: "It is\n4", Columns: map[string]any{"answer": 4}},
		{Completion: "\"please\": 5", Columns: map[string]any{"answer": "4"}},
		{Completion: "", Columns: map[string]any{"answer": "please"}},
		{Completion: "4", Columns: map[string]any{"answer": nil}},
	}
	for program, c := range map[string]struct {
		block string
		want  []float64
	}{
		"python3": {"(?s)```python\n(.*?)```", []float64{1, 0, 0, nan}},
		"sh":      {"(?s)```sh\n(#!/bin/sh.*?)```", []float64{0, 1, 0, 0}},
	} {
		block := regexp.MustCompile(c.block).FindSubmatch(page)
		require.NotNil(t, block, program)
		if runtime.GOOS == "windows" {
			continue // its python3 may be a shop
		}
		file := filepath.Join(t.TempDir(), "example")
		require.NoError(t, os.WriteFile(file, block[1], 0o666))
		all, log := asked(t, "", program, file)
		for range 2 {
			answers, err := all.Of(t.Context(), samples)
			require.NoError(t, err, log.all())
			equalAnswers(t, c.want, answers[0], program)
		}
		require.NoError(t, all.Close())
	}
	if _, err := exec.LookPath("gofmt"); err == nil {
		f := opened(t, Spec{Kind: "each", Command: []string{"gofmt"}}, Env{AllowCommand: true})
		answers, err := f.Rewards(t.Context(), []Sample{{Completion: "package a\n"}, {Completion: "pakcage a\n"}})
		require.NoError(t, err)
		assert.Equal(t, []float64{1, 0}, answers)
	}
	for _, name := range Kinds() {
		assert.Contains(t, string(page), "\n| `"+name+"` |")
	}
}
