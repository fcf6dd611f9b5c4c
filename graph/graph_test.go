package graph

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers/array"
)

func TestShapeErrorsNameNodeFoundAndWanted(t *testing.T) {
	i32 := func(g *Graph, shape ...int) *Value { return g.Input("ids", Type{shape, array.I32}) }
	x := func(g *Graph, shape ...int) *Value { return g.Input("x", Type{shape, array.F32}) }
	cases := map[string]func(g *Graph){
		`graph: matmul "h.0.attn.c_attn": inner dimensions 128 and 64 differ, a [2 8 128], b [64 192]`: func(g *Graph) {
			g.MatMul(x(g, 2, 8, 128), g.Param("h.0.attn.c_attn.weight", 64, 192), false, false)
		},
		`graph: matmul #2: inner dimensions 4 and 3 differ, a [2 4], b [4 3] transposed`: func(g *Graph) {
			g.MatMul(x(g, 2, 4), g.Input("y", F32(4, 3)), false, true)
		},
		`graph: matmul #2: batch dimensions [2] and [3] differ`: func(g *Graph) {
			g.MatMul(x(g, 2, 4, 4), g.Input("y", F32(3, 4, 4)), false, false)
		},
		`graph: add "h.1": shapes [2 3] and [2] do not broadcast`: func(g *Graph) {
			defer g.Scope("h.1")()
			g.Add(x(g, 2, 3), g.Input("y", F32(2)))
		},
		`graph: gelu #1: unknown function "gelu", did you mean "relu"?`:  func(g *Graph) { g.Apply("gelu", x(g, 2)) },
		`graph: exp #1: input 0 is i32, want f32`:                        func(g *Graph) { g.Apply("exp", i32(g, 2)) },
		`graph: add #1: 1 inputs, want 2`:                                func(g *Graph) { g.Apply("add", x(g, 2)) },
		`graph: exp #1: arg 3, but exp takes none`:                       func(g *Graph) { g.one(Elementwise{Fn: "exp", Arg: 3}, x(g, 2)) },
		`graph: reduce #1: axis 2, want 0 to 1`:                          func(g *Graph) { g.Sum(x(g, 2, 3), 2) },
		`graph: reduce #1: axes [1 1], want them ascending`:              func(g *Graph) { g.Sum(x(g, 2, 3), 1, 1) },
		`graph: reduce #1: max over axis 0 of shape [0 3]: no elements`:  func(g *Graph) { g.Max(x(g, 0, 3), 0) },
		`graph: reshape #1: shape [2 3] has 6 elements, [4] has 4`:       func(g *Graph) { g.Reshape(x(g, 2, 3), 4) },
		`graph: reshape #1: shape [-2 -3]: dimension -2, want 0 or more`: func(g *Graph) { g.Reshape(x(g, 2, 3), -2, -3) },
		`graph: broadcast #1: shape [2 3] does not broadcast to [2 4]`:   func(g *Graph) { g.BroadcastTo(x(g, 2, 3), 2, 4) },
		`graph: transpose #1: perm [0 0] is no permutation of the axes of shape [2 3]`: func(g *Graph) {
			g.Transpose(x(g, 2, 3), 0, 0)
		},
		`graph: slice #1: start 2 length 2 of axis 1, shape [2 3]`: func(g *Graph) { g.Slice(x(g, 2, 3), 1, 2, 2) },
		`graph: pad #1: before -1 and after 0, want 0 or more`:     func(g *Graph) { g.Pad(x(g, 2, 3), 1, -1, 0) },
		`graph: concat #2: shapes [2 3] and [3 3] differ in axis 0`: func(g *Graph) {
			g.Concat(1, x(g, 2, 3), g.Input("y", F32(3, 3)))
		},
		`graph: layer_norm "ln_f": gamma has shape [4], want [3]`: func(g *Graph) {
			g.LayerNorm(x(g, 2, 3), g.Param("ln_f.weight", 4), g.Param("ln_f.bias", 3), 1e-5)
		},
		`graph: rms_norm "n": eps -1, want 0 or more`: func(g *Graph) {
			g.RMSNorm(x(g, 2, 3), g.Param("n.weight", 3), -1)
		},
		`graph: attention #1: qkv has shape [1 4 24], want [1 4 36]`: func(g *Graph) {
			g.PackedAttention(x(g, 1, 4, 24), 4, 4, 3, true)
		},
		`graph: attention #1: k has shape [1 4 12], want [1 4 6]`: func(g *Graph) {
			g.one(Attention{Heads: 4, KVHeads: 2, HeadDim: 3, Causal: true}, x(g, 1, 4, 12), x(g, 1, 4, 12), x(g, 1, 4, 12))
		},
		`graph: attention #1: heads 4, kv heads 3, head dim 3: want them positive, and heads a multiple of kv heads`: func(g *Graph) {
			g.PackedAttention(x(g, 1, 4, 30), 4, 3, 3, true)
		},
		`graph: attention #1: a window or documents, but not causal`: func(g *Graph) {
			g.one(Attention{Heads: 1, KVHeads: 1, HeadDim: 6, Packed: true, Window: 2}, x(g, 1, 4, 18))
		},
		`graph: attention #2: positions has shape [4], want [1 4]`: func(g *Graph) {
			g.one(Attention{Heads: 1, KVHeads: 1, HeadDim: 6, Packed: true, Causal: true, Documents: true}, x(g, 1, 4, 18), i32(g, 4))
		},
		`graph: rope #1: head dim 4, 3 frequencies, theta 0: want at most half of the head dim, and no theta beside them`: func(g *Graph) {
			g.one(Rope{HeadDim: 4, Frequencies: []float64{1, 2, 3}}, x(g, 1, 4, 8))
		},
		`graph: rope #1: x has shape [1 4 6], want [batch time heads*4]`: func(g *Graph) { g.Rope(x(g, 1, 4, 6), 4, 10000) },
		`graph: rope #1: head dim 3, theta 10000: want an even head dim and theta above 0`: func(g *Graph) {
			g.Rope(x(g, 1, 4, 6), 3, 10000)
		},
		`graph: embedding "wte": ids is f32, want i32`: func(g *Graph) { g.Embedding(g.Param("wte.weight", 5, 3), x(g, 2)) },
		`graph: embedding "wte": table has shape [5], want [vocab width]`: func(g *Graph) {
			g.Embedding(g.Param("wte.weight", 5), i32(g, 2))
		},
		`graph: cross_entropy #2: labels has shape [3], want [2]`: func(g *Graph) { g.CrossEntropy(x(g, 2, 5), i32(g, 3)) },
		`graph: head_loss "lm_head": weight has shape [9 4], want [vocab 5]`: func(g *Graph) {
			g.one(HeadLoss{}, x(g, 2, 5), g.Param("lm_head.weight", 9, 4), i32(g, 2))
		},
		`graph: dropout #2: p 1, want 0 or more and less than 1`: func(g *Graph) {
			g.Dropout(x(g, 2), g.Input("key", Type{[]int{2}, array.U32}), 1, 0)
		},
		`graph: param "w": shape [3], but it was [2] before`:                               func(g *Graph) { g.Param("w", 2); g.Param("w", 3) },
		`graph: input "x": f32 [3], but it was f32 [2] before`:                             func(g *Graph) { x(g, 2); x(g, 3) },
		`graph: input "x": dtype nf4, want f32, bf16, i32 or u32`:                          func(g *Graph) { g.Input("x", Type{nil, array.NF4}) },
		`graph: param "w": shape [3037000500 3037000500]: more elements than an int holds`: func(g *Graph) { g.Param("w", 3037000500, 3037000500) },
		`graph: softmax: input 0 is missing`:                                               func(g *Graph) { g.Softmax(nil) },
		`graph: softmax: input 0 (input "x") is of another graph`:                          func(g *Graph) { g.Softmax(x(New(), 2)) },
	}
	for want, build := range cases {
		g := New()
		build(g)
		assert.EqualError(t, g.Err(), want, want)
	}
}

func TestFirstErrorStaysAndBuildersGoOn(t *testing.T) {
	g := New()
	x := g.Input("x", F32(2, 3))
	bad := g.Reshape(x, 5)
	y := g.Add(g.MatMul(g.LayerNorm(bad, bad, bad, 0), x, true, true), x)
	y = g.Sum(g.Softmax(g.PackedAttention(g.Slice(g.Transpose(g.BroadcastTo(y, 2), 1), 0, 0, 1), 1, 1, 1, true)))
	g.Concat(0, y)
	assert.ErrorContains(t, g.Err(), "[2 3] has 6 elements")
	assert.Len(t, g.Nodes(), 1)
	assert.Nil(t, y.Node())
	_, err := Gradients(g, y, []*Value{x})
	assert.Equal(t, g.Err(), err)
	_, err = Eval(g, nil, y)
	assert.Equal(t, g.Err(), err)
}

func TestNamesAreUsedOnce(t *testing.T) {
	g := New()
	assert.Same(t, g.Param("w", 2, 3), g.Param("w", 2, 3))
	assert.Same(t, g.Input("x", F32(2)), g.Input("x", F32(2)))
	assert.Same(t, g.Constant(2), g.Constant(2))
	g.Param("b", 3)
	assert.Equal(t, []array.Spec{{Path: "w", Shape: []int{2, 3}}, {Path: "b", Shape: []int{3}}}, g.Parameters())
}

func TestBuildersSkipWhatDoesNothing(t *testing.T) {
	g := New()
	x := g.Input("x", F32(2, 3))
	for _, same := range []*Value{
		g.Reshape(x, 2, 3), g.BroadcastTo(x, 2, 3), g.Transpose(x, 0, 1), g.Slice(x, 1, 0, 3), g.Pad(x, 0, 0, 0), g.Concat(1, x),
	} {
		assert.Same(t, x, same)
	}
	require.NoError(t, g.Err())
}

func TestLabelsAreScopesOrFoldersOfParameters(t *testing.T) {
	g := New()
	x := g.Input("x", F32(2, 3))
	end := g.Scope("h.0")
	inner := g.Scope("mlp")
	a := g.MatMul(x, g.Param("h.0.mlp.c_fc.weight", 3, 4), false, false)
	b := g.Apply("relu", a)
	inner()
	c := g.Scale(b, 2)
	d := g.Add(c, g.Param("other.bias", 4))
	end()
	e := g.Scale(d, 2)
	for v, want := range map[*Value]string{x: "x", a: "h.0.mlp.c_fc", b: "h.0.mlp", c: "h.0", d: "h.0", e: ""} {
		assert.Equal(t, want, v.Node().Label)
	}
	grads, err := Gradients(g, g.Sum(e), []*Value{g.Param("h.0.mlp.c_fc.weight", 3, 4)})
	require.NoError(t, err)
	assert.Equal(t, "h.0.mlp.c_fc/grad", grads[0].Node().Label)
	require.NoError(t, g.Err())
}

func TestStringAndFLOPs(t *testing.T) {
	g := New()
	x := g.Input("x", F32(2, 3, 4))
	y := g.MatMul(x, g.Param("fc.weight", 5, 4), false, true)
	y = g.Scale(g.Mul(y, g.Constant(2)), 0.5)
	y = g.LayerNorm(y, g.Param("n.weight", 5), g.Param("n.bias", 5), 1e-5)
	g.Sum(y, 0)
	assert.Equal(t, `%0 = input() : f32 [2 3 4] "x"
%1 = param() : f32 [5 4] "fc.weight"
%2 = matmul(%0, %1) trans_b=true : f32 [2 3 5] "fc"
%3 = constant() 2 : f32 [] "2"
%4 = elementwise(%2, %3) fn=mul : f32 [2 3 5]
%5 = elementwise(%4) fn=scale arg=0.5 : f32 [2 3 5]
%6 = param() : f32 [5] "n.weight"
%7 = param() : f32 [5] "n.bias"
%8 = layer_norm(%5, %6, %7) eps=1e-05 : f32 [2 3 5], f32 [6 2] "n"
%9 = reduce(%8) fn=sum axes=[0] : f32 [3 5]
`, g.String())
	assert.EqualValues(t, 2*6*5*4+30+30+8*30+30, g.FLOPs())
	assert.EqualValues(t, 2*6*5*4, g.FLOPs(g.Nodes()[2].Outputs[0]))
}

func TestFLOPsOfAttentionAndHead(t *testing.T) {
	p := newProblem()
	y := p.one(Attention{Heads: 4, KVHeads: 2, HeadDim: 3, Causal: true}, p.x(2, 4, 12), p.x(2, 4, 6), p.x(2, 4, 6))
	assert.EqualValues(t, 2*4*10*(4*3+4), p.FLOPs(y))
	z := p.PackedAttention(p.x(2, 4, 24), 4, 2, 3, false)
	assert.EqualValues(t, 2*4*16*(4*3+4), p.FLOPs(z))
	window := p.one(Attention{Heads: 4, KVHeads: 4, HeadDim: 3, Packed: true, Causal: true, Window: 2}, p.x(2, 4, 36))
	assert.EqualValues(t, 2*4*7*(4*3+4), p.FLOPs(window))
	x, w := p.x(8, 3), p.x(5, 3)
	loss := p.one(HeadLoss{}, x, w, p.integers([]int{8}, 0, 1, 2, 3, 4, 0, 1, 2))
	assert.EqualValues(t, 8*5*(2*3+4), p.FLOPs(loss))
	grads, err := Gradients(p.Graph, loss, []*Value{x, w})
	require.NoError(t, err)
	assert.EqualValues(t, 8*5*(2*3+4+4*3+3), p.FLOPs(grads...))
}

func TestPackageExample(t *testing.T) {
	g := New()
	x := g.Input("x", Type{Shape: []int{8, 784}, DType: array.F32})
	h := g.Apply("relu", g.Add(g.MatMul(x, g.Param("fc1.weight", 784, 64), false, false), g.Param("fc1.bias", 64)))
	labels := g.Input("labels", Type{Shape: []int{8}, DType: array.I32})
	loss := g.Scale(g.one(HeadLoss{}, h, g.Param("fc2.weight", 10, 64), labels), 1.0/8)
	grads, err := Gradients(g, loss, []*Value{g.Param("fc1.weight", 784, 64)})
	require.NoError(t, err)
	assert.Equal(t, []int{784, 64}, grads[0].Shape())
}
