package setup

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/hub"
	"gputrain/hub/gguf"
	"gputrain/internal/modelcard"
	"gputrain/model"
	"gputrain/run/runfile"
	"gputrain/run/train"
)

// Of a run a card has what was learned from, without folders, how far it came, and the settings that decide what is learned and were chosen.
func TestCardOfARun(t *testing.T) {
	s := &train.Summary{
		Step: 20, Steps: 30, Program: "gputrain 9", Adapter: "a card", Fingerprint: "f00", Data: &train.Amounts{Files: 2, Documents: 14, Groups: 7, Tokens: 900},
		First: &train.Metrics{Step: 1, Loss: 5.25}, Last: &train.Metrics{Step: 20, Loss: 2.5, Tokens: 512, Figures: map[string]train.Number{"margin": 1}},
		Best: &train.EvalMetrics{Step: 10, Loss: 2},
	}
	for _, r := range [][3]string{
		{"model.from", `"/home/me/models/base"`, "run.yaml:1"}, // a place
		{"data.jsonl", `["/home/me/chats.jsonl", "C:\\rows\\*.parquet"]`, "run.yaml:2"},
		{"data.mixture", `null`, "default"},
		{"lora.rank", `8`, "--set"},
		{"lora.target", `null`, "--set"}, // none
		{"lora.alpha", `16`, "default"},
		{"preference.loss", `"sigmoid"`, "--set"},
		{"optimizer.learning_rate", `0.0015`, "default: adamw"}, // usual
		{"optimizer.rates", `[{"match": "^h", "multiplier": 0}]`, "run.yaml:4"},
		{"optimizer.parameters.b1", `0.8`, "run.yaml:5"},
		{"train.keep", `9`, "run.yaml:6"}, // changes nothing that is learned
	} {
		s.Settings = append(s.Settings, runfile.Recorded{Key: r[0], Value: json.RawMessage(r[1]), Origin: r[2]})
	}
	var c modelcard.Card
	describeRun(&c, s)
	assert.Equal(t, []modelcard.Row{
		{Name: "data", Value: "chats.jsonl, *.parquet; 2 files; 7 pairs; 900 tokens; fingerprint f00"},
		{Name: "steps", Value: "20 of 30"},
		{Name: "pairs in the loss", Value: "512"},
		{Name: "training loss", Value: "5.2500 at step 1, 2.5000 at step 20"},
		{Name: "best validation loss", Value: "2.0000 at step 10"},
		{Name: "trained with", Value: "gputrain 9"},
		{Name: "trained on", Value: "a card"},
	}, c.Rows)
	assert.Equal(t, []modelcard.Row{
		{Name: "lora.rank", Value: "8"},
		{Name: "preference.loss", Value: `"sigmoid"`},
		{Name: "optimizer.learning_rate", Value: "0.0015"},
		{Name: "optimizer.rates", Value: `[{"match":"^h","multiplier":0}]`},
		{Name: "optimizer.parameters.b1", Value: "0.8"},
	}, c.Settings)
	assert.Equal(t, []string{"dpo"}, c.Tags)

	s.Settings = []runfile.Recorded{{Key: "distil.teacher", Value: json.RawMessage(`"/home/me/runs/large"`), Origin: "run.yaml:1"}}
	c = modelcard.Card{}
	describeRun(&c, s)
	assert.Contains(t, c.Rows, modelcard.Row{Name: "teacher", Value: "large"})
	assert.Equal(t, []string{"distillation"}, c.Tags)
}

// A licence is what a card says, or a GGUF file, and nothing where neither does.
func TestLicense(t *testing.T) {
	mit := modelcard.License{Names: []string{"mit"}}
	for text, want := range map[string]modelcard.License{
		"---\nlicense: mit\n---\n":                                             mit,
		"\ufeff---\r\nlicense: \"mit\" # of the base\r\n---\r\n":               mit,
		"---\nmodel-index: {{ broken\ntags:\n- a\nlicense:\n- mit\n---":        mit,
		"---\nlicense:\n  - mit\n  - 0bsd\nlanguage: en\n---\n":                {Names: []string{"mit", "0bsd"}},
		"---\nlicense: [mit, apache-2.0]\n---\n":                               {Names: []string{"mit", "apache-2.0"}},
		"---\nlicense: other\nlicense_name: x y\nlicense_link: LICENSE\n---\n": {Names: []string{"other"}, Name: "x y"},
		"---\nlicense: other\nlicense_link: https://x.org/l\n---\n":            {Names: []string{"other"}, Link: "https://x.org/l"},
		"---\nlicense_name: x\n---\n":                                          {},
		"---\nlicense:\n---\n":                                                 {},
		"---\nlicense: {a: b}\n---\n":                                          {},
		"---\nlicense: 7\n---\n":                                               {},
		"---\na:\n  license: mit\n---\n":                                       {},
		"---\ntitle: x\n---\nlicense: mit\n":                                   {},
		"# x\n\nlicense: mit\n":                                                {},
		"":                                                                     {},
	} {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, modelcard.File), []byte(text), 0o666))
		got, err := license(hub.Open(dir))
		require.NoError(t, err, text)
		assert.Equal(t, want, got, text)
	}
	none, err := license(hub.Open(t.TempDir()))
	require.NoError(t, err)
	assert.Equal(t, modelcard.License{}, none)
	_, err = frontLicense([]byte("---\nlicense: &a mit\n---\n"))
	require.Error(t, err, "an anchor")

	var out strings.Builder
	require.NoError(t, gguf.Write(&out, []gguf.Key{{Name: "general.architecture", Value: "llama"}, {Name: "general.license", Value: "mit"}, {Name: "general.license.link", Value: "https://x"}}, nil))
	file := filepath.Join(t.TempDir(), "x.gguf")
	require.NoError(t, os.WriteFile(file, []byte(out.String()), 0o666))
	got, err := license(hub.Open(file))
	require.NoError(t, err)
	assert.Equal(t, modelcard.License{Names: []string{"mit"}, Link: "https://x"}, got)

	var told []string
	bad := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(bad, modelcard.File), 0o777))
	assert.Equal(t, got, foundLicense([]*hub.Bundle{hub.Open(bad), hub.Open(t.TempDir()), hub.Open(file)}, func(s string) { told = append(told, s) }))
	require.Len(t, told, 1)
	assert.Contains(t, told[0], "the licence of "+bad+" is not known: ")
}

// What a model is called tells nothing of where it was.
func TestModelName(t *testing.T) {
	for path, want := range map[string]string{
		"/home/me/models/Qwen3-0.6B":                         "Qwen3-0.6B",
		"/home/me/models/Qwen3-0.6B-Q8_0.gguf":               "Qwen3-0.6B-Q8_0",
		"/home/me/runs/first/checkpoints/step-00000003":      "first",
		"/x/hub/models--Qwen--Qwen3-0.6B/snapshots/0123abcd": "Qwen/Qwen3-0.6B",
		"/x/hub/models--my-org--a--b/snapshots/0123abcd":     "my-org/a--b",
		"/x/hub/models--gpt2/snapshots/0123abcd":             "gpt2",
		"/x/models--Qwen--Qwen3-0.6B":                        "models--Qwen--Qwen3-0.6B",
	} {
		assert.Equal(t, want, modelName(path))
	}
}

// What a run began with is followed over the runs in between, and has its name also where it is gone.
func TestCardOfRunsOnRuns(t *testing.T) {
	root := t.TempDir()
	write := func(text string, name ...string) string {
		path := filepath.Join(append([]string{root}, name...)...)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o777))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o666))
		return filepath.Dir(path)
	}
	def, err := model.New("llama", model.Keys{Layers: 1, Heads: 2, Width: 8, Vocab: 13, Context: 6, RopeTheta: 1e4})
	require.NoError(t, err)
	config, err := model.ConfigJSON(def, "F32")
	require.NoError(t, err)
	base := write(string(config), "base", "config.json")
	write("---\nlicense: mit\n---\n", "base", modelcard.File)
	begun := func(run, from string) string {
		write("model:\n  from: \""+from+"\"\n", run, "run.yaml")
		return write(string(config), run, "checkpoints", "step-00000003", "config.json")
	}
	one := begun("one", base)
	two := begun("two", one)
	e := Exporting{From: hub.Open(two), Def: def, To: "out"}
	models, last := e.bases()
	require.Len(t, models, 2)
	assert.Equal(t, []string{one, base, base}, []string{models[0].Path("."), models[1].Path("."), last})
	c := Card(e, func(s string) { assert.Fail(t, s) })
	assert.Equal(t, []any{"out", "base", modelcard.Finetune, []string{"mit"}}, []any{c.Title, c.Base, c.Relation, c.License.Names})

	require.NoError(t, os.Rename(base, filepath.Join(root, "moved")))
	c = Card(e, func(s string) { assert.Fail(t, s) })
	assert.Equal(t, "base", c.Base)
	assert.Empty(t, c.License)
	assert.Contains(t, c.Rows, modelcard.Row{Name: "licence of the base", Value: "not known"})
	c = Card(Exporting{From: hub.Open(one), At: filepath.Join(root, "moved"), Def: def, To: "out"}, func(s string) { assert.Fail(t, s) })
	assert.Equal(t, []any{"moved", []string{"mit"}}, []any{c.Base, c.License.Names})
}
