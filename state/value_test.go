package state

import (
	"encoding/json"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/internal/gputest"
	"gputrain/model"
	"gputrain/optim"
)

// ownTrees are arrays of something that this package knows nothing of.
func ownTrees(scale float32) []buffers.Host {
	out := []buffers.Host{{Path: "b", Shape: []int{7}}, {Path: "w", Shape: []int{5, 6}}}
	for i := range out {
		n := out[i].Shape[0]
		if len(out[i].Shape) == 2 {
			n *= out[i].Shape[1]
		}
		for j := range n {
			out[i].Data = append(out[i].Data, scale*float32(math.Sin(float64(10*i+j))))
		}
	}
	return out
}

func upload(t *testing.T, dev *gpu.Device, hosts []buffers.Host, d buffers.DType) *buffers.Tree {
	t.Helper()
	tree, err := buffers.Upload(dev, "params", hosts, d)
	require.NoError(t, err)
	t.Cleanup(tree.Release)
	return tree
}

func newValue(t *testing.T, f Fields) Value {
	t.Helper()
	v, err := New(f)
	require.NoError(t, err)
	t.Cleanup(func() { v.Release() })
	return v
}

func fieldsOf(t *testing.T, v Value) Fields {
	t.Helper()
	f, err := v.Fields()
	require.NoError(t, err)
	return f
}

func download(t *testing.T, tree *buffers.Tree) []buffers.Host {
	t.Helper()
	hosts, err := tree.Download(t.Context())
	require.NoError(t, err)
	return hosts
}

func optimizerNamed(name, parameters string) optim.Config {
	c := optim.Config{Name: name, Options: optim.Options{Schedule: optim.ScheduleConfig{LearningRate: 1e-2}}}
	if parameters != "" {
		c.Parameters = json.RawMessage(parameters)
	}
	return c
}

func TestFieldsThatMakeNoSense(t *testing.T) {
	dev := gputest.Device(t)
	def := tinyModel(t, 0)
	whole := upload(t, dev, model.Init(def, 1), buffers.F32)
	own := upload(t, dev, ownTrees(1), buffers.F32)
	elsewhere := upload(t, gputest.Device(t), []buffers.Host{{Path: "mean", Shape: []int{1}, Data: []float32{1}}}, buffers.F32)
	m, err := NewModel(dev, def, model.Init(def, 1))
	require.NoError(t, err)
	t.Cleanup(m.Release)
	adamw, lion := optimizerNamed("adamw", ""), optimizerNamed("lion", "")
	tx, err := adamw.Build()
	require.NoError(t, err)
	ofWhole, err := tx.Init(whole)
	require.NoError(t, err)
	t.Cleanup(ofWhole.Release)
	stage, err := tx.InitStage(own, []buffers.Spec{{Path: "b", Shape: []int{7}}, {Path: "c", Shape: []int{1}}, {Path: "w", Shape: []int{5, 6}}})
	require.NoError(t, err)
	t.Cleanup(stage.Release)
	half := upload(t, dev, model.Init(def, 1), buffers.BF16)
	for name, test := range map[string]struct {
		fields Fields
		field  string
		text   string
	}{
		"nothing":                  {Fields{}, "Params", "found none, wanted a tree, or a Model"},
		"model and definition":     {Fields{Model: m, Definition: def}, "Model", "one beside Definition or Params"},
		"model and params":         {Fields{Model: m, Params: own}, "Model", "one beside Definition or Params"},
		"definition alone":         {Fields{Definition: def}, "Params", "none beside Definition or Other"},
		"other alone":              {Fields{Other: own}, "Params", "none beside Definition or Other"},
		"two optimizer states":     {Fields{Params: whole, Transform: tx, OptimizerState: ofWhole, InitOptimizer: true}, "InitOptimizer", "set beside OptimizerState"},
		"no transformation":        {Fields{Params: whole, InitOptimizer: true}, "InitOptimizer", "set without Transform"},
		"state of nothing":         {Fields{Params: whole, OptimizerState: ofWhole}, "OptimizerState", "without Transform"},
		"state of other leaves":    {Fields{Params: own, Transform: tx, OptimizerState: ofWhole}, "OptimizerState", "params: leaf"},
		"state of another":         {Fields{Params: whole, Optimizer: lion, OptimizerState: ofWhole}, "OptimizerState", "state: found that of"},
		"state of a stage":         {Fields{Params: own, Transform: tx, OptimizerState: stage}, "OptimizerState", "2 of the 3 leaves"},
		"negative step":            {Fields{Params: own, Step: -1}, "Step", "found -1"},
		"negative skipped":         {Fields{Params: own, Skipped: -1}, "Skipped", "found -1"},
		"tree of another model":    {Fields{Definition: def, Params: own}, "Params", "other leaves"},
		"model in bf16":            {Fields{Definition: def, Params: half}, "Params", "bf16"},
		"trees on two devices":     {Fields{Params: own, Other: elsewhere}, "Other", "another device"},
		"parameter and other":      {Fields{Params: own, Other: own}, "Other", `"b", which is a parameter`},
		"a model that is borrowed": {Fields{Model: borrowing(def, whole, nil, def.Context())}, "Model", "another's"},
	} {
		t.Run(name, func(t *testing.T) {
			before := dev.Counters().LiveBytes
			_, err := New(test.fields)
			var wrong *FieldsError
			require.ErrorAs(t, err, &wrong)
			assert.Equal(t, test.field, wrong.Field)
			assert.ErrorContains(t, err, test.text)
			assert.Equal(t, before, dev.Counters().LiveBytes, "all stays the caller's")
		})
	}
	// None of it has kept the model from being taken.
	v := newValue(t, Fields{Model: m, Optimizer: adamw, InitOptimizer: true})
	assert.Same(t, m.Params(), fieldsOf(t, v).Params)
	_, err = New(Fields{Params: own, Optimizer: optimizerNamed("adamwx", ""), InitOptimizer: true})
	assert.ErrorContains(t, err, "adamwx")
}

// What was handed on is nobody's but the last owner's, whichever copy of the handle is asked.
func TestSpentValues(t *testing.T) {
	dev := gputest.Device(t)
	first := newValue(t, Fields{Params: upload(t, dev, ownTrees(1), buffers.F32), Optimizer: optimizerNamed("adamw", ""), InitOptimizer: true})
	grads := upload(t, dev, ownTrees(0.1), buffers.F32)
	second := first
	v, err := first.ApplyGradients(t.Context(), grads)
	require.NoError(t, err)
	t.Cleanup(v.Release)
	for name, spent := range map[string]Value{"receiver": first, "copy": second, "zero": {}} {
		for method, err := range map[string]error{
			"Fields":         func() error { _, err := spent.Fields(); return err }(),
			"ApplyGradients": func() error { _, err := spent.ApplyGradients(t.Context(), grads); return err }(),
			"With":           func() error { _, err := spent.With(func(*Fields) {}); return err }(),
			"InitOptimizer":  func() error { _, err := spent.InitOptimizer(optimizerNamed("lion", "")); return err }(),
			"Model":          func() error { _, err := spent.Model(); return err }(),
			"Merge":          func() error { _, err := spent.Merge(grads); return err }(),
			"Clone":          func() error { _, err := spent.Clone(t.Context()); return err }(),
			"Place":          func() error { _, err := spent.Place(t.Context(), at(dev)); return err }(),
			"Placement":      func() error { _, err := spent.Placement(); return err }(),
			"Save":           spent.Save(t.Context(), t.TempDir()+"/x", SaveOptions{}),
			"LoadOptimizer":  func() error { _, _, err := spent.LoadOptimizer(t.Context(), t.TempDir()); return err }(),
			"Train":          func() error { _, err := Train(t.Context(), spent, Config{}); return err }(),
		} {
			require.ErrorIs(t, err, ErrSpent, "%s of the %s", method, name)
		}
		params, optimizer, other := spent.Size()
		assert.Zero(t, params+optimizer+other)
		assert.Contains(t, spent.String(), "spent")
		spent.Release()
	}
	assert.EqualValues(t, 1, fieldsOf(t, v).Step, "the owner still has it")
	// A method that fails hands nothing on.
	_, err = v.With(func(f *Fields) { f.Step = -1 })
	require.Error(t, err)
	_, err = v.ApplyGradients(t.Context(), upload(t, dev, ownTrees(1)[:1], buffers.F32))
	require.ErrorContains(t, err, `"w" is missing`)
	v, err = v.ApplyGradients(t.Context(), grads)
	require.NoError(t, err)
	assert.EqualValues(t, 2, fieldsOf(t, v).Step)
	v.Release()
	_, err = v.Fields()
	require.ErrorIs(t, err, ErrSpent)
}

// Updates are those of the transformation's twin, the program is made once, and a state that has none is told apart.
func TestApplyGradients(t *testing.T) {
	gputest.Each(t, func(t *testing.T, dev *gpu.Device) {
		c := optimizerNamed("adamw", `{"weight_decay":0.01}`)
		v := newValue(t, Fields{Params: upload(t, dev, ownTrees(1), buffers.F32)})
		grads := upload(t, dev, ownTrees(0.1), buffers.F32)
		_, err := v.ApplyGradients(t.Context(), grads)
		var wrong *FieldsError
		require.ErrorAs(t, err, &wrong)
		assert.Equal(t, "OptimizerState", wrong.Field)

		v, err = v.InitOptimizer(c)
		require.NoError(t, err)
		_, err = v.ApplyGradients(t.Context(), nil)
		require.ErrorContains(t, err, "grads: found none")
		tx, err := c.Build()
		require.NoError(t, err)
		twin, err := optim.NewTwin(tx, ownTrees(1))
		require.NoError(t, err)
		var before gpu.Counters
		for step := range 4 {
			hosts := ownTrees(0.1 * float32(step+1))
			require.NoError(t, grads.WriteAll(hosts))
			require.NoError(t, twin.Update(hosts))
			before = dev.Counters()
			v, err = v.ApplyGradients(t.Context(), grads)
			require.NoError(t, err)
		}
		after := dev.Counters()
		assert.Equal(t, [3]uint64{before.Pipelines, before.BindGroups, before.Buffers}, [3]uint64{after.Pipelines, after.BindGroups, after.Buffers})
		f := fieldsOf(t, v)
		assert.EqualValues(t, 4, f.Step)
		got := download(t, f.Params)
		for i, want := range twin.Params() {
			for j := range want.Data {
				// f32 keeps 2^-24 of numbers up to 1 in each of a handful of operations a step.
				require.InDelta(t, want.Data[j], got[i].Data[j], 4*16*0x1p-24, "%s[%d]", want.Path, j)
			}
		}
		// Another tree of gradients is recorded anew, and not mistaken for the first.
		moved := got[1].Data[3]
		v, err = v.ApplyGradients(t.Context(), upload(t, dev, ownTrees(-5), buffers.F32))
		require.NoError(t, err)
		assert.NotEqual(t, moved, download(t, fieldsOf(t, v).Params)[1].Data[3])
		v.Release()
	})
}

// With a transformation that accumulates a step is what completes an update; one that reuses factors has a program for each kind.
func TestApplyGradientsOfSeveralKinds(t *testing.T) {
	dev := gputest.Device(t)
	for name, c := range map[string]optim.Config{
		"accumulate": {Name: "adamw", Options: optim.Options{AccumulationSteps: 3, Schedule: optim.ScheduleConfig{LearningRate: 1e-2}}},
		"reuse":      optimizerNamed("quad", `{"block_size":4,"max_size_dense":8,"refresh":{"every":3}}`),
	} {
		t.Run(name, func(t *testing.T) {
			params := upload(t, dev, ownTrees(1), buffers.F32)
			grads := upload(t, dev, ownTrees(0.1), buffers.F32)
			tx, err := c.Build()
			require.NoError(t, err)
			s, err := tx.Init(params)
			require.NoError(t, err)
			t.Cleanup(s.Release)
			v := newValue(t, Fields{Params: upload(t, dev, ownTrees(1), buffers.F32), Optimizer: c, InitOptimizer: true})
			for call := range 7 {
				// The same by hand.
				phase, err := s.Prepare()
				require.NoError(t, err)
				rec := dev.Record("by hand")
				require.NoError(t, tx.Record(rec, phase, grads, s, params))
				require.NoError(t, rec.Submit(t.Context()))
				v, err = v.ApplyGradients(t.Context(), grads)
				require.NoError(t, err)
				f := fieldsOf(t, v)
				want := int64(call + 1)
				if name == "accumulate" {
					want /= 3
				}
				assert.Equal(t, want, f.Step)
				require.Equal(t, download(t, params), download(t, f.Params), "after call %d", call)
			}
			v.Release()
		})
	}
}

// A step does not jump over the update with which the mean of the weights begins.
func TestStepsBeginAMean(t *testing.T) {
	dev := gputest.Device(t)
	c := optimizerNamed("adamw", "")
	c.Options.Average = &optim.Averaging{From: 3, Horizon: 2, Blend: 1}
	v := newValue(t, Fields{Params: upload(t, dev, ownTrees(1), buffers.F32), Optimizer: c, InitOptimizer: true})
	for _, step := range []int64{3, 50} {
		_, err := v.With(func(f *Fields) { f.Step = step })
		require.ErrorContains(t, err, fmt.Sprintf("Step: found %d, where the optimizer has a mean of the weights, and a state that has none, wanted a step before average.from", step))
		assert.Zero(t, fieldsOf(t, v).OptimizerState.Counts()["updates"])
	}
	v, err := v.With(func(f *Fields) { f.Step = 2 })
	require.NoError(t, err)
	v, err = v.ApplyGradients(t.Context(), upload(t, dev, ownTrees(0.1), buffers.F32))
	require.NoError(t, err)
	for _, tensor := range fieldsOf(t, v).OptimizerState.Tensors() {
		if tensor.Name == "average/b" {
			mean, err := tensor.Read(t.Context())
			require.NoError(t, err)
			assert.Equal(t, gpu.Bytes(download(t, fieldsOf(t, v).Params)[0].Data), mean)
		}
	}
	_, err = v.With(func(f *Fields) { f.Step = 50 })
	require.NoError(t, err)
}

// Other fields: what goes is released, a step is the optimizer's too, and what is made anew begins anew.
func TestValueWith(t *testing.T) {
	dev := gputest.Device(t)
	c := optimizerNamed("adamw", "")
	c.Options.Schedule = optim.ScheduleConfig{Type: "linear", LearningRate: 1e-2, LearningRateEnd: new(1e-3), Steps: 100}
	base := dev.Counters().LiveBytes
	v := newValue(t, Fields{Params: upload(t, dev, ownTrees(1), buffers.F32), Optimizer: c, InitOptimizer: true})
	grads := upload(t, dev, ownTrees(0.1), buffers.F32)
	v, err := v.ApplyGradients(t.Context(), grads)
	require.NoError(t, err)
	v, err = v.With(func(f *Fields) { f.Step = 50 })
	require.NoError(t, err)
	f := fieldsOf(t, v)
	for name, n := range f.OptimizerState.Counts() {
		assert.EqualValues(t, 50, n, name)
	}
	v, err = v.ApplyGradients(t.Context(), grads)
	require.NoError(t, err)
	schedule, err := c.Options.Schedule.Build(c.Options.Numerics)
	require.NoError(t, err)
	assert.InDelta(t, schedule(50), f.OptimizerState.LearningRate(), 1e-12)

	// Params of another place, with the moments they had.
	with := dev.Counters().LiveBytes
	other := upload(t, dev, ownTrees(3), buffers.F32)
	v, err = v.With(func(f *Fields) { f.Params = other })
	require.NoError(t, err)
	assert.LessOrEqual(t, dev.Counters().LiveBytes, with, "the former ones went, and so did the program of their update")
	assert.Same(t, other, fieldsOf(t, v).Params)
	_, err = v.With(func(f *Fields) { f.Params = upload(t, dev, ownTrees(1)[:1], buffers.F32) })
	require.ErrorContains(t, err, "OptimizerState")

	v, err = v.InitOptimizer(optimizerNamed("lion", ""))
	require.NoError(t, err)
	f = fieldsOf(t, v)
	assert.Zero(t, f.OptimizerState.Counts()["updates"])
	assert.EqualValues(t, 51, f.Step)
	v, err = v.ApplyGradients(t.Context(), grads)
	require.NoError(t, err)
	grads.Release()
	v.Release()
	// Staging buffers and the one uniform of the device stay.
	assert.Less(t, dev.Counters().LiveBytes, base+4096)
}

func TestValueIsRefusedWhatDoesNotFit(t *testing.T) {
	hosts := []buffers.Host{{Path: "w", Shape: []int{256, 256}, Data: make([]float32, 256*256)}}
	dev := gputest.Device(t, gputest.WithMemoryLimit(700<<10))
	v := newValue(t, Fields{Params: upload(t, dev, hosts, buffers.F32)}) // 256 KiB; two moments are twice that
	_, err := v.InitOptimizer(optimizerNamed("adamw", ""))
	var memory *MemoryError
	require.ErrorAs(t, err, &memory)
	require.ErrorIs(t, err, gpu.ErrOutOfMemory)
	c := optimizerNamed("adamw", "")
	tx, err := c.Build()
	require.NoError(t, err)
	want, err := tx.Bytes(fieldsOf(t, v).Params.Layout(), dev.Limits())
	require.NoError(t, err)
	assert.Equal(t, want, memory.Memory[0].Optimizer, "as the transformation told before")
	v, err = v.InitOptimizer(optimizerNamed("lion", ""))
	require.NoError(t, err)
	_, optimizer, _ := v.Size()
	assert.Greater(t, optimizer, uint64(256<<10))
	v.Release()
}

// A copy has the same bits and a life of its own; a value goes to another device with every bit.
func TestCloneAndPlace(t *testing.T) {
	gputest.Each(t, func(t *testing.T, dev *gpu.Device) {
		for _, c := range []optim.Config{
			optimizerNamed("adamw", ""), optimizerNamed("quad", `{"block_size":4,"max_size_dense":8,"refresh":{"every":2}}`), optimizerNamed("adafactor", `{"min_dim_size_to_factor":4}`),
		} {
			t.Run(c.Name, func(t *testing.T) {
				other := upload(t, dev, []buffers.Host{{Path: "mean", Shape: []int{3}, Data: []float32{1, 2, 3}}}, buffers.F32)
				v := newValue(t, Fields{Params: upload(t, dev, ownTrees(1), buffers.F32), Other: other, Optimizer: c, InitOptimizer: true})
				grads := upload(t, dev, ownTrees(0.1), buffers.F32)
				apply := func(v Value, grads *buffers.Tree, n int) Value {
					for range n {
						var err error
						v, err = v.ApplyGradients(t.Context(), grads)
						require.NoError(t, err)
					}
					return v
				}
				v = apply(v, grads, 3)
				clone, err := v.Clone(t.Context())
				require.NoError(t, err)
				early := download(t, fieldsOf(t, clone).Params)
				v = apply(v, grads, 2)
				assert.Equal(t, early, download(t, fieldsOf(t, clone).Params), "a copy does not follow")
				clone = apply(clone, grads, 2)
				want := t.TempDir() + "/want"
				require.NoError(t, v.Save(t.Context(), want, SaveOptions{}))
				got := t.TempDir() + "/got"
				require.NoError(t, clone.Save(t.Context(), got, SaveOptions{}))
				assert.Equal(t, contents(t, want), contents(t, got))

				elsewhere := gputest.Device(t)
				v = apply(v, grads, 1)
				clone, err = clone.Place(t.Context(), at(elsewhere))
				require.NoError(t, err)
				if elsewhere.Adapter().String() == dev.Adapter().String() {
					clone = apply(clone, upload(t, elsewhere, ownTrees(0.1), buffers.F32), 1)
					require.NoError(t, v.Save(t.Context(), want, SaveOptions{}))
					require.NoError(t, clone.Save(t.Context(), got, SaveOptions{}))
					assert.Equal(t, contents(t, want), contents(t, got), "steps go on alike on the other device")
				}
				assert.Same(t, elsewhere, fieldsOf(t, clone).Params.Device())
				clone.Release()
				v.Release()
			})
		}
	})
}

// The model of a value sees its parameters as they are; others may stand in for them.
func TestModelOfValue(t *testing.T) {
	dev := gputest.Device(t)
	c := tinyConfig(t)
	hosts := model.Init(c.Definition, 3)
	v := newValue(t, Fields{Definition: c.Definition, Params: upload(t, dev, hosts, buffers.F32), Optimizer: tinyOptimizer(), InitOptimizer: true})
	m, err := v.Model()
	require.NoError(t, err)
	logits := func(m *Model) []float32 {
		out, err := m.Logits(t.Context(), []int32{1, 2, 3})
		require.NoError(t, err)
		return out
	}
	lone, err := NewModel(dev, c.Definition, hosts)
	require.NoError(t, err)
	t.Cleanup(lone.Release)
	first := logits(m)
	assert.Equal(t, logits(lone), first)
	grads := upload(t, dev, model.Init(c.Definition, 4), buffers.F32)
	for range 2 {
		v, err = v.ApplyGradients(t.Context(), grads)
		require.NoError(t, err)
	}
	assert.NotEqual(t, first, logits(m), "the same model after updates")
	again, err := v.Model()
	require.NoError(t, err)
	assert.Same(t, m, again)
	merged, err := v.Merge(lone.Params())
	require.NoError(t, err)
	assert.Equal(t, first, logits(merged))
	merged.Release()
	assert.Equal(t, first, logits(lone), "what was lent stays")

	_, err = v.Merge(upload(t, dev, ownTrees(1), buffers.F32))
	var wrong *FieldsError
	require.ErrorAs(t, err, &wrong)
	own := newValue(t, Fields{Params: upload(t, dev, ownTrees(1), buffers.F32)})
	_, err = own.Model()
	require.ErrorAs(t, err, &wrong)
	assert.Equal(t, "Definition", wrong.Field)

	params, optimizer, other := v.Size()
	f := fieldsOf(t, v)
	assert.Equal(t, f.Params.Layout().Bytes(buffers.F32), params)
	assert.Equal(t, f.OptimizerState.Bytes(), optimizer)
	assert.Zero(t, other)
	assert.Equal(t, fmt.Sprintf("gpt2 with %d parameters at step 2, params %s, %s state %s", model.Parameters(c.Definition), gpu.SizeText(params), f.Transform.Name(),
		gpu.SizeText(optimizer)), v.String())
	assert.Contains(t, own.String(), "trees with 37 parameters at step 0")
	v.Release()
}
