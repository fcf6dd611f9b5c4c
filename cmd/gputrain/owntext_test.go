package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/run/runfile"
	"gputrain/run/setup"
	"gputrain/state/checkpoint"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o777))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o666))
}

// A run is measured on the text that it has learned from, from whatever directory it is asked, and on no other that has its name there.
func TestEvalKnowsTheTextOfARun(t *testing.T) {
	home, elsewhere := t.TempDir(), t.TempDir()
	write(t, filepath.Join(home, "text.txt"), strings.Repeat("the text. ", 50))
	write(t, filepath.Join(home, "run/run.yaml"), "model: {layers: 1, heads: 1, width: 8, context: 16}\ndata: {text: [./text.txt], validation: 0.2}\n")
	write(t, filepath.Join(home, "run/.gputrain"), fmt.Sprintf(`{"format":1,"from":%q}`, home))
	cfg := runfile.New()
	require.NoError(t, cfg.File(filepath.Join(home, "run/run.yaml")))
	def, _, err := setup.Definition(cfg, os.Stderr)
	require.NoError(t, err)
	open := func(f textFlags) (string, error) {
		text, _, err := f.open(t.Context(), &modelFlags{Model: filepath.Join(home, "run")}, cfg, true, def, def.Context())
		if err != nil {
			return "", err
		}
		defer text.Close()
		return text.Fingerprint, nil
	}
	t.Chdir(elsewhere)
	learned, err := open(textFlags{})
	require.NoError(t, err, "before there is a checkpoint")
	record := checkpoint.Record{Format: 1, Step: 3, Run: checkpoint.Run{Fingerprint: learned}}
	raw, err := json.Marshal(record)
	require.NoError(t, err)
	write(t, filepath.Join(home, "run/checkpoints", checkpoint.DirName(3), "state.json"), string(raw))

	write(t, "text.txt", strings.Repeat("a trap. ", 50))
	found, err := open(textFlags{})
	require.NoError(t, err)
	assert.Equal(t, learned, found, "not the file of that name where one stands")

	require.NoError(t, os.Rename(filepath.Join(home, "text.txt"), filepath.Join(home, "moved")))
	_, err = open(textFlags{})
	var usage usageError
	require.ErrorAs(t, err, &usage)
	assert.ErrorContains(t, err, "wanted "+learned+": it is not what the run has learned from; --changed-text measures it all the same")
	found, err = open(textFlags{ChangedText: true})
	require.NoError(t, err)
	assert.NotEqual(t, learned, found)
	_, err = open(textFlags{Text: []string{"text.txt"}})
	require.NoError(t, err, "another text that was asked for")

	require.NoError(t, os.Rename(filepath.Join(home, "moved"), "text.txt"))
	found, err = open(textFlags{})
	require.NoError(t, err)
	assert.Equal(t, learned, found, "the same text where one stands")
}

// What a run may change when it goes on does not make it another one; what it learns from does, however that is spelt.
func TestNamesOfRuns(t *testing.T) {
	t.Chdir(t.TempDir())
	here, err := os.Getwd()
	require.NoError(t, err)
	name := func(sets ...string) string {
		cfg, err := runfile.ReadAll(nil, nil, sets)
		require.NoError(t, err)
		return runDirOf(nil, cfg)
	}
	assert.Equal(t, filepath.Join("runs", "default"), name("train.keep=9", "train.save_every=7", "pipeline.adapters=[1]", "data.prefetch=2", "train.tensorboard=false", "train.sample_every=5"))
	steps := name("train.steps=7")
	assert.NotEqual(t, name(), steps)
	assert.Equal(t, steps, name("train.steps=7", "pipeline.adapters=[0]", "train.keep=2"))
	text := name("data.text=a.txt")
	assert.NotEqual(t, text, name("data.text=b.txt"))
	assert.Equal(t, text, name("data.text=./a.txt"))
	assert.Equal(t, text, name("data.text="+filepath.Join(here, "a.txt")))
	assert.Equal(t, name("model.from=a"), name("model.from=./a/"))
}
