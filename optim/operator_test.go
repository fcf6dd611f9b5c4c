package optim

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/internal/gputest"
	"gputrain/kron"
)

// summing is an operator that is easy to know: its state is the sum of all updates of its leaves, and so is its output. On the
// even updates it reuses: the output is the sum as it was.
type summing struct{}

type summingTwin struct {
	Scene
	sums [][]float64
}

func (summing) Cost() Cost { return Cost{StateBytes: 4, TrafficBytes: 16, FLOPs: 1} }

func (summing) Twin(s Scene) (OperatorTwin, error) {
	w := &summingTwin{Scene: s}
	for _, l := range s.Leaves {
		w.sums = append(w.sums, make([]float64, l.Elements()))
	}
	return w, nil
}

func (w *summingTwin) Update(t int64, u, _ [][]float64, skip bool) {
	for leaf := range u {
		if !w.Chosen[leaf] {
			continue
		}
		for i, x := range u[leaf] {
			sum := w.sums[leaf][i]
			if t%2 == 1 {
				sum += x
			}
			u[leaf][i] = sum
			if !skip {
				w.sums[leaf][i] = store(sum, buffers.F32)
			}
		}
	}
}

func (w *summingTwin) Tensors() []buffers.Host {
	var out []buffers.Host
	for i, l := range w.Leaves {
		if w.Chosen[i] {
			h := buffers.Host{Path: "sum/" + l.Path, Shape: l.Shape}
			for _, x := range w.sums[i] {
				h.Data = append(h.Data, float32(x))
			}
			out = append(out, h)
		}
	}
	return out
}

type summingState struct {
	Scene
	sum *buffers.Tree
	in  *buffers.Tree // 1 where the leaf is chosen
}

func (summing) Open(s Scene) (Operation, error) {
	sum, err := buffers.NewTree(s.Device, "sum", s.Layout, buffers.F32)
	if err != nil {
		return nil, err
	}
	in, err := buffers.NewTree(s.Device, "in", s.Layout, buffers.F32)
	if err != nil {
		return nil, err
	}
	for _, l := range s.Leaves {
		data := make([]float32, l.Elements())
		for i := range data {
			if s.Chosen[l.Index] {
				data[i] = 1
			}
		}
		if err := in.Write(l.Path, data); err != nil {
			return nil, err
		}
	}
	return &summingState{s, sum, in}, nil
}

func (s *summingState) Reuses() bool                  { return true }
func (s *summingState) Prepare(t int64) (bool, error) { return t%2 == 0, nil }
func (s *summingState) Bytes() uint64                 { return s.sum.Bytes() + s.in.Bytes() }
func (s *summingState) Release()                      { s.sum.Release(); s.in.Release() }
func (s *summingState) Record(rec *gpu.Recording, c OperatorCall) {
	if !c.Reuse {
		// Without a kernel of its own it cannot obey the flag: the tests below let it see no skipped update.
		_ = buffers.Map(rec, s.sum, "a + b * c", s.sum, c.Updates, s.in)
	}
	_ = buffers.Map(rec, c.Updates, "select(a, b, c != vec4<f32>(0.0))", c.Updates, s.sum, s.in)
}

func (s *summingState) Tensors() []buffers.Tensor {
	var out []buffers.Tensor
	for _, l := range s.Leaves {
		if s.Chosen[l.Index] {
			out = append(out, s.sum.Tensor("sum/"+l.Path, l))
		}
	}
	return out
}

// normalized divides by the leaf's root mean square plus a hundredth of the parameter's.
func normalized() Transform {
	return Elementwise(Element{
		Name: "normalized", FLOPs: 4,
		WGSL: "u = u / (sqrt($leaf_squares / $leaf_elements) + 0.01 * sqrt($param_squares / $leaf_elements));",
		Twin: func(c *Cell) {
			c.U /= math.Sqrt(c.LeafSquares/c.LeafElements) + 0.01*math.Sqrt(c.ParamSquares/c.LeafElements)
		},
	})
}

func sum() Transform { return Operate("sum", summing{}) }

var mixedSpecs = []buffers.Spec{{Path: "b", Shape: []int{129}}, {Path: "m", Shape: []int{7, 33}}, {Path: "s"}, {Path: "w", Shape: []int{3, 1, 900}}, {Path: "z", Shape: []int{0, 4}}}

func TestSegmentsRoutesAndSumsFollowTheTwin(t *testing.T) {
	adam := ScaleByAdam(Adam{B1: 0.9, B2: 0.99, Eps: 1e-8, MuDType: "bf16"}, Stable)
	trace, rate := Trace(0.9, true), ScaleByLearningRate(Constant(0.05))
	matrices := MaskMatrices()
	small := func(t *testing.T, d *gpu.Device, name string, tx Transform, calls int) {
		t.Run(name, func(t *testing.T) {
			followTwin(t, d, tx, mixedSpecs, calls, tolerance{share: 1e-6}, tolerance{share: 0x1p-7})
		})
	}
	limits := gpu.Limits{BindingBytes: 4 * 1024}
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		small(t, d, "sums", Chain(normalized(), rate), 3)
		ema := EMA(EMAOptions{Decay: 0.9, Debias: true})
		small(t, d, "leaf norms", Chain(ema, normalizeByLeaf(1e-6), Scale(40), ClipByLeafRMS(1.1), rate), 4)
		small(t, d, "means", Chain(EMA(EMAOptions{Decay: 0.5}), EMA(EMAOptions{Decay: 0.9, Debias: true, DType: buffers.BF16}), EMA(EMAOptions{Decay: 0.95, DType: buffers.BF16, Numerics: EFormer}), rate), 3)
		small(t, d, "sums behind state", Chain(trace, normalized(), Scale(2), normalized(), rate), 3)
		small(t, d, "route", Chain(Route(matrices, adam, trace), rate), 4)
		small(t, d, "route of routes", Chain(Route(matrices, Route(MaskPatterns("w"), trace, adam), Scale(0.5)), rate), 4)
		small(t, d, "operator", Chain(trace, sum(), adam, rate), 4)
		small(t, d, "operator first and last", Chain(sum(), rate, sum()), 4)
		small(t, d, "two operators, a norm between", Chain(sum(), ClipByGlobalNorm(1), sum(), normalized(), rate), 4)
		small(t, d, "operator on a route", Chain(Route(matrices, Chain(trace, sum(), normalized()), adam), rate), 5)
		small(t, d, "accumulated", Accumulate(2, Chain(ClipByGlobalNorm(1), Route(MaskPatterns("m"), sum(), trace), rate)), 6)
		small(t, d, "initial", Chain(Elementwise(Element{
			Name: "initial", Slots: []Slot{{Name: "x", Initial: 2.5}}, WGSL: "$x = $x + u; u = $x;",
			Twin: func(c *Cell) { c.Slots[0] += c.U; c.U = c.Slots[0] },
		}), rate), 2)
	}, gputest.WithLimits(limits))
}

func TestReuseIsAPhaseOfItsOwn(t *testing.T) {
	d := gpu.Dry(gpu.DefaultLimits())
	params, err := buffers.Upload(d, "params", randomTree(rand.New(rand.NewPCG(1, 1)), mixedSpecs, 1), buffers.F32)
	require.NoError(t, err)
	s, err := Accumulate(2, sum()).Init(params)
	require.NoError(t, err)
	assert.Equal(t, []Phase{Collect, Emit, Reuse}, s.Phases())
	var seen []Phase
	for range 6 {
		phase, err := s.Prepare()
		require.NoError(t, err)
		seen = append(seen, phase)
	}
	assert.Equal(t, []Phase{Collect, Reuse, Collect, Emit, Collect, Reuse}, seen)
	plain := Scale(2)
	s, err = plain.Init(params)
	require.NoError(t, err)
	assert.ErrorContains(t, plain.Record(d.Record("x"), Reuse, params, s, params), "nothing to reuse")
}

func TestRouteRefuses(t *testing.T) {
	for want, tx := range map[string]Transform{
		"takes a norm of all leaves":   Route(MaskMatrices(), ClipByGlobalNorm(1), Scale(1)),
		"mask: found none":             Route(nil, Scale(1), Scale(1)),
		"trace: decay: found 2":        Route(MaskMatrices(), Scale(1), Trace(2, false)),
		"found accumulate(scale) insi": Route(MaskMatrices(), Accumulate(2, Scale(1)), Scale(1)),
	} {
		_, err := newPlan(tx)
		assert.ErrorContains(t, err, want)
	}
	_, err := NewTwin(Route(MaskPatterns("nothing"), Scale(1), Scale(2)), randomTree(rand.New(rand.NewPCG(1, 1)), mixedSpecs, 1))
	assert.ErrorContains(t, err, `"nothing": matches none`)
}

// The pieces of an update are cut after the pairs of each norm, also where operators and norms of leaves stand before
// it.
func TestRoundsAreCutAtNorms(t *testing.T) {
	d := gpu.Dry(gpu.DefaultLimits())
	params, err := buffers.Upload(d, "params", randomTree(rand.New(rand.NewPCG(1, 1)), mixedSpecs, 1), buffers.F32)
	require.NoError(t, err)
	grads, err := buffers.NewTree(d, "grads", params.Layout(), buffers.F32)
	require.NoError(t, err)
	dispatches := func(record func(rec *gpu.Recording) error) string {
		rec := d.Record("x")
		require.NoError(t, record(rec))
		var names []string
		for _, line := range strings.Split(rec.String(), "\n") {
			if fields := strings.Fields(line); len(fields) > 2 && fields[1] == "dispatch" {
				names = append(names, fields[2][strings.LastIndex(fields[2], ".")+1:])
			}
		}
		return strings.Join(names, " ")
	}
	const sums = "norm norm_leaf norm norm_leaf"
	for _, c := range []struct {
		tx          Transform
		emit, reuse []string
	}{
		{Scale(1), []string{"update"}, nil},
		{
			Chain(ClipByGlobalNorm(1), sum(), normalized()),
			[]string{"norm norm_leaf", "norm_total update map map " + sums + " update"},
			[]string{"norm norm_leaf", "norm_total update map " + sums + " update"},
		},
		{
			Chain(normalized(), ClipByGlobalNorm(1), sum(), ClipByGlobalNorm(1)),
			[]string{sums + " norm norm_leaf", "norm_total update map map norm norm_leaf", "norm_total update"},
			[]string{sums + " norm norm_leaf", "norm_total update map norm norm_leaf", "norm_total update"},
		},
		{Chain(normalizeByLeaf(1), ClipByGlobalNorm(1)), []string{"norm norm_leaf norm norm_leaf", "norm_total update"}, nil},
		{Chain(globalNorm(), normalizeByLeaf(1)), []string{"norm norm_leaf", "norm_total update"}, nil},
	} {
		s, err := c.tx.Init(params)
		require.NoError(t, err)
		require.Equal(t, len(c.emit), s.Rounds())
		for phase, want := range map[Phase][]string{Emit: c.emit, Reuse: c.reuse} {
			for round := range want {
				assert.Equal(t, want[round], dispatches(func(rec *gpu.Recording) error { return c.tx.RecordRound(rec, phase, round, grads, s, params) }))
			}
			if want != nil {
				assert.Equal(t, strings.Join(want, " "), dispatches(func(rec *gpu.Recording) error { return c.tx.Record(rec, phase, grads, s, params) }))
			}
		}
	}
}

// The first debiased mean is the update itself, and a leaf is limited as a whole: algebra on the twin.
func TestEMAAndLeafNorms(t *testing.T) {
	one := func(tx Transform, data ...float32) []float32 {
		h := buffers.Host{Path: "w", Shape: []int{len(data)}, Data: make([]float32, len(data))}
		twin, err := NewTwin(tx, []buffers.Host{h})
		require.NoError(t, err)
		h.Data = data
		require.NoError(t, twin.Update([]buffers.Host{h}))
		return twin.Params()[0].Data
	}
	assert.InDeltaSlice(t, []float32{3, -4}, one(EMA(EMAOptions{Decay: 0.95, Debias: true}), 3, -4), 1e-6)
	assert.InDeltaSlice(t, []float32{0.15, -0.2}, one(EMA(EMAOptions{Decay: 0.95}), 3, -4), 1e-6)
	assert.InDeltaSlice(t, []float32{0.6, -0.8}, one(normalizeByLeaf(1e-6), 3, -4), 1e-6)
	assert.InDeltaSlice(t, []float32{3, -4}, one(ClipByLeafRMS(4), 3, -4), 1e-6)
	assert.InDeltaSlice(t, []float32{3 * math.Sqrt2 / 5, -4 * math.Sqrt2 / 5}, one(ClipByLeafRMS(1), 3, -4), 1e-6)
	for want, tx := range map[string]Transform{
		"ema: decay: found 1":            EMA(EMAOptions{Decay: 1}),
		"ema: dtype: found u32":          EMA(EMAOptions{DType: buffers.U32}),
		"clip_by_leaf_rms: limit: found": ClipByLeafRMS(0),
		"normalize_by_leaf: eps: found":  normalizeByLeaf(0),
	} {
		_, err := newPlan(tx)
		assert.ErrorContains(t, err, want)
	}
}

func TestCostOfARouteIsThatOfItsMask(t *testing.T) {
	adam := ScaleByAdam(Adam{B1: 0.9, B2: 0.99}, Stable)
	both := Chain(Route(MaskMatrices(), Chain(Trace(0.9, false), sum()), adam), Scale(2)).Cost()
	// Gradient, params twice, the trace twice, the update stored and loaded again, and what the operator says of itself.
	assert.Equal(t, Cost{StateBytes: 4 + 4, TrafficBytes: 12 + 8 + 8 + 16, FLOPs: 2 + 1 + 1 + 1}, both)
	assert.Equal(t, adam.Cost().StateBytes, Route(MaskMatrices(), adam, Trace(0.9, false)).Cost().StateBytes)
	// A sum by leaf reads the gradient once more, and the state of the elements before it.
	assert.Equal(t, 12.0+8+4+4+4, Chain(Trace(0.9, false), normalized()).Cost().TrafficBytes)
}

// An operator of package kron on a route has the plan of the route's leaves alone; the others take the other way.
func TestKronOnARoute(t *testing.T) {
	c := Kron{B1: 0.9, BlockSize: 16, MaxSizeDense: 300, PreconditionerLR: 0.7, InitScale: 1, Damping: 0.03, Refresh: kron.DefaultCadence()}
	tx := Chain(Route(MaskMatrices(), ScaleByKron(kron.Quad, c, Stable), Trace(0.9, false)), ScaleByLearningRate(Constant(0.006)))
	r, err := follow(t.Context(), gputest.Device(t), tx)
	require.NoError(t, err)
	assert.LessOrEqual(t, r.MaxError, 2e-4, r.Worst)
}
