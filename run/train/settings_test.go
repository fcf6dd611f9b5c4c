package train

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/run/record"
	"gputrain/run/runfile"
)

func sampleSettings() []record.Setting {
	return []record.Setting{
		{Key: "model.kind", Value: "gpt2", Origin: "default"},
		{Key: "model.layers", Value: 4, Origin: "run.yaml:3"},
		{Key: "data.text", Value: []string{"a # b.txt", `c"d\`}, Origin: "--set"},
		{Key: "optimizer.learning_rate", Value: 1e-7},
		{Key: "optimizer.schedule.type", Value: "cosine"},
		{Key: "optimizer.schedule.warmup_steps", Value: 50},
		{Key: "optimizer.numerics", Value: nil},
		{Key: "train.save_every", Value: 100, Free: true},
	}
}

func writeSettings(t *testing.T, dir string, s []record.Setting) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(dir, runFile), textOf(t, s), 0o666))
}

func textOf(t *testing.T, s []record.Setting) []byte {
	t.Helper()
	var text bytes.Buffer
	require.NoError(t, record.Write(&text, s))
	return text.Bytes()
}

func TestSettingsRoundTrip(t *testing.T) {
	dir := t.TempDir()
	writeSettings(t, dir, sampleSettings())
	_, _, err := compareSettings(dir, sampleSettings(), false)
	require.NoError(t, err)
	text := textAt(t, dir, runFile)
	assert.Regexp(t, `(?m)^  layers: 4 +# run.yaml:3$`, text)
	record, err := record.Read([]byte(text))
	require.NoError(t, err)
	assert.Equal(t, `["a # b.txt","c\"d\\"]`, record.Values["data.text"])
	assert.Equal(t, "50", record.Values["optimizer.schedule.warmup_steps"])
}

func TestChangedSettingsAreRefused(t *testing.T) {
	for _, c := range []struct {
		name, key string
		edit      func([]record.Setting) []record.Setting
	}{
		{"value", "model.layers", func(s []record.Setting) []record.Setting { s[1].Value = 5; return s }},
		{"small number", "optimizer.learning_rate", func(s []record.Setting) []record.Setting { s[3].Value = 1.0000001e-7; return s }},
		{"list", "data.text", func(s []record.Setting) []record.Setting { s[2].Value = []string{"a # b.txt"}; return s }},
		{"null", "optimizer.numerics", func(s []record.Setting) []record.Setting { s[6].Value = "eformer"; return s }},
		{"new key", "optimizer.clip", func(s []record.Setting) []record.Setting {
			return append(s[:7:7], record.Setting{Key: "optimizer.clip", Value: 1})
		}},
		{"new key at its default", "", func(s []record.Setting) []record.Setting {
			return slices.Insert(s, 7, record.Setting{Key: "optimizer.clip", Value: 1, Origin: "default"})
		}},
		{"known key at its default", "model.layers", func(s []record.Setting) []record.Setting {
			s[1] = record.Setting{Key: "model.layers", Value: 6, Origin: "default"}
			return s
		}},
		{"key gone", "model.kind", func(s []record.Setting) []record.Setting { return s[1:] }},
		{"free", "", func(s []record.Setting) []record.Setting { s[7].Value = 7; return s }},
		{"other origin", "", func(s []record.Setting) []record.Setting { s[0].Origin = "--set"; return s }},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			writeSettings(t, dir, sampleSettings())
			_, _, err := compareSettings(dir, c.edit(sampleSettings()), true)
			if c.key == "" {
				require.NoError(t, err)
				return
			}
			var changed *ChangedError
			require.ErrorAs(t, err, &changed)
			assert.Equal(t, c.key, changed.Key)
			assert.Contains(t, err.Error(), "--fresh")
		})
	}
}

// A run.yaml that somebody has damaged is told in one line.
func TestDamagedSettings(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, runFile), []byte("train:\n  steps: [\n"), 0o666))
	_, _, err := compareSettings(dir, sampleSettings(), false)
	require.EqualError(t, err, fmt.Sprintf("train: run directory %q: run.yaml: line 2: sequence end token ']' not found", dir))
}

var errMoved = errors.New("it may have moved")

// A directory is the same however it is spelt, and also where it is gone. Another one may have what it had.
func TestSettingOfADirectory(t *testing.T) {
	root := t.TempDir()
	t.Chdir(root)
	require.NoError(t, os.MkdirAll("model", 0o777))
	require.NoError(t, os.MkdirAll("other", 0o777))
	require.NoError(t, os.Symlink("model", "link"))
	at := func(path string) []record.Setting {
		return []record.Setting{{Key: "model.from", Value: path, Origin: "--set", Dir: true}}
	}
	compare := func(was, is string) error {
		require.NoError(t, os.WriteFile(filepath.Join(root, runFile), textOf(t, at(was)), 0o666))
		_, moved, err := compareSettings(root, at(is), false)
		if len(moved) > 0 {
			assert.Equal(t, []record.Change{{Key: "model.from", Was: fmt.Sprintf("%q", was), Is: fmt.Sprintf("%q", is)}}, moved)
			return errMoved
		}
		return err
	}
	for _, spelt := range []string{"model", "./model", "model/", "other/../model", "link", filepath.Join(root, "model"), filepath.Join(root, "link")} {
		require.NoError(t, compare("model", spelt), spelt)
		require.NoError(t, compare(spelt, "model"), spelt)
	}
	var changed *ChangedError
	for _, spelt := range []string{"other", "absent"} {
		require.ErrorIs(t, compare("model", spelt), errMoved, spelt)
		require.ErrorIs(t, compare(spelt, "model"), errMoved, spelt)
	}
	require.ErrorAs(t, compare("model", ""), &changed)
	require.ErrorAs(t, compare("", "model"), &changed)
	require.NoError(t, os.RemoveAll("model"))
	require.NoError(t, compare("model", "./model"))
	require.ErrorIs(t, compare("model", "other"), errMoved)
}

// A program that gives no settings has those of its configuration; what may change of them is what the tags of the run file say.
func TestSettingsOfAConfiguration(t *testing.T) {
	found := map[string]record.Setting{}
	for _, s := range tinyRun(t, t.TempDir()).withDefaults().Settings {
		found[s.Key] = s
		if r := runfile.ResumeOf(s.Key); s.Key != "optimizer.options.schedule" {
			assert.Equal(t, r == runfile.Free, s.Free, s.Key)
			assert.Equal(t, r == runfile.Scheduled, s.Schedule, s.Key)
		}
	}
	assert.True(t, found["train.sample_every"].Free)
	assert.False(t, found["train.eval_every"].Free)
	assert.True(t, found["train.steps"].Schedule)
	assert.True(t, found["optimizer.options.schedule"].Schedule)
	assert.False(t, found["optimizer.options.learning_rate"].Schedule)
}

// compareSettings compares the record of a directory with settings.
func compareSettings(dir string, settings []record.Setting, reschedule bool) (changes, moved []record.Change, err error) {
	e, err := readEarlier(dir)
	if err != nil {
		return nil, nil, err
	}
	return e.compare(settings, reschedule)
}
