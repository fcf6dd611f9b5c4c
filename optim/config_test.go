package optim

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/gpu"
)

func TestConfigRoundTrip(t *testing.T) {
	for _, text := range []string{
		`{"name":"adamw"}`,
		`{"name":"sgd","options":{"schedule":{"learning_rate":0.1,"learning_rate_end":null}},"parameters":{"momentum":0.9,"nesterov":true}}`,
		`{"name":"adamw","options":{"schedule":{"type":"cosine","learning_rate":0.001,"steps":10,"warmup_steps":2},"clip_grad":1,
		  "weight_decay":0.1,"weight_decay_mask":["^w"],"accumulation_steps":4,"skip_non_finite":true,"measure_norm":true,
		  "numerics":"eformer","rates":[{"pattern":"wte","multiplier":0.5}]},"parameters":{"b1":0.8,"mu_dtype":"bf16"}}`,
		`{"name":"adamw","options":{"weight_decay_mask":{"a":true,"b":false}}}`,
		`{"name":"adamw","options":{"weight_decay_mask":"matrices"},"parameters":null}`,
	} {
		first, err := ParseConfig([]byte(text))
		require.NoError(t, err, text)
		data, err := json.Marshal(first)
		require.NoError(t, err)
		second, err := ParseConfig(data)
		require.NoError(t, err)
		assert.Equal(t, first, second)
		_, err = second.Build()
		assert.NoError(t, err)
	}
	c, err := ParseConfig([]byte(`{"name":"adamw","parameters":{"b1":0.8}}`))
	require.NoError(t, err)
	assert.JSONEq(t, `{"b1":0.8,"b2":0.999,"eps":1e-8,"eps_root":0,"mu_dtype":"f32","state_dtype":"f32","nesterov":false,"b2_1d":null,"weight_decay":0}`, string(c.Parameters))
}

func TestConfigRefuses(t *testing.T) {
	for text, want := range map[string]string{
		`{"name":"adamv"}`:                                    `found "adamv", wanted one of ` + strings.Join(Names(), ", ") + `, did you mean "adamw"?`,
		`{"nam":"adamw"}`:                                     `unknown key "nam", did you mean "name"?`,
		`{"name":"adamw","options":{"clip":1}}`:               `unknown key "options.clip"`,
		`{"name":"adamw","options":{"schedule":{"stesp":1}}}`: `unknown key "options.schedule.stesp", did you mean "steps"?`,
		`{"name":"adamw","options":{"rates":[{"pattern":"a","multiplyer":1}]}}`: `unknown key "options.rates[0].multiplyer", did you mean "multiplier"?`,
		`{"name":"adamw","parameters":{"beta1":1}}`:                             `unknown key "beta1"`,
		`{"name":"adamw","parameters":{"B1":1}}`:                                `unknown key "B1"`,
		`{"name":"adamw","parameters":{"b1":"x"}}`:                              "cannot unmarshal",
		`{"name":"adamw","options":{"weight_decay_mask":3}}`:                    "mask: found 3",
		`{"name":"adamw"} {}`:                                                   "after top-level value",
	} {
		_, err := ParseConfig([]byte(text))
		assert.ErrorContains(t, err, want, text)
	}
	for text, want := range map[string]string{
		`{"name":"adamw","parameters":{"b1":1}}`:                                        "parameters: b1: found 1",
		`{"name":"adamw","parameters":{"eps":-1}}`:                                      "eps: found -1",
		`{"name":"adamw","parameters":{"mu_dtype":"f16"}}`:                              "mu_dtype",
		`{"name":"adamw","parameters":{"mu_dtype":"i32"}}`:                              `mu_dtype: found "i32"`,
		`{"name":"adamw","options":{"numerics":"stabel"}}`:                              `did you mean "stable"?`,
		`{"name":"adamw","options":{"clip_grad":0}}`:                                    "clip_grad: found 0, wanted more than 0",
		`{"name":"adamw","options":{"clip_grad":-1}}`:                                   "clip_grad: found -1",
		`{"name":"adamw","options":{"weight_decay":-1}}`:                                "weight_decay: found -1",
		`{"name":"adamw","options":{"accumulation_steps":-1}}`:                          "accumulation_steps: found -1",
		`{"name":"adamw","options":{"weight_decay":1},"parameters":{"weight_decay":1}}`: "wanted one",
		`{"name":"adamw","parameters":{"weight_decay":-1}}`:                             "parameters: weight_decay: found -1",
		`{"name":"sgd","parameters":{"momentum":1}}`:                                    "momentum: found 1",
		`{"name":"sgd","options":{"schedule":{"type":"linear"}}}`:                       "steps: found 0",
	} {
		c, err := ParseConfig([]byte(text))
		require.NoError(t, err, text)
		_, err = c.Build()
		assert.ErrorContains(t, err, want, text)
		assert.ErrorContains(t, err, "optim: "+c.Name+": ", text)
	}
	both, err := ParseConfig([]byte(`{"name":"sgd","options":{"weight_decay":1,"numerics":"eformer"},"parameters":{"weight_decay":1}}`))
	require.NoError(t, err)
	_, err = both.Build()
	assert.NoError(t, err, "eformer decays twice if asked to")
}

// heavy is sgd with a momentum of its own.
type heavy struct {
	Momentum float64 `json:"momentum" default:"0.5" range:"[0,1)" doc:"decay of the trace"`
	Nesterov bool    `json:"nesterov" doc:"Nesterov's form"`
}

func (h *heavy) Transform(lr Schedule, _ Options) (Transform, error) {
	return Chain(Trace(h.Momentum, h.Nesterov), ScaleByLearningRate(lr)), nil
}

func TestRegistry(t *testing.T) {
	assert.Subset(t, Names(), []string{"adamw", "sgd"})
	row := Optimizer{Name: "sgd", Doc: "sgd with momentum", New: func() Parameters { return &heavy{} }}
	assert.ErrorContains(t, Register(row), "not yet taken")
	row.Name = "test-heavy"
	require.NoError(t, Register(row))
	found, err := Find("test-heavy")
	require.NoError(t, err)
	assert.Equal(t, row.Doc, found.Doc)
	d, err := Describe("test-heavy")
	require.NoError(t, err)
	assert.Equal(t, "sgd with momentum", d.Doc)
	assert.Equal(t, Parameter{Name: "momentum", Type: "float64", Default: 0.5, Doc: "decay of the trace"}, d.Parameters[0])
	_, err = Describe("nothing")
	assert.ErrorContains(t, err, `found "nothing"`)
	tx, err := Build("test-heavy", Options{}, []byte(`{"nesterov":true}`))
	require.NoError(t, err)
	assert.Equal(t, "test-heavy", tx.Name())
}

// Bytes a parameter as counted by hand: each array read or written once.
func TestCosts(t *testing.T) {
	cost := func(c string, o Options) Cost { return built(t, "adamw", o, c).Cost() }
	c := ""
	clip := 1.0
	assert.Equal(t, 28.0, cost(c, Options{WeightDecay: 0.1}).TrafficBytes)
	assert.Equal(t, 8.0, cost(c, Options{}).StateBytes)
	assert.Equal(t, 32.0, cost(c, Options{ClipGrad: &clip}).TrafficBytes, "the norm reads the gradient once more")
	assert.Equal(t, 32.0, cost(c, Options{ClipGrad: &clip, SkipNonFinite: true, MeasureNorm: true}).TrafficBytes, "and once for all")
	c = `{"mu_dtype":"bf16"}`
	assert.Equal(t, 24.0, cost(c, Options{}).TrafficBytes)
	assert.Greater(t, cost(c, Options{}).FLOPs, 10.0)
	assert.Equal(t, 20.0, built(t, "sgd", Options{}, `{"momentum":0.9}`).Cost().TrafficBytes)
	assert.Zero(t, ClipByGlobalNorm(0).Cost())
}

// Every optimizer's configuration comes back from JSON as it was written, complete.
func TestEveryConfigRoundTrips(t *testing.T) {
	for _, name := range registered() {
		first, err := ParseConfig([]byte(`{"name":"` + name + `"}`))
		require.NoError(t, err)
		data, err := json.Marshal(first)
		require.NoError(t, err)
		second, err := ParseConfig(data)
		require.NoError(t, err)
		assert.Equal(t, first, second)
		d, err := Describe(name)
		require.NoError(t, err)
		var parameters map[string]any
		require.NoError(t, json.Unmarshal(second.Parameters, &parameters))
		for _, p := range d.Parameters {
			assert.Contains(t, parameters, p.Name, name)
			assert.NotEmpty(t, p.Doc, "%s: %s", name, p.Name)
		}
		assert.Len(t, parameters, len(d.Parameters))
	}
}

func TestKronConfigRefuses(t *testing.T) {
	for text, want := range map[string]string{
		`{"block_size":0}`:                "block_size: found 0, wanted 1 to",
		`{"block_size":5000}`:             "block_size: found 5000",
		`{"max_size_dense":-1}`:           "max_size_dense: found -1",
		`{"preconditioner_lr":0}`:         "preconditioner_lr: found 0, wanted more than 0",
		`{"preconditioner_init_scale":0}`: "preconditioner_init_scale: found 0",
		`{"damping":1}`:                   "damping: found 1, wanted 0 to less than 1",
		`{"noise_scale":-1}`:              "noise_scale: found -1",
		`{"b1":1}`:                        "b1: found 1, wanted 0 to less than 1",
		`{"dtype":"f16"}`:                 "dtype",
		`{"dtype":"u32"}`:                 `dtype: found "u32", wanted f32 or bf16`,
		`{"lr_style":"sgd"}`:              `lr_style: found "sgd", wanted adam or none`,
		`{"refresh":{"every":-1}}`:        "every: found -1",
		`{"refresh":{"evry":2}}`:          `unknown key "refresh.evry", did you mean "every"?`,
		`{"blocksize":64}`:                `unknown key "blocksize", did you mean "block_size"?`,
		`{"weight_decay":-1}`:             "weight_decay: found -1",
	} {
		for _, name := range []string{"quad", "skew"} {
			_, err := Build(name, Options{}, []byte(text))
			assert.ErrorContains(t, err, want, "%s %s", name, text)
			assert.ErrorContains(t, err, name)
		}
	}
	_, err := Build("quad", Options{WeightDecay: 0.1}, []byte(`{"weight_decay":0.1}`))
	assert.ErrorContains(t, err, "weight_decay: found one in the options and one in the parameters")
	_, err = Build("quad", Options{WeightDecay: 0.1, Numerics: EFormer}, []byte(`{"weight_decay":0.1}`))
	assert.NoError(t, err)
	// Stacked leaves that are none: the rule is named.
	tx, err := Build("quad", Options{}, []byte(`{"scanned_layers":["^blocks"]}`))
	require.NoError(t, err)
	params := []buffers.Host{vector("w", 1, 2)}
	assert.ErrorContains(t, tx.Check([]buffers.Spec{{Path: "w", Shape: []int{2}}}), `scanned_layers: mask: pattern "^blocks": matches none of the 1 paths`)
	assert.NoError(t, tx.Check([]buffers.Spec{{Path: "blocks.w", Shape: []int{2, 3}}}))
	assert.ErrorContains(t, tx.Check([]buffers.Spec{{Path: "blocks.scalar"}}), `leaf "blocks.scalar": scanned, but a scalar`)
	assert.ErrorContains(t, AddDecayedWeights(1, MaskPatterns("^x")).Check([]buffers.Spec{{Path: "w"}}), `pattern "^x": matches none`)
	_, err = NewTwin(tx, params)
	assert.ErrorContains(t, err, `scanned_layers: mask: pattern "^blocks": matches none of the 1 paths`)
	tree, err := buffers.Upload(gpu.Dry(gpu.DefaultLimits()), "params", params, buffers.F32)
	require.NoError(t, err)
	_, err = tx.Init(tree)
	assert.ErrorContains(t, err, `scanned_layers: mask: pattern "^blocks": matches none of the 1 paths`)
}
