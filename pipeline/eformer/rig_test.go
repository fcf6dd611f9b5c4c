package eformer_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/internal/gputest"
	"gputrain/optim"
	"gputrain/pipeline/eformer"
	"gputrain/state"
)

// quad are parameters with which Quad goes through its paths on small leaves.
const quad = `{"block_size":32,"max_size_dense":100,"refresh":{"every":2}}`

// stageLocalModel has equal shapes that lie apart, a leaf that is split over slabs, and leaves of one element and none.
var stageLocalModel = []buffers.Spec{
	{Path: "a.weight", Shape: []int{40, 33}},
	{Path: "b.bias", Shape: []int{130}},
	{Path: "c.weight", Shape: []int{33, 40}},
	{Path: "d.scale"},
	{Path: "e.empty", Shape: []int{0, 3}},
	{Path: "f.weight", Shape: []int{40, 33}},
	{Path: "g.tall", Shape: []int{250, 9}},
	{Path: "h.four", Shape: []int{2, 3, 4, 5}},
}

// stageLocalLimits make several slabs of the model.
var stageLocalLimits = gputest.WithLimits(gpu.Limits{BindingBytes: 8 << 10, Workgroups: 9})

func stageLocal(t testing.TB, name string, o optim.Options, parameters string) eformer.StageLocal {
	tx, err := eformer.NewStageLocal(optim.Config{Name: name, Options: o, Parameters: []byte(parameters)}, nil)
	require.NoError(t, err)
	return tx
}

// draw is numbers for every leaf of the model.
func draw(r *rand.Rand, scale float64) []buffers.Host {
	var out []buffers.Host
	for _, s := range stageLocalModel {
		h := buffers.Host{Path: s.Path, Shape: s.Shape, Data: make([]float32, buffers.Leaf{Shape: s.Shape}.Elements())}
		for i := range h.Data {
			h.Data[i] = float32(scale * r.NormFloat64())
		}
		out = append(out, h)
	}
	return out
}

// staged is a model divided over devices.
type staged struct {
	t      testing.TB
	tx     eformer.StageLocal
	of     map[string]int
	stages []state.Resident
}

// newStaged puts stage i on device i, modulo the devices.
func newStaged(t testing.TB, devices []*gpu.Device, tx eformer.StageLocal, params []buffers.Host, division []int) *staged {
	s := &staged{t: t, tx: tx, of: map[string]int{}}
	for i, h := range params {
		s.of[h.Path] = division[i]
	}
	for i := range slices.Max(division) + 1 {
		tree, err := buffers.Upload(devices[i%len(devices)], "params", s.on(i, params), buffers.F32)
		require.NoError(t, err)
		grads, err := buffers.NewTree(tree.Device(), "grads", tree.Layout(), buffers.F32)
		require.NoError(t, err)
		opt, err := tx.InitStage(tree, stageLocalModel)
		require.NoError(t, err)
		s.stages = append(s.stages, state.Resident{Params: tree, Grads: grads, State: opt})
	}
	t.Cleanup(s.release)
	return s
}

func (s *staged) release() {
	for _, r := range s.stages {
		r.Params.Release()
		r.State.Release()
		r.Grads.Release()
	}
}

func (s *staged) on(stage int, all []buffers.Host) []buffers.Host {
	return slices.DeleteFunc(slices.Clone(all), func(h buffers.Host) bool { return s.of[h.Path] != stage })
}

func (s *staged) write(grads []buffers.Host) {
	for i, r := range s.stages {
		require.NoError(s.t, r.Grads.WriteAll(s.on(i, grads)))
	}
}

func (s *staged) call(grads []buffers.Host) {
	s.write(grads)
	require.NoError(s.t, s.tx.ApplyGradientsStageLocal(s.t.Context(), eformer.Application{Stages: s.stages}))
}

// bits is params and state by name, whatever the division, as they are stored.
func (s *staged) bits() map[string][]byte {
	out := map[string][]byte{}
	var tensors []buffers.Tensor
	for _, r := range s.stages {
		for _, leaf := range r.Params.Layout().Leaves() {
			raw, err := r.Params.ReadRaw(s.t.Context(), leaf.Path)
			require.NoError(s.t, err)
			out["params/"+leaf.Path] = raw
		}
		tensors = append(tensors, r.State.Tensors()...)
	}
	joined, err := buffers.Join(tensors)
	require.NoError(s.t, err)
	for _, tensor := range joined {
		raw, err := tensor.Read(s.t.Context())
		require.NoError(s.t, err)
		out[tensor.Name] = raw
	}
	return out
}

func (s *staged) params() []buffers.Host {
	var out []buffers.Host
	for _, spec := range stageLocalModel {
		r := s.stages[s.of[spec.Path]]
		data, err := r.Params.Read(s.t.Context(), spec.Path)
		require.NoError(s.t, err)
		out = append(out, buffers.Host{Path: spec.Path, Shape: spec.Shape, Data: data})
	}
	return out
}

// statistics are those of every stage, which have to be alike.
func (s *staged) statistics() optim.Statistics {
	var first optim.Statistics
	for i, r := range s.stages {
		data := make([]byte, optim.StatisticsBytes)
		from := r.State.Statistics()
		require.NoError(s.t, r.Params.Device().Read(s.t.Context(), data, from.Buffer.Range(from.Offset, optim.StatisticsBytes)))
		got, err := optim.ParseStatistics(data)
		require.NoError(s.t, err)
		if i == 0 {
			first = got
		}
		require.Equal(s.t, fmt.Sprint(first), fmt.Sprint(got), "stage %d", i)
	}
	return first
}

// wholeTree is the model on one device, updated by recordings of the whole.
type wholeTree struct {
	*staged
	programs map[optim.Phase]*gpu.Program
}

func newWhole(t testing.TB, d *gpu.Device, tx eformer.StageLocal, params []buffers.Host) *wholeTree {
	w := &wholeTree{newStaged(t, []*gpu.Device{d}, tx, params, make([]int, len(params))), map[optim.Phase]*gpu.Program{}}
	r := w.stages[0]
	for _, phase := range r.State.Phases() {
		rec := d.Record("whole")
		require.NoError(t, tx.Record(rec, phase, r.Grads, r.State, r.Params))
		p, err := rec.Program(t.Context())
		require.NoError(t, err)
		t.Cleanup(p.Release)
		w.programs[phase] = p
	}
	return w
}

func (w *wholeTree) call(grads []buffers.Host) {
	w.write(grads)
	phase, err := w.stages[0].State.Prepare()
	require.NoError(w.t, err)
	require.NoError(w.t, w.programs[phase].Submit(w.t.Context()))
}

func sameState(t testing.TB, want, got map[string][]byte) {
	require.Len(t, got, len(want))
	for name, bits := range want {
		require.Equal(t, bits, got[name], name)
	}
}

func several(t testing.TB, n int) []*gpu.Device {
	var out []*gpu.Device
	for range n {
		out = append(out, gputest.Device(t, stageLocalLimits))
	}
	return out
}
