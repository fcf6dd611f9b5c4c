package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/internal/gputest"
	"gputrain/optim"
)

// twinRun is an optimizer at work in float64, without a device.
type twinRun struct {
	*optim.Twin
}

func (r twinRun) call(grads []buffers.Host) error { return r.Update(grads) }
func (r twinRun) params() ([]buffers.Host, error) { return r.Params(), nil }

func (r twinRun) tensors() (map[string]buffers.Host, error) {
	out := map[string]buffers.Host{}
	for _, h := range r.Tensors() {
		out[h.Path] = h
	}
	return out, nil
}

func (r twinRun) weights(which string) ([]buffers.Host, error) {
	if which == "moved" {
		return r.Moved(), nil
	}
	return r.Evaluated(), nil
}
func (r twinRun) updates() int64 { return r.Counts()["updates"] }

func loadEmbedded(t *testing.T, name string) *goldenCase {
	cases, err := Cases()
	require.NoError(t, err)
	require.Contains(t, cases, name)
	c, err := loadCase(cases[name])
	require.NoError(t, err)
	return c
}

// embeddedOf lists the cases of these kinds.
func embeddedOf(t *testing.T, kinds ...string) []string {
	cases, err := Cases()
	require.NoError(t, err)
	var names []string
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		if slices.Contains(kinds, loadEmbedded(t, name).Kind) {
			names = append(names, name)
		}
	}
	require.NotEmpty(t, names)
	return names
}

func runTwin(t *testing.T, c *goldenCase, o *optimizerCase) *comparison {
	tx, err := o.transform()
	require.NoError(t, err)
	params := c.leaves(o.Params, "params")
	require.NoError(t, c.err)
	whole, err := o.whole()
	require.NoError(t, err)
	twin, err := optim.NewTwin(tx, params, whole...)
	require.NoError(t, err)
	seen, err := c.follow(o, twinRun{twin})
	require.NoError(t, err)
	return seen
}

func TestTwinFollowsGoldenOptimizers(t *testing.T) {
	for _, name := range embeddedOf(t, "optimizer") {
		t.Run(name, func(t *testing.T) {
			c, o := loadEmbedded(t, name), &optimizerCase{}
			require.NoError(t, c.decode(o))
			seen := runTwin(t, c, o)
			assertPassed(t, true, seen)
			// The twin is float64 throughout: far inside what f32 is allowed, except where bf16 rounds.
			if !strings.Contains(name, "bf16") {
				assert.Less(t, seen.ratio, 0.1)
			}
		})
	}
}

// Deviations that a golden case must catch.
func TestGoldenCasesCatchWrongOptimizers(t *testing.T) {
	for name, spoil := range map[string]func(o *optimizerCase){
		"b2":           func(o *optimizerCase) { o.Config = json.RawMessage(`{"b1":0.9,"b2":0.998,"eps":1e-8}`) },
		"nesterov":     func(o *optimizerCase) { o.Config = json.RawMessage(`{"b1":0.9,"b2":0.999,"eps":1e-8,"nesterov":true}`) },
		"no clip":      func(o *optimizerCase) { o.ClipGrad = nil },
		"no decay":     func(o *optimizerCase) { o.WeightDecay = 0 },
		"decay of all": func(o *optimizerCase) { o.WeightDecayMask = nil },
		"rate":         func(o *optimizerCase) { o.Schedule.LearningRate *= 1.0001 },
		"mu in bf16": func(o *optimizerCase) {
			o.Config = json.RawMessage(`{"b1":0.9,"b2":0.999,"eps":1e-8,"mu_dtype":"bfloat16"}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, o := loadEmbedded(t, "adamw_basic"), &optimizerCase{}
			require.NoError(t, c.decode(o))
			spoil(o)
			assertPassed(t, false, runTwin(t, c, o))
		})
	}
}

// The side of a matrix that is its inputs is caught, both ways, and a word that is none.
func TestGoldenCasesCatchWrongOrientations(t *testing.T) {
	for name, wrong := range map[string]string{"muon_out_in": "in_out", "muon_basic": "out_in"} {
		c, o := loadEmbedded(t, name), &optimizerCase{}
		require.NoError(t, c.decode(o))
		o.Orientation = wrong
		assertPassed(t, false, runTwin(t, c, o))
		o.Orientation = "outin"
		_, err := o.whole()
		assert.EqualError(t, err, `orientation: found "outin", wanted in_out or out_in`)
	}
}

// A single parameter that is not the case's is caught, whatever the optimizer.
func TestGoldenCasesCatchWrongParameters(t *testing.T) {
	for _, change := range []struct {
		name, key string
		value     any
	}{
		{"lion_basic", "b2", 0.98},
		{"rmsprop_nesterov", "initial_scale", 0.4},
		{"mars_clip", "gamma", 0.03},
		{"adafactor_momentum", "decay_rate", 0.8},
		{"adafactor_factored", "min_dim_size_to_factor", 128},
		{"muon_basic", "ns_steps", 4},
		{"muon_adaptive", "adaptive", false},
		{"quad_dense_f32", "preconditioner_lr", 0.69},
		{"quad_dense_f32", "lr_style", nil},
		{"quad_dense_f32", "block_size", 8},
		{"quad_accum4", "b1", 0.9},
		{"quad_noise_prng", "noise_scale", 0.31},
		{"quad_scanned_norm", "scanned_layers", nil},
		{"quad_scanned_norm", "normalize_grads", false},
		{"skew_dense_f32", "weight_decay", 0.11},
		{"skew_large_f32", "max_size_dense", 1000},
		{"skew_noise_bf16", "dtype", "float32"},
	} {
		c, o := loadEmbedded(t, change.name), &optimizerCase{}
		require.NoError(t, c.decode(o))
		config := map[string]any{}
		require.NoError(t, json.Unmarshal(o.Config, &config))
		require.Contains(t, config, change.key, change.name)
		require.NotEqual(t, config[change.key], change.value)
		config[change.key] = change.value
		var err error
		o.Config, err = json.Marshal(config)
		require.NoError(t, err)
		pass, _, _, _ := runTwin(t, c, o).result()
		assert.False(t, pass, "%s: %s", change.name, change.key)
	}
}

// spoiledRun is a run in which one number of the optimizer's state is another.
type spoiledRun struct {
	twinRun
	slot, leaf string
}

func (r spoiledRun) weights(which string) ([]buffers.Host, error) {
	found, err := r.twinRun.weights(which)
	found = slices.Clone(found)
	for i, h := range found {
		if which == r.slot && h.Path == r.leaf {
			found[i].Data = slices.Clone(h.Data)
			found[i].Data[0]++
		}
	}
	return found, err
}

func (r spoiledRun) tensors() (map[string]buffers.Host, error) {
	state, err := r.twinRun.tensors()
	h, ok := find(state, r.slot, r.leaf)
	if ok {
		h.Data = slices.Clone(h.Data)
		h.Data[0] += 1 + float32(math.Abs(float64(h.Data[0])))
		state[h.Path] = h
	}
	return state, err
}

// A single number of the state that is not the case's is caught, and named.
func TestGoldenCasesCatchWrongState(t *testing.T) {
	for _, name := range []string{"adamw_basic", "adamw_average", "adamw_lookahead", "muon_basic", "quad_dense_f32", "skew_noise_bf16"} {
		c, o := loadEmbedded(t, name), &optimizerCase{}
		require.NoError(t, c.decode(o))
		tx, err := o.transform()
		require.NoError(t, err)
		for slot, leaves := range o.StateSlots {
			for _, leaf := range leaves {
				twin, err := optim.NewTwin(tx, c.leaves(o.Params, "params"))
				require.NoError(t, err)
				seen, err := c.follow(o, spoiledRun{twinRun{twin}, slot, leaf})
				require.NoError(t, err)
				pass, _, _, where := seen.result()
				assert.False(t, pass, "%s: %s/%s", name, slot, leaf)
				assert.Contains(t, where, "state/"+slot+"/"+leaf, name)
			}
		}
	}
}

func TestSchedules(t *testing.T) {
	c := loadEmbedded(t, "schedules")
	seen, err := runSchedule(t.Context(), nil, c)
	require.NoError(t, err)
	assertPassed(t, true, seen)

	spoiled := *c
	spoiled.raw = []byte(strings.Replace(string(c.raw), "0.09604", "0.09605", 1))
	seen, err = runSchedule(t.Context(), nil, &spoiled)
	require.NoError(t, err)
	pass, _, _, where := seen.result()
	assert.False(t, pass)
	assert.Equal(t, "schedules[1] linear update 2", where)
}

func TestCasesOnDevice(t *testing.T) {
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		cases, err := Cases()
		require.NoError(t, err)
		for _, name := range embeddedOf(t, "optimizer", "clip", "schedule", "prng", "wk_unit") {
			requirePass(t, name, cases[name], d)
		}
	})
}

// requirePass runs a case on devices.
func requirePass(t *testing.T, name string, dir fs.FS, devices ...*gpu.Device) {
	t.Helper()
	r := RunCase(t.Context(), devices, name, dir)
	require.Empty(t, r.Error, name)
	assert.True(t, r.Pass, "%s: %s: %g, allowed %g", name, r.Worst, r.MaxError, r.Tolerance)
	assert.Equal(t, name, r.Case)
	assert.Contains(t, r.Adapter, devices[0].Adapter().Backend)
	t.Logf("%s: worst %s: %g of %g", name, r.Worst, r.MaxError, r.Tolerance)
}

// assertPassed asserts that what was compared passes, or that it does not.
func assertPassed(t *testing.T, wanted bool, seen *comparison) {
	t.Helper()
	pass, found, allowed, where := seen.result()
	t.Logf("worst %s: %g of %g", where, found, allowed)
	assert.Equal(t, wanted, pass, "%s: %g, allowed %g", where, found, allowed)
}

func TestComparisonRejects(t *testing.T) {
	tol := tolerance{RTol: 1e-3, ATol: 1e-6, ATolRelMax: 1e-4}
	want := []float32{1, -2, 0}
	for name, got := range map[string][]float32{
		"too far": {1, -2.01, 0}, "nan": {float32(math.NaN()), -2, 0}, "infinite": {1, -2, float32(math.Inf(1))}, "short": {1, -2},
	} {
		c := &comparison{}
		c.tensor(name, got, want, tol)
		pass, found, _, where := c.result()
		assert.False(t, pass, name)
		assert.True(t, strings.HasPrefix(where, name))
		_, err := json.Marshal(Result{MaxError: found})
		assert.NoError(t, err)
	}
	c := &comparison{}
	c.tensor("near", []float32{1.001, -2.002, 0.0002}, want, tol)
	pass, _, _, _ := c.result()
	assert.True(t, pass, "atol_rel_max counts")
	pass, _, _, _ = (&comparison{}).result()
	assert.False(t, pass, "nothing compared is no pass")
	c = &comparison{}
	c.tensor("infinite", []float32{1}, []float32{float32(math.Inf(1))}, tol)
	pass, _, allowed, _ := c.result()
	assert.False(t, pass, "an infinity allows nothing but itself")
	_, err := json.Marshal(Result{Tolerance: allowed})
	assert.NoError(t, err)
}

func TestExactBF16(t *testing.T) {
	assert.True(t, exactBF16([]float32{0, 1.5, -0.0078125}))
	assert.False(t, exactBF16([]float32{1.001}))
}

func TestResultJSON(t *testing.T) {
	data, err := json.Marshal(Result{Case: "a", Adapter: "b", Pass: true, MaxError: 1, Tolerance: 2, Worst: "w"})
	require.NoError(t, err)
	assert.JSONEq(t, `{"case":"a","adapter":"b","pass":true,"max_error":1,"tolerance":2,"worst":"w"}`, string(data))
	data, err = json.Marshal(Failed("a", gpu.Adapter{Name: "b", Backend: "gl"}, errors.New("gone")))
	require.NoError(t, err)
	assert.JSONEq(t, `{"case":"a","adapter":"b gl","pass":false,"max_error":0,"tolerance":0,"worst":"","error":"gone"}`, string(data))
}

func TestRunCaseRefuses(t *testing.T) {
	dry := gpu.Dry(gpu.DefaultLimits())
	for text, want := range map[string]string{
		`{"format_version":2,"name":"x","kind":"clip"}`: "format_version 2, want 1",
		`{"format_version":1,"name":"x","kind":"clop"}`: `did you mean "clip"?`,
		`{"format_version":1,"name":"x","kind":"clip"}`: "tensors.safetensors",
		`{"format_version":1,`:                          "case.json",
	} {
		r := RunCase(t.Context(), []*gpu.Device{dry}, "x", fstest.MapFS{"case.json": {Data: []byte(text)}})
		assert.Contains(t, r.Error, want)
		assert.False(t, r.Pass)
	}
	empty := &fstest.MapFile{Data: append([]byte{8, 0, 0, 0, 0, 0, 0, 0}, "{}      "...)}
	run := func(text string) Result {
		return RunCase(context.Background(), []*gpu.Device{dry}, "x", fstest.MapFS{"case.json": {Data: []byte(text)}, "tensors.safetensors": empty})
	}
	assert.Contains(t, run(`{"format_version":1,"name":"x","kind":"optimizer","optimizer":"adamv"}`).Error, `did you mean "adamw"?`)
	assert.Contains(t, run(`{"format_version":1,"name":"x","kind":"prng"}`).Error, "entries: found none")
	assert.Contains(t, run(`{"format_version":1,"name":"x","kind":"prng","entries":[{"op":"fold_im"}]}`).Error, `did you mean "fold_in"?`)
	assert.Contains(t, run(`{"format_version":1,"name":"x","kind":"wk_unit"}`).Error, "entries: found none")
	assert.Contains(t, run(`{"format_version":1,"name":"x","kind":"wk_unit","entries":[{"n":4}]}`).Error, "q/0")
}

// A check that cannot be run fails, and so does one that finds what is no number; both can be told in JSON.
func TestRunCheckFails(t *testing.T) {
	dry := gpu.Dry(gpu.DefaultLimits())
	for want, run := range map[string]func(context.Context, *gpu.Device) (gpu.Result, error){
		"no memory": func(context.Context, *gpu.Device) (gpu.Result, error) { return gpu.Result{}, errors.New("no memory") },
		"": func(context.Context, *gpu.Device) (gpu.Result, error) {
			return gpu.Result{MaxError: math.NaN(), Tolerance: 1}, nil
		},
	} {
		r := runCheck(t.Context(), dry, gpu.Check{Name: "x", Run: run})
		assert.Equal(t, "kernel/x", r.Case)
		assert.Equal(t, want, r.Error)
		assert.False(t, r.Pass)
		_, err := json.Marshal(r)
		assert.NoError(t, err)
	}
}

// Factors are kept without the padding that cases have.
func TestPad(t *testing.T) {
	got, ok := pad(buffers.Host{Shape: []int{2, 1, 2}, Data: []float32{1, 2, 3, 4}}, []int{2, 2, 3})
	require.True(t, ok)
	assert.Equal(t, []float32{1, 2, 0, 0, 0, 0, 3, 4, 0, 0, 0, 0}, got)
	for _, shape := range [][]int{{2, 1, 1}, {2, 2}, {1, 1, 2}} {
		_, ok = pad(buffers.Host{Shape: []int{2, 1, 2}, Data: make([]float32, 4)}, shape)
		assert.False(t, ok, "%v", shape)
	}
}

func TestStateTensorsAreFound(t *testing.T) {
	state := map[string]buffers.Host{}
	for _, name := range []string{"mu/w", "dense/Ql", "leaf/w/Ql", "leaf/emb.x/Lr"} {
		state[name] = buffers.Host{Path: name}
	}
	for want, ask := range map[string][2]string{"mu/w": {"mu", "w"}, "dense/Ql": {"Ql", "dense"}, "leaf/w/Ql": {"Ql", "w"}, "leaf/emb.x/Lr": {"Lr", "emb.x"}} {
		got, ok := find(state, ask[0], ask[1])
		assert.True(t, ok)
		assert.Equal(t, want, got.Path)
	}
	_, ok := find(state, "Qr", "dense")
	assert.False(t, ok)
}
