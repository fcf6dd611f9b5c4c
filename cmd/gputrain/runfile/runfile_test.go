package runfile

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestDefaultsAreValid(t *testing.T) {
	require.NoError(t, New().Validate())
}

func TestTemplateGivesTheDefaultsBack(t *testing.T) {
	var text bytes.Buffer
	require.NoError(t, Template(&text))
	c := New()
	require.NoError(t, c.Parse("template", text.Bytes()))
	assert.Equal(t, Default(), normal(c.Run))
	for _, f := range fields {
		assert.NotEmpty(t, f.doc, f.key)
		assert.Contains(t, text.String(), f.doc)
	}
}

// normal makes empty lists and maps nil, as the defaults have them.
func normal(r Run) Run {
	for _, s := range []any{&r.Data.Text, &r.Data.JSONL, &r.Data.Mixture, &r.Optimizer.DecayMask, &r.Pipeline.Adapters, &r.Pipeline.Rules} {
		if v := reflect.ValueOf(s).Elem(); v.Len() == 0 {
			v.SetZero()
		}
	}
	if len(r.Optimizer.Parameters) == 0 {
		r.Optimizer.Parameters = nil
	}
	return r
}

func TestLayersAndOrigins(t *testing.T) {
	file := filepath.Join(t.TempDir(), "run.yaml")
	require.NoError(t, os.WriteFile(file, []byte(`
model: {kind: llama, layers: 2}
train:
  steps: 10
  batch: 4
optimizer: {name: adamw, b1: 0.8, clip_grad: null}
data: {text: "books/*.txt"}
`), 0o644))
	c, err := ReadAll([]string{file}, []string{"GPUTRAIN_TRAIN_STEPS=20", "GPUTRAIN_TRAIN_BATCH=5", "HOME=/"}, []string{"train.batch=6", "data.text=*.md", "optimizer.b2=0.95", "pipeline.adapters=[1]"})
	require.NoError(t, err)
	assert.Equal(t, "llama", c.Model.Kind)
	assert.Equal(t, 20, c.Train.Steps)
	assert.Equal(t, 6, c.Train.Batch)
	assert.Equal(t, []string{"*.md"}, c.Data.Text)
	assert.Nil(t, c.Optimizer.ClipGrad)
	assert.Equal(t, map[string]any{"b1": 0.8, "b2": 0.95}, c.Optimizer.Parameters)
	assert.Equal(t, Origin(file+":2"), c.Origin("model.kind"))
	assert.Equal(t, Origin("GPUTRAIN_TRAIN_STEPS"), c.Origin("train.steps"))
	assert.Equal(t, Origin("--set"), c.Origin("train.batch"))
	assert.Equal(t, Origin(file+":6"), c.Origin("optimizer.parameters.b1"))
	assert.Equal(t, Origin("default"), c.Origin("model.heads"))

	assert.Equal(t, []string{`data.text=["*.md"]`, "train.steps=20", "train.batch=6", "pipeline.adapters=[1]"},
		slices.DeleteFunc(c.Laid([]string{file}), func(s string) bool { return strings.HasPrefix(s, "optimizer.") }))

	var explained bytes.Buffer
	require.NoError(t, c.Explain(&explained))
	assert.Regexp(t, `train\.batch +=  ?6 +# --set`, explained.String())
	assert.Regexp(t, `optimizer\.parameters\.b1 +=  ?0\.8 +# .*run\.yaml:6`, explained.String())
}

func TestEveryKeyCanBeSet(t *testing.T) {
	values := map[reflect.Type]string{
		reflect.TypeFor[int](): "7", reflect.TypeFor[uint64](): "7", reflect.TypeFor[float64](): "0.5", reflect.TypeFor[bool](): "true",
		reflect.TypeFor[string](): "some text", reflect.TypeFor[[]string](): "[a, b]", reflect.TypeFor[[]int](): "[1, 2]",
		reflect.TypeFor[*float64](): "2.5", reflect.TypeFor[map[string]any](): "{b1: 0.5}",
		reflect.TypeFor[[]Rule](): "[{match: a, stage: 1}]", reflect.TypeFor[*int](): "3", reflect.TypeFor[[]Source](): "[{text: a, weight: 1}]",
		reflect.TypeFor[Intervals](): "[{every: 3, until: 9}]",
	}
	for _, f := range fields {
		c := New()
		require.Contains(t, values, f.typ, f.key)
		value := values[f.typ]
		if c.value(f) == true {
			value = "false"
		}
		require.NoError(t, c.Set(f.key+"="+value), f.key)
		assert.NotEqual(t, Default(), c.Run, f.key)
		assert.Len(t, c.Laid(nil), 1, f.key)
	}
}

func TestBadInput(t *testing.T) {
	cases := map[string]struct{ text, want string }{
		"misspelt":       {"train:\n  stpes: 3\n", `run.yaml:2: unknown key "train.stpes", did you mean "train.steps"?`},
		"misspelt group": {"modle: {layers: 3}\n", `run.yaml:1: unknown key "modle"`},
		"wrong type":     {"train: {steps: many}\n", "run.yaml:1: train.steps: found many, wanted a whole number"},
		"fraction":       {"train: {steps: 1.5}\n", "train.steps: found 1.5, wanted a whole number"},
		"null":           {"train: {steps: null}\n", "train.steps: found null, wanted a whole number"},
		"twice":          {"train:\n  steps: 1\n  steps: 2\n", "run.yaml"},
		"not a mapping":  {"- 1\n- 2\n", "wanted keys with values"},
		"group no map":   {"train: 3\n", `"train": found integer, wanted keys with values`},
		"two documents":  {"train: {steps: 3}\n---\ntrain: {steps: 4}\n", "found 2 documents"},
		"not yaml":       {"train: {steps: 3\n", "run.yaml"},
	}
	for name, c := range cases {
		err := New().Parse("run.yaml", []byte(c.text))
		if assert.Error(t, err, name) {
			assert.Contains(t, err.Error(), c.want, name)
		}
	}
	sets := map[string]string{
		"train.steps":                  "found no '='",
		"train=3":                      `"train" is a group of keys`,
		"train.steps=":                 "found nothing",
		"train.stps=3":                 `did you mean "train.steps"?`,
		"train.steps=0":                "train.steps (--set): found 0, wanted 1 or more",
		"optimizer.clip_grad=0":        "found 0, wanted more than 0, or null",
		"optimizer.learning_rate=.nan": "found NaN, wanted 0 to",
		"model.kind=gpt3":              `did you mean "gpt2"?`,
		"train.memory_limit=lots":      "wanted bytes such as",
		"data.tokens=u16":              "wanted bytes, or files in data.text",
	}
	for set, want := range sets {
		_, err := ReadAll(nil, nil, []string{set})
		if assert.Error(t, err, set) {
			assert.Contains(t, err.Error(), want, set)
		}
	}
	_, err := ReadAll([]string{"absent.yaml"}, nil, nil)
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestParametersKnowTheirLines(t *testing.T) {
	c := New()
	require.NoError(t, c.Parse("run.yaml", []byte("optimizer:\n  b1: 0.8\n  parameters:\n    b2: 0.9\n    eps: 1e-6\n")))
	assert.Equal(t, map[string]any{"b1": 0.8, "b2": 0.9, "eps": 1e-6}, c.Optimizer.Parameters)
	assert.Equal(t, Origin("run.yaml:2"), c.Origin("optimizer.parameters.b1"))
	assert.Equal(t, Origin("run.yaml:5"), c.Origin("optimizer.parameters.eps"))
	require.NoError(t, New().Parse("run.yaml", []byte("optimizer: {parameters: {}}")))
	assert.ErrorContains(t, New().Parse("run.yaml", []byte("optimizer:\n  parameters: 3\n")), "run.yaml:2: \"optimizer.parameters\": found integer, wanted keys with values")
}

// People write rates as 1e-3, and Go writes small ones as 1e-05.
func TestExponentsAreNumbers(t *testing.T) {
	c := New()
	require.NoError(t, c.Parse("run.yaml", []byte("optimizer: {learning_rate: 1e-3, clip_grad: 1E+1, eps: 1e-08, b: [1e-1, 0.5]}\ntrain: {steps: 1e3, prompt: '1e3'}\n")))
	assert.InDelta(t, 0.001, c.Optimizer.LearningRate, 0)
	assert.InDelta(t, 10, *c.Optimizer.ClipGrad, 0)
	assert.Equal(t, map[string]any{"eps": 1e-8, "b": []any{0.1, 0.5}}, c.Optimizer.Parameters)
	assert.Equal(t, 1000, c.Train.Steps)
	assert.Equal(t, "1e3", c.Train.Prompt)
	require.NoError(t, c.Set("optimizer.learning_rate=3e-4"))
	assert.InDelta(t, 3e-4, c.Optimizer.LearningRate, 0)

	assert.ErrorContains(t, New().Set("optimizer.learning_rate='1e-3'"), "wanted a number")
	assert.ErrorContains(t, New().Set("train.steps=1e-3"), "wanted a whole number")
}

func TestParseBytes(t *testing.T) {
	for text, want := range map[string]uint64{"": 0, "12": 12, "800MB": 800e6, "6GiB": 6 << 30, "1.5 KiB": 1536} {
		got, err := ParseBytes(text)
		require.NoError(t, err)
		assert.Equal(t, want, got, text)
	}
	for _, text := range []string{"GiB", "-1", "1e30", "x"} {
		_, err := ParseBytes(text)
		assert.Error(t, err, text)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("train: {steps: 3}"))
	f.Add([]byte("optimizer:\n  schedule: {type: cosine}\n  b1: [1, {a: b}]\n"))
	f.Add([]byte("a: &x [*x]\n? b\n: c"))
	f.Fuzz(func(t *testing.T, text []byte) {
		c := New()
		if c.Parse("fuzz", text) == nil {
			_ = c.Validate()
		}
	})
}
