package state

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/internal/gputest"
	"gputrain/model"
	"gputrain/optim"
	"gputrain/state/checkpoint"
)

// gradientsOf are those of hosts that each stage of a value has, on its device.
func gradientsOf(t *testing.T, v Value, hosts []buffers.Host) (grads []*buffers.Tree) {
	t.Helper()
	for _, r := range fieldsOf(t, v).residents() {
		var own []buffers.Host
		for _, h := range hosts {
			if _, ok := r.Params.Layout().Leaf(h.Path); ok {
				own = append(own, h)
			}
		}
		grads = append(grads, upload(t, r.Params.Device(), own, buffers.F32))
	}
	return grads
}

// savedAfter are the files of a value after so many updates; the value is released.
func savedAfter(t *testing.T, v Value, hosts []buffers.Host, updates int) map[string]string {
	t.Helper()
	grads := gradientsOf(t, v, hosts)
	for range updates {
		var err error
		v, err = v.ApplyGradients(t.Context(), grads...)
		require.NoError(t, err)
	}
	dir := filepath.Join(t.TempDir(), "saved")
	require.NoError(t, v.Save(t.Context(), dir, SaveOptions{}))
	v.Release()
	return contents(t, dir)
}

// A value that is loaded onto several devices is the one that is loaded onto one, wherever it was saved and however it is divided: its files,
// and those after two updates. So is one whose optimizer state alone is loaded.
func TestLoadValueWhereItIsPlaced(t *testing.T) {
	devices := []*gpu.Device{gputest.Device(t), gputest.Device(t), gputest.Device(t)}
	c := tinyConfig(t)
	c.Optimizer = optimizerNamed("quad", `{"block_size":12,"max_size_dense":40}`) // whose noise depends on the place in the whole model
	c.Frozen = matching(c.Definition, "h.0.attn", "wpe")
	byLayer := map[string]int{}
	for _, p := range c.Definition.Params() {
		byLayer[p.Path] = 0
	}
	for _, path := range matching(c.Definition, "h.1.", "ln_f", "wpe") {
		byLayer[path] = 1
	}
	trees, first := map[string]int{"w": 0, "b": 1, "mean": 1}, map[string]int{"w": 1, "b": 0, "mean": 0}
	for name, test := range map[string]struct {
		params    buffers.DType
		config    Config
		transform optim.Transform
		stages    []map[string]int
	}{
		"trees":   {config: Config{Optimizer: optimizerNamed("adamw", "")}, stages: []map[string]int{trees, first}},
		"bf16":    {params: buffers.BF16, config: Config{Optimizer: optimizerNamed("muon", "")}, stages: []map[string]int{trees}},
		"factors": {config: Config{Optimizer: optimizerNamed("skew", `{"block_size":4,"max_size_dense":8}`)}, stages: []map[string]int{trees, first}},
		"own":     {transform: optim.Chain(optim.Trace(0.9, true), optim.Scale(-0.1)), stages: []map[string]int{trees}},
		"model":   {config: c, stages: []map[string]int{byLayer}},
	} {
		t.Run(name, func(t *testing.T) {
			f, grads := Fields{Optimizer: test.config.Optimizer, Transform: test.transform, InitOptimizer: true}, ownTrees(0.1)
			if f.Definition = test.config.Definition; f.Definition == nil {
				f.Params = upload(t, devices[0], ownTrees(1), test.params)
				f.Other = upload(t, devices[0], []buffers.Host{{Path: "mean", Shape: []int{3}, Data: []float32{1, 2, 3}}}, buffers.BF16)
			} else {
				var err error
				grads = model.Init(f.Definition, 5)
				f.Params, f.Frozen, err = Job{test.config}.upload(devices[0], model.Init(f.Definition, 3))
				require.NoError(t, err)
			}
			v := newValue(t, f)
			applied := gradientsOf(t, v, grads)
			v, err := v.ApplyGradients(t.Context(), applied...)
			require.NoError(t, err)
			dir := t.TempDir()
			whole, divided := filepath.Join(dir, "whole"), filepath.Join(dir, "divided")
			require.NoError(t, v.Save(t.Context(), whole, SaveOptions{}))
			one, _, err := LoadValue(t.Context(), devices[0], whole, LoadOptions{Transform: test.transform})
			require.NoError(t, err)
			want := savedAfter(t, one, grads, 2)
			v, err = v.Place(t.Context(), Placement{devices[:2], test.stages[0]})
			require.NoError(t, err)
			require.NoError(t, v.Save(t.Context(), divided, SaveOptions{}))

			weights, _, err := LoadValue(t.Context(), nil, whole, LoadOptions{WeightsOnly: true, Placement: Placement{Devices: devices[2:]}})
			require.NoError(t, err)
			assert.Zero(t, fieldsOf(t, weights).Step)
			assert.Same(t, devices[2], fieldsOf(t, weights).device())
			weights.Release()
			for _, stage := range test.stages {
				for _, from := range []string{whole, divided} {
					to := Placement{devices[1:], stage}
					got, record, err := LoadValue(t.Context(), nil, from, LoadOptions{Transform: test.transform, Placement: to})
					require.NoError(t, err)
					assert.EqualValues(t, 1, record.Step)
					now, err := got.Placement()
					require.NoError(t, err)
					assert.Equal(t, to, now)
					assert.Equal(t, contents(t, whole), savedAfter(t, clone(t, got), grads, 0))

					// Another step of the optimizer, and back.
					got, err = got.ApplyGradients(t.Context(), gradientsOf(t, got, grads)...)
					require.NoError(t, err)
					after := savedAfter(t, clone(t, got), grads, 0)
					got, record, err = got.LoadOptimizer(t.Context(), from)
					require.NoError(t, err)
					assert.EqualValues(t, 1, record.Step)
					assert.EqualValues(t, 2, fieldsOf(t, got).Step, "of the parameters")
					mixed := savedAfter(t, got, grads, 0)
					assert.Equal(t, contents(t, whole)[checkpoint.OptimizerFile], mixed[checkpoint.OptimizerFile])
					assert.Equal(t, after["model.safetensors"], mixed["model.safetensors"])

					again, _, err := LoadValue(t.Context(), nil, from, LoadOptions{Transform: test.transform, Placement: to})
					require.NoError(t, err)
					assert.Equal(t, want, savedAfter(t, again, grads, 2))
				}
			}
		})
	}
}

func clone(t *testing.T, v Value) Value {
	t.Helper()
	c, err := v.Clone(t.Context())
	require.NoError(t, err)
	return c
}

// A value that no device has room for is loaded onto two, by a placement that is made of its leaves on a device that takes nothing.
func TestLoadValueLargerThanADevice(t *testing.T) {
	dev := gputest.Device(t)
	var hosts []buffers.Host
	for _, path := range []string{"a", "b", "c", "d"} {
		hosts = append(hosts, buffers.Host{Path: path, Shape: []int{128, 128}, Data: make([]float32, 128*128)})
	}
	v := newValue(t, Fields{Params: upload(t, dev, hosts, buffers.F32), Optimizer: optimizerNamed("adamw", ""), InitOptimizer: true})
	params, optimizer, _ := v.Size()
	dir := filepath.Join(t.TempDir(), "saved")
	require.NoError(t, v.Save(t.Context(), dir, SaveOptions{}))
	room := gputest.WithMemoryLimit((params + optimizer) * 3 / 4)
	small := []*gpu.Device{gputest.Device(t, room), gputest.Device(t, room)}
	_, _, err := LoadValue(t.Context(), small[0], dir, LoadOptions{})
	require.Error(t, err)
	assert.Zero(t, small[0].Counters().LiveBytes)

	dry, _, err := LoadValue(t.Context(), small[0].AsDry(), dir, LoadOptions{})
	require.NoError(t, err)
	assert.Equal(t, pathsOf(fieldsOf(t, v).Params), pathsOf(fieldsOf(t, dry).Params))
	p, err := dry.Placement()
	require.NoError(t, err)
	p.Devices, p.Stage["b"], p.Stage["c"] = small, 1, 1
	got, _, err := LoadValue(t.Context(), nil, dir, LoadOptions{Placement: p})
	require.NoError(t, err)
	again := filepath.Join(t.TempDir(), "again")
	require.NoError(t, got.Save(t.Context(), again, SaveOptions{}))
	assert.Equal(t, contents(t, dir), contents(t, again))
	got.Release()
}

// What cannot be loaded where it is to go leaves nothing on any device, and says why.
func TestLoadValueThatFailsGivesBack(t *testing.T) {
	devices := []*gpu.Device{gputest.Device(t), gputest.Device(t)}
	v := newDivided(t, devices, optimizerNamed("adamw", ""))
	dir := filepath.Join(t.TempDir(), "saved")
	require.NoError(t, v.Save(t.Context(), dir, SaveOptions{})) // makes the buffers to read through
	small := gputest.Device(t, gputest.WithMemoryLimit(600))
	live := func() uint64 {
		return devices[0].Counters().LiveBytes + devices[1].Counters().LiveBytes + small.Counters().LiveBytes
	}
	before := live()
	both := map[string]int{"w": 1, "b": 0, "mean": 0}
	for want, test := range map[string]struct {
		dev *gpu.Device
		p   Placement
	}{
		"device: found none, wanted one or a placement": {},
		"device: found one beside a placement":          {devices[0], Placement{devices, both}},
		"devices: found none":                           {nil, Placement{nil, both}},
		"device of stage 1: found none":                 {nil, Placement{[]*gpu.Device{devices[0], nil}, both}},
		`leaf "mean": found no stage`:                   {nil, Placement{devices, map[string]int{"w": 0, "b": 1}}},
		"stage 1 has no parameters":                     {nil, Placement{devices, map[string]int{"w": 0, "b": 0, "mean": 1}}},
		"stage 1: ":                                     {nil, Placement{[]*gpu.Device{devices[0], small}, both}},
	} {
		_, _, err := LoadValue(t.Context(), test.dev, dir, LoadOptions{Placement: test.p})
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, dir)
		assert.Equal(t, before, live(), want)
	}

	path := filepath.Join(dir, checkpoint.OptimizerFile)
	require.NoError(t, os.Truncate(path, 10))
	_, _, err := v.LoadOptimizer(t.Context(), dir)
	require.ErrorIs(t, err, checkpoint.ErrCorrupt)
	assert.Equal(t, before, live())
	assert.NotNil(t, fieldsOf(t, v).Stages[1].State, "the value is as it was")
}
