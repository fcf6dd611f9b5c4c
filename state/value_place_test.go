package state

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/internal/gputest"
	"gputrain/model"
	"gputrain/optim"
)

// at is the placement of a value on one device.
func at(dev *gpu.Device) Placement { return Placement{Devices: []*gpu.Device{dev}} }

// newDivided is a value of ownTrees and a variable, with "b" and the variable on the second device.
func newDivided(t *testing.T, devices []*gpu.Device, c optim.Config) Value {
	t.Helper()
	other := upload(t, devices[0], []buffers.Host{{Path: "mean", Shape: []int{3}, Data: []float32{1, 2, 3}}}, buffers.BF16)
	v := newValue(t, Fields{Params: upload(t, devices[0], ownTrees(1), buffers.F32), Other: other, Optimizer: c, InitOptimizer: true})
	v, err := v.Place(t.Context(), Placement{devices, map[string]int{"w": 0, "b": 1, "mean": 1}})
	require.NoError(t, err)
	t.Cleanup(func() { v.Release() })
	return v
}

// A placement that is none of the value is refused, and so is one that the devices cannot hold; the value is as it was, and nothing is left behind.
func TestPlaceRefuses(t *testing.T) {
	devices := []*gpu.Device{gputest.Device(t), gputest.Device(t)}
	v := newDivided(t, devices, optimizerNamed("adamw", ""))
	require.NoError(t, v.Save(t.Context(), t.TempDir()+"/saved", SaveOptions{})) // makes the buffers to read through
	small := gputest.Device(t, gputest.WithMemoryLimit(600))
	live := func() uint64 {
		return devices[0].Counters().LiveBytes + devices[1].Counters().LiveBytes + small.Counters().LiveBytes
	}
	before := live()
	swapped := map[string]int{"w": 1, "b": 0, "mean": 0}
	for want, p := range map[string]Placement{
		"devices: found none":                       {nil, swapped},
		"device of stage 0: found none":             at(nil),
		"device of stage 1: found none":             {[]*gpu.Device{devices[0], nil}, swapped},
		`leaf "mean": found no stage`:               {devices, map[string]int{"w": 0, "b": 1}},
		`leaf "mean": found stage 2, wanted 0 to 1`: {devices, map[string]int{"w": 0, "b": 1, "mean": 2}},
		"stage 1 has no parameters":                 {devices, map[string]int{"w": 0, "b": 0, "mean": 1}},
		"stage 1 has no param":                      {devices, nil},
		"stage 0: other: ":                          {[]*gpu.Device{small, devices[1]}, map[string]int{"w": 1, "b": 0, "mean": 0}},
	} {
		_, err := v.Place(t.Context(), p)
		require.ErrorContains(t, err, want)
		assert.Equal(t, before, live(), want)
	}
	now, err := v.Placement()
	require.NoError(t, err)
	assert.Equal(t, Placement{devices, map[string]int{"w": 0, "b": 1, "mean": 1}}, now)
}

// A divided value lies where it is told, takes absent gradients for zero, tells what it is, and is refused what needs one device.
func TestDividedValue(t *testing.T) {
	devices := []*gpu.Device{gputest.Device(t), gputest.Device(t)}
	v := newDivided(t, devices, optimizerNamed("adamw", `{"weight_decay":0.5}`))
	p, err := v.Placement()
	require.NoError(t, err)
	same, err := v.Place(t.Context(), p)
	require.NoError(t, err)
	_, err = v.Fields()
	require.ErrorIs(t, err, ErrSpent)
	f := fieldsOf(t, same)
	require.Len(t, f.Stages, 2)
	assert.Same(t, devices[1], f.Stages[1].Other.Device())
	assert.Nil(t, f.Stages[0].Other)
	params, optimizer, other := same.Size()
	assert.Equal(t, f.Stages[0].Params.Bytes()+f.Stages[1].Params.Bytes(), params)
	assert.Equal(t, f.Stages[0].State.Bytes()+f.Stages[1].State.Bytes(), optimizer)
	assert.Equal(t, f.Stages[1].Other.Bytes(), other)
	assert.Contains(t, same.String(), "trees with 37 parameters at step 0 on 2 stages, params ")

	for operation, err := range map[string]error{
		"with":           second(same.With(func(f *Fields) { f.Step = 3 })),
		"init optimizer": second(same.InitOptimizer(optimizerNamed("lion", ""))),
		"model":          second(same.Model()),
		"merge":          second(same.Merge(f.Stages[0].Params)),
		"train":          second(Train(t.Context(), same, Config{})),
		"value":          second(New(f)),
	} {
		var wrong *FieldsError
		require.ErrorAs(t, err, &wrong, operation)
		assert.Equal(t, "Stages", wrong.Field, operation)
		assert.ErrorContains(t, err, operation)
	}
	_, err = same.ApplyGradients(t.Context(), nil)
	require.ErrorContains(t, err, "found 1 trees, wanted one for each of 2 stages")

	// The same with zeros that are there.
	zeros := upload(t, devices[0], ownTrees(0), buffers.F32)
	first := upload(t, devices[0], ownTrees(0.1)[1:], buffers.F32)
	whole, err := same.Clone(t.Context())
	require.NoError(t, err)
	whole, err = whole.Place(t.Context(), at(devices[0]))
	require.NoError(t, err)
	base := devices[1].Counters().LiveBytes
	for _, scale := range []float32{0.1, 0.3} {
		hosts := ownTrees(scale)
		clear(hosts[0].Data)
		require.NoError(t, zeros.WriteAll(hosts))
		require.NoError(t, first.WriteAll(hosts[1:]))
		same, err = same.ApplyGradients(t.Context(), first, nil)
		require.NoError(t, err)
		whole, err = whole.ApplyGradients(t.Context(), zeros)
		require.NoError(t, err)
	}
	same, err = same.ApplyGradients(t.Context(), nil, nil)
	require.NoError(t, err)
	require.NoError(t, zeros.WriteAll(ownTrees(0)))
	whole, err = whole.ApplyGradients(t.Context(), zeros)
	require.NoError(t, err)
	want, got := t.TempDir()+"/want", t.TempDir()+"/got"
	require.NoError(t, whole.Save(t.Context(), want, SaveOptions{}))
	require.NoError(t, same.Save(t.Context(), got, SaveOptions{}))
	assert.Equal(t, contents(t, want), contents(t, got))
	same.Release()
	whole.Release()
	assert.Less(t, devices[1].Counters().LiveBytes, base)
}

func second[T any](_ T, err error) error { return err }

// What training takes over where it fails half way is given back.
func TestTrainThatFailsGivesBack(t *testing.T) {
	dev := gputest.Device(t)
	c := tinyConfig(t)
	v := newValue(t, Fields{Definition: c.Definition, Params: upload(t, dev, model.Init(c.Definition, 7), buffers.F32), Optimizer: c.Optimizer, InitOptimizer: true})
	require.NoError(t, v.Save(t.Context(), t.TempDir()+"/saved", SaveOptions{})) // makes the buffer to read through
	before := dev.Counters().LiveBytes
	c.Optimizer = optimizerNamed("lion", "")
	_, err := Train(t.Context(), v, c)
	require.ErrorContains(t, err, "optimizer state of adamw as one of")
	assert.Equal(t, before, dev.Counters().LiveBytes)
	_, err = v.Fields()
	require.NoError(t, err)
}
