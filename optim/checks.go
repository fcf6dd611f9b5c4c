package optim

import (
	"cmp"
	"context"
	"fmt"

	"gputrain/buffers"
	"gputrain/buffers/prng"
	"gputrain/gpu"
)

// checked is a transformation that is held to its twin.
type checked struct {
	name      string
	tx        Transform
	tolerance float64
}

// ofRow is a registered optimizer, held to its twin as its row says.
func ofRow(o Optimizer) checked {
	tx, err := Build(o.Name, Options{Schedule: ScheduleConfig{LearningRate: 0.02}, WeightDecay: 0.1}, []byte(o.Small))
	if err != nil {
		tx = failed(o.Name, "%w", err) // comes out when the check is run
	}
	return checked{o.Name, tx, cmp.Or(o.Tolerance, singleTolerance)}
}

// Ten roundings or so of 2^-24 a call; a bf16 moment may fall to the other side of a rounding, which is one of 2^-8.
const singleTolerance, halfTolerance = 1e-5, 0x1p-6

// Checks compares every kind of fused kernel and every registered optimizer with its twin, over a small tree with leaves of odd sizes. Errors are relative
// to the largest number of a leaf.
func Checks() []gpu.Check {
	lr := WarmupCosine(warmupBegin, 0.05, 1, 4, 0.01, 1)
	adam := func(dtype string, n Numerics) Transform {
		return ScaleByAdam(Adam{B1: 0.9, B2: 0.99, Eps: 1e-8, MuDType: dtype, Nesterov: true}, n)
	}
	rate := ScaleByLearningRate(lr, PathRate{Pattern: "^b", Multiplier: 2})
	ahead, mean := &Lookahead{Scale: 0.5, Decay: 0.9, From: 1, Until: new(int64(3))}, &Averaging{From: 2, Horizon: 3, Blend: 0.6, Without: []string{"^b"}}
	all := []checked{
		{"nesterov", Chain(adam("f32", Stable), rate, AddScheduledDecay(lr, 0.1, MaskMatrices())), singleTolerance},
		{"adamw_clip", Chain(ClipByGlobalNorm(2), adam("f32", Stable), rate), singleTolerance},
		{"adamw_b2_1d", Chain(ScaleByAdam(Adam{B1: 0.8, B2: 0.9, Eps: 1e-10, B21D: new(0.997)}, Stable), rate), singleTolerance},
		{"adamw_8bit", Chain(ScaleByAdam(Adam{B1: 0.9, B2: 0.99, Eps: 1e-8, StateDType: "8bit"}, Stable), rate), 1.0 / 255},
		{"adamw_bf16_stochastic", Chain(adam("bf16", Stable), rate), halfTolerance},
		{"adamw_bf16_nearest", Chain(adam("bf16", EFormer), rate), halfTolerance},
		{"sgd_momentum", Chain(AddDecayedWeights(0.1, nil), Trace(0.9, true), rate), singleTolerance},
		{"accumulate_skip", Accumulate(2, SkipNonFinite(Chain(Trace(0.9, false), ClipStageLocal(1), rate))), singleTolerance},
		{"guard", GuardUpdates(Guard{Losses: 1, Update: true}, SkipNonFinite(Chain(Trace(0.9, false), rate))), singleTolerance},
		{"around", Options{Schedule: ScheduleConfig{LearningRate: 0.05}, SkipNonFinite: true, Lookahead: ahead, Average: mean}.assemble(lr, Chain(Trace(0.9, false), rate)), singleTolerance},
		{"route", Chain(Route(MaskMatrices(), adam("f32", Stable), Trace(0.9, false)), normalizeByLeaf(1e-6), rate), singleTolerance},
	}
	for _, by := range []string{floorByRow, floorByMatrix} {
		all = append(all, checked{"land_by_" + by, landing(by), singleTolerance})
	}
	for _, o := range rows() {
		all = append(all, ofRow(o))
	}
	var checks []gpu.Check
	for _, c := range all {
		checks = append(checks, gpu.Check{Name: "optim." + c.name, Run: func(ctx context.Context, d *gpu.Device) (gpu.Result, error) {
			r, err := follow(ctx, d, c.tx)
			r.Tolerance = c.tolerance
			if err != nil {
				return r, fmt.Errorf("optim: check %s: %w", c.name, err)
			}
			return r, nil
		}})
	}
	return checks
}

// landing is an optimizer that floors all matrices, and keeps some on spheres.
func landing(by string) Transform {
	tx, err := Build("adamw", Options{
		Schedule: ScheduleConfig{LearningRate: 0.02}, WeightDecay: 0.3, CautiousDecay: true, UpdateFloor: 1.1, FloorBy: by, Hyperball: Hyperball{Mask: MaskPatterns("[cdfg]")},
	}, nil)
	if err != nil {
		tx = failed("land", "%w", err)
	}
	return tx
}

// follow runs four calls on the device and in the twin.
func follow(ctx context.Context, d *gpu.Device, tx Transform) (gpu.Result, error) {
	var result gpu.Result
	draw := func(call uint32) []buffers.Host {
		key := prng.NewKey(7).FoldIn(call)
		var out []buffers.Host
		for i, shape := range [][]int{{}, {129}, {7, 33}, {3, 1, 700}, {8, 20}, {20, 8}, {70, 61}} {
			h := buffers.Host{Path: string(rune('a' + i)), Shape: shape, Data: make([]float32, buffers.Leaf{Shape: shape}.Elements())}
			for k := range h.Data {
				h.Data[k] = key.FoldIn(uint32(i)).Normal(uint64(k))
			}
			out = append(out, h)
		}
		return out
	}
	start := draw(0)
	params, err := buffers.Upload(d, "optim.check.params", start, buffers.F32)
	if err != nil {
		return result, err
	}
	defer params.Release()
	grads, err := buffers.NewTree(d, "optim.check.grads", params.Layout(), buffers.F32)
	if err != nil {
		return result, err
	}
	defer grads.Release()
	whole := specs(params.Layout().Leaves())
	for i := range whole { // rows of some lie across, in fours and in ones
		whole[i].InOut = whole[i].Path == "e" || whole[i].Path == "g"
	}
	s, err := tx.InitStage(params, whole)
	if err != nil {
		return result, err
	}
	defer s.Release()
	twin, err := NewTwin(tx, start, whole...)
	if err != nil {
		return result, err
	}
	for call := uint32(1); call <= 4; call++ {
		g := draw(call)
		rec := d.Record("gputrain.optim.check")
		if err := grads.WriteAll(g); err != nil {
			return result, err
		}
		phase, err := s.Prepare()
		if err != nil {
			return result, err
		}
		if err := tx.Record(rec, phase, grads, s, params); err != nil {
			return result, err
		}
		if err := rec.Submit(ctx); err != nil {
			return result, err
		}
		if err := twin.Update(g); err != nil {
			return result, err
		}
		got, err := params.Download(ctx)
		if err != nil {
			return result, err
		}
		for i, w := range twin.Params() {
			result.Compare(fmt.Sprintf("call %d params/%s", call, w.Path), got[i].Data, w.Data)
		}
		want := map[string]buffers.Host{}
		for _, h := range twin.Tensors() {
			want[h.Path] = h
		}
		for _, tensor := range s.Tensors() {
			values, err := tensor.Floats(ctx)
			if err != nil {
				return result, err
			}
			w, ok := want[tensor.Name]
			if !ok || len(values) != len(w.Data) {
				return result, fmt.Errorf("tensor %q: found %d numbers, wanted the twin's %d", tensor.Name, len(values), len(w.Data))
			}
			result.Compare(fmt.Sprintf("call %d/%s", call, w.Path), values, w.Data)
		}
	}
	return result, nil
}
