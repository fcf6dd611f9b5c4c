package runfile

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/tests/frugal"
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
		assert.Contains(t, text.String(), told(f.doc))
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
	assert.EqualValues(t, 20, c.Train.Steps)
	assert.Equal(t, 6, c.Train.Batch)
	assert.Equal(t, []string{"*.md"}, c.Data.Text)
	assert.Nil(t, c.Optimizer.ClipGrad)
	assert.Equal(t, map[string]any{"b1": 0.8, "b2": 0.95}, c.Optimizer.Parameters)
	assert.Equal(t, Origin(file+":2"), c.Origin("model.kind"))
	assert.Equal(t, Origin("GPUTRAIN_TRAIN_STEPS"), c.Origin("train.steps"))
	assert.Equal(t, Origin("--set"), c.Origin("train.batch"))
	assert.Equal(t, Origin(file+":6"), c.Origin("optimizer.parameters.b1"))
	assert.Equal(t, Origin("default"), c.Origin("model.heads"))

	assert.Equal(t, []string{`data.text=["*.md"]`, "optimizer.parameters.b2=0.95", "train.steps=20", "train.batch=6"}, c.Apart([]string{file}), "adapters may be others")

	var explained bytes.Buffer
	require.NoError(t, c.Explain(&explained))
	assert.Regexp(t, `train\.batch +=  ?6 +# --set`, explained.String())
	assert.Regexp(t, `optimizer\.parameters\.b1 +=  ?0\.8 +# .*run\.yaml:6`, explained.String())
}

// refused wants assignments to be refused, in words that have want among them.
func refused(t *testing.T, want string, sets ...string) {
	t.Helper()
	_, err := ReadAll(nil, nil, sets)
	assert.ErrorContains(t, err, want, sets)
}

func TestBadInput(t *testing.T) {
	cases := map[string]struct{ text, want string }{
		"misspelt":       {"train:\n  stpes: 3\n", `run.yaml:2: unknown key "train.stpes", did you mean "train.steps"?`},
		"misspelt group": {"modle: {layers: 3}\n", `run.yaml:1: unknown key "modle"`},
		"wrong type":     {"train: {steps: many}\n", "run.yaml:1: train.steps: found many, wanted a whole number"},
		"fraction":       {"train: {steps: 1.5}\n", "train.steps: found 1.5, wanted a whole number"},
		"null":           {"train: {steps: null}\n", "train.steps: found null, wanted a whole number"},
		"not a mapping":  {"- 1\n- 2\n", "wanted keys with values"},
		"group no map":   {"train: 3\n", `"train": found integer, wanted keys with values`},
	}
	for name, c := range cases {
		assert.ErrorContains(t, New().Parse("run.yaml", []byte(c.text)), c.want, name)
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
	}
	for set, want := range sets {
		refused(t, want, set)
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
	assert.EqualValues(t, 1000, c.Train.Steps)
	assert.Equal(t, "1e3", c.Train.Sample.Prompt)
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
		frugal.Parse(t, len(text), func() {
			c := New()
			if c.Parse("fuzz", text) == nil {
				_ = c.Validate()
			}
		})
	})
}

// A name with a dot would go past the check for keys that stand twice.
func TestKeysWithDotsAreRefused(t *testing.T) {
	for _, text := range []string{"train.steps: 3", "train: {steps: 2}\n'train.steps': 3", "optimizer: {schedule.type: linear}", "optimizer: {parameters.b1: 0.5}"} {
		assert.ErrorContains(t, New().Parse("run.yaml", []byte(text)), "found a dot, wanted ", text)
	}
}

func TestParametersOfOptimizers(t *testing.T) {
	for set, want := range map[string]string{
		"optimizer.bta1=0.8":                          `--set: unknown key "optimizer.bta1" of adamw`,
		"optimizer.learning_rte=0.8":                  `did you mean "learning_rate"?`,
		"model.rope_theta=0":                          "model.rope_theta (--set): found 0, wanted more than 0",
		"optimizer.b1=.nan":                           "optimizer.parameters.b1 (--set): found .nan, wanted a number",
		"optimizer.b1=-.inf":                          "optimizer.parameters.b1 (--set): found -.inf, wanted a number",
		"optimizer.b1=null":                           "optimizer.parameters.b1 (--set): found null, wanted a number",
		"optimizer.b1=2":                              "b1: found 2, wanted 0 to less than 1",
		"optimizer.nesterov=1":                        "found 1, wanted true or false",
		"optimizer.parameters={mu_dtype: 16}":         "optimizer.parameters.mu_dtype (--set): found 16, wanted text",
		"optimizer.name=adam":                         "optimizer.name (--set): found \"adam\", wanted one of adafactor, adamw",
		"optimizer.schedule.type=cosin":               `did you mean "cosine"?`,
		"optimizer.schedule.warmup_steps=5000":        "wanted more than warmup_steps 5000",
		"optimizer.parameters={weight_decay_mask: 3}": `unknown key "optimizer.weight_decay_mask" of adamw`,
	} {
		refused(t, want, set)
	}
	for want, sets := range map[string][]string{
		"found [1, 2], wanted a list of 3, each a number":             {"optimizer.name=muon", "optimizer.ns_coeffs=[1, 2]"},
		`wanted a list of patterns, paths with true or false, or "ma`: {"optimizer.name=muon", "optimizer.weight_decay_mask=[null]"},
		`found "wte", wanted a list, each text`:                       {"optimizer.name=muon", "optimizer.adamw=wte"},
		`unknown key "refresh.evry"`:                                  {"optimizer.name=quad", "optimizer.refresh={evry: 3}"},
		`found {"every": null}, wanted {[every: a whole`:              {"optimizer.name=quad", "optimizer.refresh={every: null}"},
	} {
		refused(t, want, sets...)
	}
	c, err := ReadAll(nil, nil, []string{"optimizer.name=quad", "optimizer.refresh={every: 3}", "optimizer.scanned_layers={h: true}", "optimizer.block_size=32"})
	require.NoError(t, err)
	o, err := c.OptimizerConfig()
	require.NoError(t, err)
	assert.JSONEq(t, `{"block_size": 32, "refresh": {"every": 3}, "scanned_layers": {"h": true}}`, string(o.Parameters))
}

func TestEnvironment(t *testing.T) {
	c, err := ReadAll(nil, []string{"GPUTRAIN_OPTIMIZER_MU_DTYPE=bf16", "GPUTRAIN_OPTIMIZER_SCHEDULE_TYPE=linear", "GPUTRAIN_ADAPTER=gl:x", "GPUTRAIN_TRAIN_PROMPT=[a"}, nil)
	require.NoError(t, err)
	assert.Equal(t, map[string]any{"mu_dtype": "bf16"}, c.Optimizer.Parameters)
	assert.Equal(t, "linear", c.Optimizer.Schedule.Type)
	assert.Equal(t, "[a", c.Train.Sample.Prompt, "text is no YAML there")
	assert.Equal(t, Origin("GPUTRAIN_OPTIMIZER_MU_DTYPE"), c.Origin("optimizer.parameters.mu_dtype"))
	for variable, want := range map[string]string{
		"GPUTRAIN_TRAIN_STPES=3":         `GPUTRAIN_TRAIN_STPES: unknown variable, did you mean "GPUTRAIN_TRAIN_STEPS"?`,
		"GPUTRAIN_PIPELINE_=3":           "GPUTRAIN_PIPELINE_: unknown variable",
		"GPUTRAIN_TRAIN_STEPS=many":      "GPUTRAIN_TRAIN_STEPS: train.steps: found many",
		"GPUTRAIN_TRAIN_STEPS=":          "found nothing",
		"GPUTRAIN_OPTIMIZER_BTA1=1":      `GPUTRAIN_OPTIMIZER_BTA1: unknown key "optimizer.bta1" of adamw`,
		"GPUTRAIN_OPTIMIZER_SCHEDULE_=1": `unknown key "optimizer.schedule_"`,
	} {
		_, err := ReadAll(nil, []string{variable}, nil)
		assert.ErrorContains(t, err, want, variable)
	}
	seen := map[string]string{}
	for _, f := range fields {
		assert.Empty(t, seen[variable(f.key)], f.key)
		seen[variable(f.key)] = f.key
	}
}

// Whole numbers beyond 64 bits are numbers too, and none of a seed.
func TestLargeNumbers(t *testing.T) {
	c := New()
	require.NoError(t, c.Parse("run.yaml", []byte("model: {rope_theta: 30000000000000000000}\ntrain: {seed: 18446744073709551615}")))
	assert.InDelta(t, 3e19, c.Model.RopeTheta, 0)
	assert.Equal(t, uint64(1<<64-1), c.Train.Seed)
	for _, text := range []string{"train: {seed: 18446744073709551616}", "train: {seed: 3e19}", "model: {from: 30000000000000000000}"} {
		assert.ErrorContains(t, New().Parse("run.yaml", []byte(text)), "wanted ", text)
	}
}

// A variable that is misspelt is an error for every command, whether its section is there or not.
func TestMisspeltVariables(t *testing.T) {
	for name, says := range map[string]string{
		"GPUTRAIN_ADAPTR":      `environment: GPUTRAIN_ADAPTR: unknown variable, did you mean "GPUTRAIN_ADAPTER"?`,
		"GPUTRAIN_STEPS":       `environment: GPUTRAIN_STEPS: unknown variable, did you mean GPUTRAIN_OPTIMIZER_SCHEDULE_STEPS or GPUTRAIN_TRAIN_STEPS?`,
		"GPUTRAIN_TRAIN_STPES": `environment: GPUTRAIN_TRAIN_STPES: unknown variable, did you mean "GPUTRAIN_TRAIN_STEPS"?`,
		"GPUTRAIN_PIPELINE_":   "environment: GPUTRAIN_PIPELINE_: unknown variable",
	} {
		assert.ErrorContains(t, CheckVariables([]string{"HOME=/", name + "=1"}), says)
		_, err := ReadAll(nil, []string{name + "=1"}, nil)
		assert.ErrorContains(t, err, says)
	}
	// Every variable that the program and its tests read is known.
	read := regexp.MustCompile(`(?:Getenv|LookupEnv)\("(GPUTRAIN_[A-Z_]+)"\)|env:"(GPUTRAIN_[A-Z_]+)"`)
	found := 0
	require.NoError(t, filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".go" {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range read.FindAllStringSubmatch(string(text), -1) {
			found++
			assert.NoError(t, CheckVariables([]string{m[1] + m[2] + "=1"}), path)
		}
		return err
	}))
	assert.Greater(t, found, 10)
}
