package optim

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/buffers/safetensors"
	"gputrain/gpu"
	"gputrain/internal/gputest"
)

// goldenCase is a case of an independent float64 oracle in the numerics of eformer.
type goldenCase struct {
	Optimizer         string
	Config            map[string]any
	Orientation       string
	Schedule          ScheduleConfig
	ClipGrad          *float64        `json:"clip_grad"`
	WeightDecay       float64         `json:"weight_decay"`
	WeightDecayMask   map[string]bool `json:"weight_decay_mask"`
	AccumulationSteps int             `json:"gradient_accumulation_steps"`
	Steps             int
	Params            []struct {
		Name  string
		Shape []int
	}
	Expect []struct {
		Step        int
		UpdatesDone int64 `json:"updates_done"`
	}
	StateSlots map[string][]string `json:"state_slots"`
	Tolerance  struct {
		Params goldenTolerance
		State  map[string]goldenTolerance
	}
	tensors *safetensors.File
}

type goldenTolerance struct {
	Rtol, Atol float64
	RelMax     float64 `json:"atol_rel_max"`
}

// ratio is the largest error in parts of what is allowed.
func (tol goldenTolerance) ratio(got, want []float32) float64 {
	if len(got) != len(want) {
		return math.Inf(1)
	}
	size, worst := 0.0, 0.0
	for _, w := range want {
		size = max(size, math.Abs(float64(w)))
	}
	for i, w := range want {
		diff := math.Abs(float64(got[i]) - float64(w))
		if math.IsNaN(diff) {
			return math.Inf(1)
		}
		if diff > 0 {
			worst = max(worst, diff/(tol.Atol+tol.Rtol*math.Abs(float64(w))+tol.RelMax*size))
		}
	}
	return worst
}

func TestGoldenToleranceRejects(t *testing.T) {
	tol := goldenTolerance{Rtol: 1e-3, Atol: 1e-6, RelMax: 1e-4}
	want := []float32{1, 0, -2}
	assert.LessOrEqual(t, tol.ratio([]float32{1.001, 0.0002, -2}, want), 1.0)
	assert.Greater(t, tol.ratio([]float32{1.002, 0, -2}, want), 1.0)
	assert.Greater(t, tol.ratio([]float32{1, float32(math.NaN()), -2}, want), 1.0)
	assert.Greater(t, tol.ratio(want[:2], want), 1.0)
}

// ours turns a case's config into our names.
func (c *goldenCase) ours() map[string]any {
	config := maps.Clone(c.Config)
	for key, value := range config {
		switch value {
		case "float32":
			config[key] = "f32"
		case "bfloat16":
			config[key] = "bf16"
		}
	}
	if c.Optimizer == "mars" {
		delete(config, "weight_decay") // has no effect there
	}
	return config
}

func (c *goldenCase) build(t testing.TB) Transform {
	o := Options{
		Schedule: c.Schedule, ClipGrad: c.ClipGrad, WeightDecay: c.WeightDecay, AccumulationSteps: c.AccumulationSteps, Numerics: EFormer,
	}
	if c.WeightDecayMask != nil {
		o.WeightDecayMask = MaskPaths(c.WeightDecayMask)
	}
	parameters, err := json.Marshal(c.ours())
	require.NoError(t, err)
	tx, err := Build(c.Optimizer, o, parameters)
	require.NoError(t, err)
	return tx
}

func (c *goldenCase) leaves(t testing.TB, prefix string) []buffers.Host {
	var out []buffers.Host
	for _, p := range c.Params {
		data, err := c.tensors.Float32(prefix + "/" + p.Name)
		require.NoError(t, err)
		out = append(out, buffers.Host{Path: p.Name, Shape: p.Shape, OutIn: c.Orientation == "out_in", Data: data})
	}
	return out
}

// follow makes the calls of the case and compares what is there after each; tensors are by name.
func (c *goldenCase) follow(t testing.TB, call func([]buffers.Host), updates func() int64, tensors func() map[string][]float32) {
	worst := 0.0
	for step := range c.Steps {
		call(c.leaves(t, fmt.Sprintf("grads/%d", step)))
		for _, e := range c.Expect {
			if e.Step != step {
				continue
			}
			assert.Equal(t, e.UpdatesDone, updates())
			got := tensors()
			check := func(name, key string, tol goldenTolerance) {
				want, err := c.tensors.Float32(fmt.Sprintf("expect/%d/%s", step, key))
				require.NoError(t, err)
				ratio := tol.ratio(got[name], want)
				assert.LessOrEqual(t, ratio, 1.0, "step %d %s", step, name)
				worst = max(worst, ratio)
			}
			for _, p := range c.Params {
				check("params/"+p.Name, "params/"+p.Name, c.Tolerance.Params)
			}
			for _, slot := range slices.Sorted(maps.Keys(c.StateSlots)) {
				for _, leaf := range c.StateSlots[slot] {
					check(slot+"/"+leaf, "state/"+slot+"/"+leaf, c.Tolerance.State[slot])
				}
			}
		}
	}
	t.Logf("worst error: %.3g of what is allowed", worst)
}

// goldens runs a test for each case of testdata and for each case of the program.
func goldens(t *testing.T, test func(t *testing.T, c *goldenCase)) {
	var cases []string
	for _, optimizer := range []string{"adafactor", "lion", "mars", "muon", "rmsprop"} {
		for _, folder := range []string{"testdata", "../cmd/gputrain/doctor/cases"} {
			found, err := filepath.Glob(folder + "/" + optimizer + "_*/case.json")
			require.NoError(t, err)
			cases = append(cases, found...)
		}
	}
	require.Len(t, cases, 10)
	for _, path := range cases {
		folder := filepath.Dir(path)
		t.Run(filepath.Base(folder), func(t *testing.T) {
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			c := &goldenCase{}
			require.NoError(t, json.Unmarshal(text, c))
			c.tensors, err = safetensors.Open(filepath.Join(folder, "tensors.safetensors"))
			require.NoError(t, err)
			defer c.tensors.Close()
			if !slices.Contains(Names(), c.Optimizer) {
				t.Skipf("no optimizer %q", c.Optimizer)
			}
			test(t, c)
		})
	}
}

func TestTwinFollowsGoldenCases(t *testing.T) {
	goldens(t, func(t *testing.T, c *goldenCase) {
		twin, err := NewTwin(c.build(t), c.leaves(t, "params"))
		require.NoError(t, err)
		followOnTwin(t, c, twin)
	})
}

func followOnTwin(t *testing.T, c *goldenCase, twin *Twin) {
	c.follow(t, func(grads []buffers.Host) { require.NoError(t, twin.Update(grads)) },
		func() int64 { return twin.Counts()["updates"] },
		func() map[string][]float32 {
			out := map[string][]float32{}
			for _, h := range twin.Params() {
				out["params/"+h.Path] = h.Data
			}
			for _, h := range twin.Tensors() {
				out[h.Path] = h.Data
			}
			return out
		})
}

// A case that says 0 where another says null means the same, as 0 is no clip in eformer too.
func TestMarsWithoutClipInBothForms(t *testing.T) {
	tried := 0
	goldens(t, func(t *testing.T, c *goldenCase) {
		if limit, ok := c.Config["max_grad_norm"]; !ok || limit != nil {
			return
		}
		tried++
		c.Config["max_grad_norm"] = 0
		twin, err := NewTwin(c.build(t), c.leaves(t, "params"))
		require.NoError(t, err)
		followOnTwin(t, c, twin)
	})
	assert.Positive(t, tried)
}

func TestDeviceFollowsGoldenCases(t *testing.T) {
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		goldens(t, func(t *testing.T, c *goldenCase) {
			r := newRig(t, d, c.build(t), c.leaves(t, "params"), buffers.F32)
			c.follow(t, r.call, func() int64 { return r.state.Counts()["updates"] }, func() map[string][]float32 {
				out := r.tensors()
				for _, h := range r.download(r.params) {
					out["params/"+h.Path] = h.Data
				}
				return out
			})
		})
	})
}

// tensors reads the state as it is saved.
func (r *rig) tensors() map[string][]float32 {
	out := map[string][]float32{}
	for _, tensor := range r.state.Tensors() {
		values, err := tensor.Floats(r.t.Context())
		require.NoError(r.t, err)
		out[tensor.Name] = values
	}
	return out
}
