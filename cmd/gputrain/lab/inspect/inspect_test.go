package inspect

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/buffers/safetensors"
	"gputrain/kron"
	"gputrain/run/train"
)

func TestSpread(t *testing.T) {
	assert.Equal(t, Spread{1, 2.5, 9}, spread([]float64{9, 1, 2, 3}))
	assert.Equal(t, Spread{1, 2, 9}, spread([]float64{9, 1, 2}))
	assert.True(t, math.IsNaN(float64(spread(nil).Median)))
	assert.True(t, math.IsNaN(float64(spread([]float64{1, math.NaN(), 2}).Min)))
	assert.Equal(t, train.Number(math.Inf(1)), spread([]float64{1, math.Inf(1)}).Max)
}

// sample is a plan with a leaf of each kind and the state of it, all factors the identity and all estimates 2; change edits a tensor
// before it is written.
func sample(t *testing.T, change map[string]func(v []float32)) (*safetensors.File, []buffers.Spec, *kron.Plan) {
	t.Helper()
	params := []buffers.Spec{
		{Path: "z.vector", Shape: []int{5}},
		{Path: "a.dense", Shape: []int{6, 3}},
		{Path: "m.dense", Shape: []int{4, 4}},
		{Path: "tall", Shape: []int{11, 3}},
		{Path: "wide", Shape: []int{3, 11}},
		{Path: "both", Shape: []int{12, 11}},
		{Path: "scanned", Shape: []int{2, 4}},
	}
	var leaves []kron.Leaf
	for _, p := range params {
		leaves = append(leaves, kron.Leaf{Path: p.Path, Shape: p.Shape, Scanned: p.Path == "scanned"})
	}
	plan, err := kron.NewPlan(leaves, kron.Config{Method: kron.Quad, BlockSize: 4, MaxSizeDense: 10, PreconditionerLR: 0.7, InitScale: 1, DType: buffers.F32, Rules: kron.Stable()})
	require.NoError(t, err)
	require.Equal(t, 3, plan.DenseBlocks(), "4x3 and 2x3 of a.dense, 4x4 of m.dense")
	tensors := map[string]struct {
		shape  []int
		values []float32
	}{}
	add := func(name string, at func(i int) float32, shape ...int) {
		n := 1
		for _, d := range shape {
			n *= d
		}
		values := make([]float32, n)
		for i := range values {
			values[i] = at(i)
		}
		if f := change[name]; f != nil {
			f(values)
		}
		tensors[name] = struct {
			shape  []int
			values []float32
		}{shape, values}
	}
	constant := func(v float32) func(int) float32 { return func(int) float32 { return v } }
	identity := func(side int, valid ...int) func(int) float32 {
		return func(i int) float32 {
			block, r, c := i/(side*side), i/side%side, i%side
			if r == c && r < valid[block] {
				return 1
			}
			return 0
		}
	}
	add("dense/Ql", identity(4, 4, 2, 4), 3, 4, 4)
	add("dense/Qr", identity(4, 3, 3, 4), 3, 4, 4)
	add("leaf/tall/Ql", constant(1), 1, 11)
	add("leaf/tall/Qr", identity(3, 3), 1, 3, 3)
	add("leaf/wide/Ql", identity(3, 3), 1, 3, 3)
	add("leaf/wide/Qr", constant(1), 1, 11)
	add("leaf/both/Ql", constant(1), 1, 12)
	add("leaf/both/Qr", constant(1), 1, 11)
	add("leaf/z.vector/Ql", constant(1), 1, 5)
	add("leaf/scanned/Ql", constant(1), 2, 4)
	for name, n := range map[string]int{"dense/Ll": 3, "dense/Lr": 3, "leaf/tall/Ll": 1, "leaf/tall/Lr": 1, "leaf/wide/Ll": 1, "leaf/wide/Lr": 1, "leaf/both/Ll": 1, "leaf/both/Lr": 1, "leaf/z.vector/Ll": 1, "leaf/scanned/Ll": 2, "dense/rms": 3} {
		add(name, constant(2), n)
	}
	for _, p := range params {
		add("mu/"+p.Path, constant(0.5), p.Shape...)
	}
	var list []safetensors.Tensor
	for name, x := range tensors {
		list = append(list, safetensors.Float32s(name, x.shape, x.values))
	}
	list = append(list, safetensors.Int32s("dense/valid_rows", []int{3}, []int32{4, 2, 4}), safetensors.Int32s("dense/valid_cols", []int{3}, []int32{3, 3, 4}))
	var out bytes.Buffer
	require.NoError(t, safetensors.Write(&out, list, nil))
	f, err := safetensors.Parse(out.Bytes())
	require.NoError(t, err)
	return f, params, plan
}

func byPath(leaves []Leaf) map[string]Leaf {
	out := map[string]Leaf{}
	for _, l := range leaves {
		out[l.Path] = l
	}
	return out
}

func TestFreshFactorsAreWell(t *testing.T) {
	f, params, plan := sample(t, nil)
	leaves, err := Optimizer(f, params, plan)
	require.NoError(t, err)
	require.Len(t, leaves, len(params))
	for i, l := range leaves {
		assert.Equal(t, params[i].Path, l.Path, "in the model's order")
		assert.Equal(t, Spread{1, 1, 1}, l.Kron.Left.Condition, l.Path)
		assert.Equal(t, Spread{2, 2, 2}, l.Kron.Left.Lipschitz, l.Path)
		assert.Empty(t, l.Kron.ills(), l.Path)
	}
	by := byPath(leaves)
	a := by["a.dense"].Kron
	assert.Equal(t, "dense", a.Kind)
	assert.Equal(t, 2, a.Blocks)
	assert.InDelta(t, math.Sqrt(4+2), float64(a.Left.Norm), 1e-6)
	assert.InDelta(t, math.Sqrt(3+3), float64(a.Right.Norm), 1e-6)
	assert.Equal(t, &Spread{2, 2, 2}, a.GradientRMS)
	assert.InDelta(t, 2, float64(by["m.dense"].Kron.Left.Norm), 1e-6, "its own block of the stack")
	assert.Nil(t, by["z.vector"].Kron.Right)
	assert.Equal(t, 2, by["scanned"].Kron.Blocks)
	assert.Equal(t, "diagonal left", by["tall"].Kron.Kind)
	assert.InDelta(t, 0.5*math.Sqrt(18), float64(by["a.dense"].State["mu"].Norm), 1e-6)
	assert.Equal(t, train.Number(0.5), by["a.dense"].State["mu"].RMS)
	assert.Equal(t, "F32", by["a.dense"].State["mu"].DType)
}

func TestIllFactorsAreCounted(t *testing.T) {
	nan := float32(math.NaN())
	f, params, plan := sample(t, map[string]func(v []float32){
		"dense/Ll":         func(v []float32) { v[0], v[1] = 0, 5 },
		"dense/Lr":         func(v []float32) { v[0] = 0 },
		"dense/Ql":         func(v []float32) { v[16] = 100 },                                  // block 1: diag(100, 1)
		"dense/Qr":         func(v []float32) { v[2*16] = nan },                                // block 2, of m.dense
		"leaf/tall/Ql":     func(v []float32) { v[3] = 1e-3 },                                  // a thousand times smaller
		"leaf/both/Ll":     func(v []float32) { v[0] = 0 },                                     // the other side has been refreshed
		"leaf/both/Qr":     func(v []float32) { v[4] = 0 },                                     // singular
		"leaf/z.vector/Ql": func(v []float32) { v[0] = 1e8 },                                   // extreme
		"leaf/scanned/Ql":  func(v []float32) { v[0], v[1], v[2], v[3] = 1e-7, 0, 1e-7, 1e-7 }, // extreme in row 0
		"mu/wide":          func(v []float32) { v[0], v[1] = nan, float32(math.Inf(1)) },
	})
	leaves, err := Optimizer(f, params, plan)
	require.NoError(t, err)
	by := byPath(leaves)
	a := by["a.dense"].Kron
	assert.Equal(t, [3]int{1, 0, 0}, [3]int{a.NeverUpdated, a.NotFinite, a.Extreme})
	assert.InEpsilon(t, 100, float64(a.Left.Condition.Max), 1e-3)
	assert.Equal(t, train.Number(1), a.Left.Condition.Min)
	assert.Equal(t, Spread{0, 2.5, 5}, a.Left.Lipschitz)
	m := by["m.dense"].Kron
	assert.Equal(t, [3]int{0, 1, 0}, [3]int{m.NeverUpdated, m.NotFinite, m.Extreme})
	assert.True(t, math.IsNaN(float64(m.Right.Condition.Max)))
	assert.InEpsilon(t, 1000, float64(by["tall"].Kron.Left.Condition.Max), 1e-6)
	assert.True(t, math.IsInf(float64(by["both"].Kron.Right.Condition.Max), 1))
	assert.Zero(t, by["both"].Kron.NeverUpdated)
	assert.Equal(t, 1, by["z.vector"].Kron.Extreme)
	assert.Equal(t, 1, by["scanned"].Kron.Extreme)
	assert.Equal(t, 2, by["wide"].State["mu"].NonFinite)
	assert.InDelta(t, 0.5, float64(by["wide"].State["mu"].RMS), 1e-6)

	// All of it goes into the table, into JSON and into the picture.
	var table, picture bytes.Buffer
	require.NoError(t, Table(&table, leaves))
	for _, want := range []string{
		`(?m)^a\.dense +\[6 3\] +2\.12 +dense +2 +100 +2\.45 +50\.5/100 +1/1 +0/2\.5/5 +0/1/2 +1 never updated$`, `m\.dense .* 1 not finite`,
		`z\.vector +\[5\] .* vector +1 +1e\+08 +- +1e\+08/1e\+08 +- +2/2/2 +- +1 extreme`, `wide .* 2 not finite`, `both .*inf`,
	} {
		assert.Regexp(t, strings.ReplaceAll(want, "inf", `\+?[iI]nf`), table.String())
	}
	raw, err := json.Marshal(leaves)
	require.NoError(t, err)
	assert.Contains(t, string(raw), `"Infinity"`)
	require.NoError(t, Plot(&picture, "a <b>", leaves))
	for d := xml.NewDecoder(bytes.NewReader(picture.Bytes())); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else {
			require.NoError(t, err)
		}
	}
	text := picture.String()
	for _, l := range leaves {
		assert.Contains(t, text, ">"+l.Path+"</text>")
	}
	assert.Equal(t, 2, strings.Count(text, "∞"), "the diagonals with a zero")
	assert.Equal(t, 1, strings.Count(text, "✕"), "the block that is not finite")
	assert.NotContains(t, text, "NaN")
	assert.NotContains(t, text, "Inf")
	assert.Contains(t, text, ">1e+08</text>", "the largest condition is on the axis")
}

func TestWhatDoesNotFitIsRefused(t *testing.T) {
	f, params, plan := sample(t, nil)
	_, err := Optimizer(f, params[1:], plan)
	assert.ErrorContains(t, err, `"leaf/z.vector/`)
	// Another block size gives the stack other blocks.
	c := plan.Config
	c.BlockSize = 3
	var leaves []kron.Leaf
	for _, m := range plan.Leaves {
		leaves = append(leaves, m.Leaf)
	}
	other, err := kron.NewPlan(leaves, c)
	require.NoError(t, err)
	_, err = Optimizer(f, params, other)
	assert.ErrorContains(t, err, "dense/Ql: shape [3 4 4], want [")
	// The same number of blocks, of other sizes.
	leaves[0] = kron.Leaf{Path: "a.dense", Shape: []int{3, 6}}
	require.Equal(t, "a.dense", plan.Leaves[0].Path)
	turned, err := kron.NewPlan(leaves, plan.Config)
	require.NoError(t, err)
	_, err = Optimizer(f, params, turned)
	assert.ErrorContains(t, err, "dense block 0 of a.dense: not of the size")
	_, err = Optimizer(f, params, nil)
	assert.ErrorContains(t, err, `tensor "dense/Ll"`)
	assert.ErrorContains(t, Plot(io.Discard, "", []Leaf{{Path: "x"}}), "found no Kronecker factors")
}

// Without factors there is a column a slot, and no more.
func TestTableOfMoments(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, Table(&out, []Leaf{
		{Path: "w", Shape: []int{2, 3}, State: map[string]Array{"mu": {Norm: 0.25}, "v_row": {Norm: 1}}}, {Path: "b", Shape: []int{3}, State: map[string]Array{"mu": {Norm: 3}}},
	}))
	assert.Equal(t, "PARAMETER  SHAPE  MU NORM  V_ROW NORM\nw          [2 3]  0.25     1\nb          [3]    3        -\n", out.String())
}
