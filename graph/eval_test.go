package graph

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers/array"
	"gputrain/buffers/prng"
)

// evaluate gives the values with the numbers of the problem.
func (p *problem) evaluate(t *testing.T, want ...*Value) []*Array {
	t.Helper()
	got, err := Eval(p.Graph, p.feeds, want...)
	require.NoError(t, err)
	return got
}

// TestOperationsFromSimplerOnes compares operations with the same mathematics put together from simpler operations.
func TestOperationsFromSimplerOnes(t *testing.T) {
	column := func(p *problem, x *Value) *Value { return p.Reshape(x, append(append([]int{}, x.Shape()...), 1)...) }
	attention := func(p *problem, q, k, v *Value, causal bool) *Value { // one head of [T,D]
		n, d := q.Shape()[0], q.Shape()[1]
		scores := p.Scale(p.MatMul(q, k, false, true), 1/math.Sqrt(float64(d)))
		if causal {
			mask := p.fixed(func() float64 { return 0 }, n, n)
			for i := range n {
				for j := i + 1; j < n; j++ {
					p.feeds[mask.node.Op.(Input).Name].Data[i*n+j] = -1e9
				}
			}
			scores = p.Add(scores, mask)
		}
		return p.MatMul(p.Softmax(scores), v, false, false)
	}
	for name, build := range map[string]func(p *problem) (got, want *Value){
		"softmax": func(p *problem) (*Value, *Value) {
			x := p.x(3, 5)
			e := p.Apply("exp", x)
			return p.Softmax(x), p.Div(e, column(p, p.Sum(e, 1)))
		},
		"layer norm": func(p *problem) (*Value, *Value) {
			x, gamma, beta := p.x(3, 6), p.x(6), p.x(6)
			c := p.Sub(x, column(p, p.Mean(x, 1)))
			rstd := p.Apply("rsqrt", p.AddConst(p.Mean(p.Apply("square", c), 1), 0.1))
			return p.LayerNorm(x, gamma, beta, 0.1), p.Add(p.Mul(p.Mul(c, column(p, rstd)), gamma), beta)
		},
		"rms norm": func(p *problem) (*Value, *Value) {
			x, gamma := p.x(3, 6), p.x(6)
			rstd := p.Apply("rsqrt", p.AddConst(p.Mean(p.Mul(x, x), 1), 0.1))
			return p.RMSNorm(x, gamma, 0.1), p.Mul(p.Mul(x, column(p, rstd)), gamma)
		},
		"attention": func(p *problem) (*Value, *Value) {
			q, k, v := p.x(1, 4, 3), p.x(1, 4, 3), p.x(1, 4, 3)
			m := func(x *Value) *Value { return p.Reshape(x, 4, 3) }
			return m(p.one(Attention{Heads: 1, KVHeads: 1, HeadDim: 3}, q, k, v)), attention(p, m(q), m(k), m(v), false)
		},
		"attention grouped": func(p *problem) (*Value, *Value) { // heads 0 and 1 share the first key and value head
			q, k, v := p.x(1, 4, 12), p.x(1, 4, 6), p.x(1, 4, 6)
			var out []*Value
			for h := range 4 {
				part := func(x *Value, i int) *Value { return p.Slice(p.Reshape(x, 4, x.Shape()[2]), 1, 3*i, 3) }
				out = append(out, attention(p, part(q, h), part(k, h/2), part(v, h/2), true))
			}
			return p.Reshape(p.one(Attention{Heads: 4, KVHeads: 2, HeadDim: 3, Causal: true}, q, k, v), 4, 12), p.Concat(1, out...)
		},
		"packed attention": func(p *problem) (*Value, *Value) {
			q, k, v := p.x(2, 4, 12), p.x(2, 4, 6), p.x(2, 4, 6)
			return p.PackedAttention(p.Concat(2, q, k, v), 4, 2, 3, true), p.one(Attention{Heads: 4, KVHeads: 2, HeadDim: 3, Causal: true}, q, k, v)
		},
		"attention of a cap, a scale, a window and documents": func(p *problem) (*Value, *Value) {
			q, k, v := p.x(1, 5, 3), p.x(1, 5, 3), p.x(1, 5, 3)
			m := func(x *Value) *Value { return p.Reshape(x, 5, 3) }
			scores := p.Scale(p.Apply("tanh", p.Scale(p.MatMul(m(q), m(k), false, true), 0.7/1.5)), 1.5)
			mask := p.fixed(func() float64 { return -1e9 }, 5, 5)
			for i, seen := range [][]int{{0}, {1}, {1, 2}, {2, 3}, {4}} { // documents of 1, 3 and 1, two keys at most
				for _, j := range seen {
					p.feeds[mask.node.Op.(Input).Name].Data[5*i+j] = 0
				}
			}
			op := Attention{Heads: 1, KVHeads: 1, HeadDim: 3, Causal: true, Scale: 0.7, Cap: 1.5, Window: 2, Documents: true}
			return m(p.one(op, q, k, v, p.integers([]int{1, 5}, 0, 0, 1, 2, 0))), p.MatMul(p.Softmax(p.Add(scores, mask)), m(v), false, false)
		},
		"convolution": func(p *problem) (*Value, *Value) {
			x, w := p.x(1, 4, 3), p.x(3, 2)
			shifted := p.Pad(p.Slice(x, 1, 0, 3), 1, 1, 0)
			tap := func(j int) *Value { return p.Reshape(p.Slice(w, 1, j, 1), 3) }
			return p.one(Convolution{}, x, w), p.Add(p.Mul(x, tap(1)), p.Mul(shifted, tap(0)))
		},
		"gated delta": func(p *problem) (*Value, *Value) { // two tokens, written down
			q, k, v, g, beta := p.x(1, 2, 3), p.x(1, 2, 3), p.x(1, 2, 2), p.Apply("neg", p.positive(1, 2, 1)), p.positive(1, 2, 1)
			of := func(x *Value, i int) *Value { return p.Reshape(p.Slice(x, 1, i, 1), 1, x.Shape()[2]) }
			state := p.fixed(func() float64 { return 0 }, 3, 2)
			var out []*Value
			for i := range 2 {
				state = p.Mul(state, p.Apply("exp", of(g, i)))
				u := p.Mul(of(beta, i), p.Sub(of(v, i), p.MatMul(of(k, i), state, false, false)))
				state = p.Add(state, p.MatMul(of(k, i), u, true, false))
				out = append(out, p.MatMul(of(q, i), state, false, false))
			}
			return p.Reshape(p.one(GatedDelta{Heads: 1, KeyHeads: 1, KeyDim: 3, ValueDim: 2, Chunk: 8}, q, k, v, g, beta), 2, 2), p.Concat(0, out...)
		},
		"cached convolution and delta": func(p *problem) (*Value, *Value) { // two rows side by side, in two passes, tokens in no order
			x, w := p.x(2, 5, 2), p.x(2, 4)
			op := GatedDelta{Heads: 2, KeyHeads: 1, KeyDim: 2, ValueDim: 1, Chunk: 8}
			in := func(y *Value) []*Value {
				return []*Value{y, y, y, p.Apply("neg", p.Apply("abs", y)), p.Apply("sigmoid", y)}
			}
			want := p.one(op, in(p.one(Convolution{}, x, w))...)
			cache, state := p.fixed(p.random.NormFloat64, 3, 3, 2), p.fixed(p.random.NormFloat64, 3, 2, 2, 1)
			pass := func(rows, positions []float64, tokens ...*Value) *Value {
				row, at := p.integers([]int{1, len(rows)}, rows...), p.integers([]int{1, len(rows)}, positions...)
				c := p.Append(CachedConvolution{}, cache, row, at, p.Concat(1, tokens...), w)
				d := p.Append(CachedDelta(op), append([]*Value{state, row, at}, in(c.Outputs[0])...)...)
				cache, state = c.Outputs[1], d.Outputs[1]
				return d.Outputs[0]
			}
			of := func(x *Value, row, i int) *Value { return p.Slice(p.Slice(x, 0, row, 1), 1, i, 1) }
			a := pass([]float64{2, 0, -1, 2}, []float64{1, 0, 0, 0}, of(x, 1, 1), of(x, 0, 0), of(x, 0, 3), of(x, 1, 0))
			b := pass([]float64{0, 2, 0, 0, 0, 2, 2}, []float64{1, 2, 2, 3, 4, 3, 4}, of(x, 0, 1), of(x, 1, 2), of(x, 0, 2), of(x, 0, 3), of(x, 0, 4), of(x, 1, 3), of(x, 1, 4))
			return p.Concat(1, of(a, 0, 0), of(a, 0, 1), of(a, 0, 3), b), p.Concat(1, of(want, 1, 1), of(want, 0, 0), of(want, 1, 0),
				of(want, 0, 1), of(want, 1, 2), of(want, 0, 2), of(want, 0, 3), of(want, 0, 4), of(want, 1, 3), of(want, 1, 4))
		},
		"cached attention": func(p *problem) (*Value, *Value) { // three rows, then two: the cache begins with what nobody sees
			op := Attention{Heads: 4, KVHeads: 2, HeadDim: 3, Causal: true, Scale: 0.4, Cap: 2, Window: 3}
			qkv := []*Value{p.x(2, 5, 12), p.x(2, 5, 6), p.x(2, 5, 6)}
			cache := p.fixed(p.random.NormFloat64, 2, 7, 12)
			piece := func(cache *Value, first, n int) *Node {
				in := []*Value{cache, p.integers([]int{2, n}, slices.Repeat([]float64{0, 1, 2, 3, 4}[first:first+n], 2)...)}
				for _, x := range qkv {
					in = append(in, p.Slice(x, 1, first, n))
				}
				return p.Append(CachedAttention(op), in...)
			}
			a := piece(cache, 0, 3)
			b := piece(a.Outputs[1], 3, 2)
			return p.Concat(1, a.Outputs[0], b.Outputs[0]), p.one(op, qkv...)
		},
		"cache of packed rows": func(p *problem) (*Value, *Value) { // a row for each key and value, in the order of the positions
			k, v, cache := p.x(1, 2, 6), p.x(1, 2, 6), p.fixed(p.random.NormFloat64, 1, 4, 12)
			n := p.Append(CachedAttention{Heads: 2, KVHeads: 2, HeadDim: 3, Packed: true, Causal: true}, cache, p.integers([]int{1, 2}, 3, 1),
				p.Concat(2, p.x(1, 2, 6), k, v))
			rows := p.Concat(2, k, v)
			return n.Outputs[1], p.Concat(1, p.Slice(cache, 1, 0, 1), p.Slice(rows, 1, 1, 1), p.Slice(cache, 1, 2, 1), p.Slice(rows, 1, 0, 1))
		},
		"paged attention": func(p *problem) (*Value, *Value) { // a prompt of two rows and what each goes on with, idle tokens between
			op := Attention{Heads: 4, KVHeads: 2, HeadDim: 3, Causal: true, Scale: 0.4, Cap: 2, Window: 3}
			widths := []int{12, 6, 6}
			prompt, own := make([]*Value, 3), make([]*Value, 3)
			for i, w := range widths {
				prompt[i], own[i] = p.x(1, 2, w), p.x(2, 2, w) // of each row, two tokens
			}
			table := p.integers([]int{3, 3}, 4, 1, 0, 0, 0, 0, 4, 3, 0) // row 1 is nobody's
			cache := p.fixed(p.random.NormFloat64, 5, 2, 12)
			pass := func(cache, row, positions *Value, operands []*Value) *Node {
				return p.Append(CachedAttention(op), append([]*Value{cache, table, row, positions}, operands...)...)
			}
			idle := make([]*Value, 3)
			for i, x := range prompt {
				idle[i] = p.Concat(1, x, p.x(1, 1, widths[i]))
			}
			first := pass(cache, p.integers([]int{1, 3}, 0, 0, -1), p.integers([]int{1, 3}, 0, 1, 0), idle)
			flat := make([]*Value, 3)
			for i, x := range own {
				flat[i] = p.Reshape(x, 1, 4, widths[i])
			}
			rest := pass(first.Outputs[1], p.integers([]int{1, 4}, 0, 0, 2, 2), p.integers([]int{1, 4}, 2, 3, 2, 3), flat)
			whole := make([]*Value, 3)
			for i := range whole {
				whole[i] = p.Concat(1, p.Concat(0, prompt[i], prompt[i]), own[i])
			}
			want := p.one(op, whole...)
			nothing := p.fixed(func() float64 { return 0 }, 1, 1, 12)
			return p.Concat(1, first.Outputs[0], rest.Outputs[0]),
				p.Concat(1, p.Slice(p.Slice(want, 0, 0, 1), 1, 0, 2), nothing, p.Reshape(p.Slice(want, 1, 2, 2), 1, 4, 12))
		},
		"cross entropy": func(p *problem) (*Value, *Value) {
			x := p.x(3, 5)
			chosen := p.fixed(func() float64 { return 0 }, 3, 5) // one-hot rows, the second ignored
			data := p.feeds[chosen.node.Op.(Input).Name].Data
			data[2], data[14] = 1, 1
			return p.CrossEntropy(x, p.integers([]int{3}, 2, IgnoreLabel, 4)),
				p.Scale(p.Sum(p.Mul(chosen, p.Apply("log", p.Softmax(x)))), -1)
		},
		"head loss": func(p *problem) (*Value, *Value) {
			x, w, labels := p.x(3, 4), p.x(5, 4), p.integers([]int{3}, 2, IgnoreLabel, 4)
			return p.one(HeadLoss{}, x, w, labels), p.CrossEntropy(p.MatMul(x, w, false, true), labels)
		},
		"head loss of a cap": func(p *problem) (*Value, *Value) {
			x, w, labels := p.x(3, 4), p.x(5, 4), p.integers([]int{3}, 2, IgnoreLabel, 4)
			logits := p.Scale(p.Apply("tanh", p.Scale(p.MatMul(x, w, false, true), 1/1.5)), 1.5)
			return p.one(HeadLoss{Cap: 1.5}, x, w, labels), p.CrossEntropy(logits, labels)
		},
		"head loss with options": func(p *problem) (*Value, *Value) {
			x, w, labels := p.x(3, 4), p.x(5, 4), p.integers([]int{3}, 2, IgnoreLabel, 4)
			counted := func(x *Value) *Value { return p.Concat(0, p.Slice(x, 0, 0, 1), p.Slice(x, 0, 2, 1)) }
			logits := p.MatMul(x, w, false, true)
			lse := p.Apply("log", p.Sum(p.Apply("exp", counted(logits)), 1))
			uniform := p.Sum(p.Sub(lse, p.Scale(p.Sum(counted(logits), 1), 1./5)))
			label := p.CrossEntropy(logits, labels)
			return p.one(HeadLoss{Smoothing: 0.3, ZLoss: 0.7}, x, w, labels),
				p.Add(p.Add(p.Scale(label, 0.7), p.Scale(uniform, 0.3)), p.Scale(p.Sum(p.Apply("square", lse)), 0.7))
		},
		"head loss of each row": func(p *problem) (*Value, *Value) {
			x, w, labels := p.x(3, 4), p.x(5, 4), p.integers([]int{3}, 2, IgnoreLabel, 4)
			row := func(i int, label float64) *Value {
				return p.Reshape(p.one(HeadLoss{}, p.Slice(x, 0, i, 1), w, p.integers([]int{1}, label)), 1)
			}
			return p.one(HeadLoss{Each: true}, x, w, labels), p.Concat(0, row(0, 2), row(1, IgnoreLabel), row(2, 4))
		},
		"entropy of a head": func(p *problem) (*Value, *Value) {
			x, w := p.x(3, 4), p.x(5, 4)
			n := p.Append(HeadLoss{Entropy: true, Cap: 1.5}, x, w, p.integers([]int{3}, 2, IgnoreLabel, 4))
			probabilities := p.Softmax(p.Scale(p.Apply("tanh", p.Scale(p.MatMul(x, w, false, true), 1/1.5)), 1.5))
			return n.Outputs[2], p.Apply("neg", p.Sum(p.Mul(probabilities, p.Apply("log", probabilities)), 1))
		},
		"embedding": func(p *problem) (*Value, *Value) {
			w := p.x(5, 2)
			return p.Embedding(w, p.integers([]int{3}, 4, 0, 4)), p.Concat(0, p.Slice(w, 0, 4, 1), p.Slice(w, 0, 0, 1), p.Slice(w, 0, 4, 1))
		},
		"rope": func(p *problem) (*Value, *Value) { // theta 1: every pair turns by one radian a position
			x := p.x(1, 2, 4)
			a, b := p.Slice(x, 2, 0, 2), p.Slice(x, 2, 2, 2)
			turned := p.Concat(2, p.Sub(p.Scale(a, math.Cos(1)), p.Scale(b, math.Sin(1))), p.Add(p.Scale(a, math.Sin(1)), p.Scale(b, math.Cos(1))))
			return p.Rope(x, 4, 1), p.Concat(1, p.Slice(x, 1, 0, 1), p.Slice(turned, 1, 1, 1))
		},
		"rope at positions": func(p *problem) (*Value, *Value) {
			x := p.x(2, 5, 12)
			return p.RopeAt(x, p.integers([]int{2, 5}, 0, 1, 2, 3, 4, 0, 1, 2, 3, 4), 6, 10, 9), p.Rope(x, 6, 10)
		},
		"rope of frequencies": func(p *problem) (*Value, *Value) { // the first half of each head, twice as long
			x := p.x(2, 5, 16)
			head := func(x *Value, h, first int) *Value { return p.Slice(x, 2, 8*h+first, 4) }
			turn := func(h int) *Value { return p.Scale(p.Rope(head(x, h, 0), 4, 100), 2) }
			return p.one(Rope{HeadDim: 8, Frequencies: []float64{1, 0.1}, Factor: 2}, x), p.Concat(2, turn(0), head(x, 0, 4), turn(1), head(x, 1, 4))
		},
		"rope there and back": func(p *problem) (*Value, *Value) {
			x := p.x(2, 5, 12)
			return p.one(Rope{HeadDim: 6, Theta: 10, Inverse: true}, p.Rope(x, 6, 10)), x
		},
		"matmul tt": func(p *problem) (*Value, *Value) {
			a, b := p.x(2, 4, 3), p.x(2, 5, 4)
			return p.MatMul(a, b, true, true), p.MatMul(p.Transpose(a, 0, 2, 1), p.Transpose(b, 0, 2, 1), false, false)
		},
		"silu": func(p *problem) (*Value, *Value) {
			x := p.x(7)
			return p.Apply("silu", x), p.Div(x, p.AddConst(p.Apply("exp", p.Apply("neg", x)), 1))
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProblem()
			got, want := build(p)
			require.NoError(t, p.Err())
			y := p.evaluate(t, got, want)
			assert.NoError(t, near(y[0], y[1]))
		})
	}
}

// TestFunctionValues pins the functions that no simpler one defines, by published values.
func TestFunctionValues(t *testing.T) {
	for _, c := range []struct {
		fn      string
		x, want float64
	}{
		{"gelu_erf", 1, 0.8413447460685429},
		{"gelu_erf", -2, -0.04550026389635842},
		{"gelu_tanh", 1, 0.8411919906082768},
		{"gelu_tanh", -2, -0.04540230591222494},
		{"silu", 1, 0.7310585786300049},
		{"sigmoid", 0, 0.5},
		{"relu", -1, 0},
		{"relu", 2, 2},
		{"tanh", 0.5, 0.46211715726000973},
		{"sqrt", 4, 2},
		{"rsqrt", 4, 0.5},
		{"square", 3, 9},
		{"recip", 4, 0.25},
		{"abs", -3, 3},
		{"exp", 0, 1},
		{"log", 1, 0},
	} {
		p := newProblem()
		y := p.Apply(c.fn, p.fixed(func() float64 { return c.x }))
		assert.InDelta(t, c.want, p.evaluate(t, y)[0].Data[0], 1e-14, "%s(%g)", c.fn, c.x)
	}
}

func TestAttentionLogSumExp(t *testing.T) {
	p := newProblem()
	q, k := p.x(1, 3, 2), p.x(1, 3, 2)
	lse := p.one(Attention{Heads: 1, KVHeads: 1, HeadDim: 2}, q, k, k).Node().Outputs[1]
	sums := p.Apply("log", p.Sum(p.Apply("exp", p.Scale(p.MatMul(q, k, false, true), 1/math.Sqrt2)), 2))
	y := p.evaluate(t, p.Reshape(lse, 1, 3), sums)
	assert.NoError(t, near(y[0], y[1]))
}

func TestNormStatistics(t *testing.T) {
	p := newProblem()
	x := p.fixed(func() float64 { return 0 }, 1, 4)
	copy(p.feeds["x0"].Data, []float64{1, 2, 3, 6}) // mean 3, variance 3.5, mean square 12.5
	gamma, beta := p.x(4), p.x(4)
	y := p.evaluate(t, p.LayerNorm(x, gamma, beta, 0.5).Node().Outputs[1], p.RMSNorm(x, gamma, 3.5).Node().Outputs[1])
	assert.Equal(t, []float64{3, 0.5}, y[0].Data)
	assert.Equal(t, []float64{0.25}, y[1].Data)
}

func TestDropoutIsThatOfTheGenerator(t *testing.T) {
	p := newProblem()
	x, key := p.fixed(func() float64 { return 3 }, 20, 50), p.key()
	words := p.feeds[key.node.Op.(Input).Name].Data
	folded := prng.Key{uint32(words[0]), uint32(words[1])}.FoldIn(5)
	y := p.evaluate(t, p.Dropout(x, key, 0.25, 5), p.Dropout(x, key, 0.25, 6))
	kept := 0
	for i, v := range y[0].Data {
		want := 0.0
		if folded.Uniform(uint64(i)) >= 0.25 {
			want = 4
			kept++
		}
		require.Equal(t, want, v)
	}
	assert.InDelta(t, 750, kept, 45) // three standard deviations
	assert.NotEqual(t, y[0].Data, y[1].Data)
}

func TestEvalErrors(t *testing.T) {
	i32 := func(p *problem, values ...float64) *Value { return p.integers([]int{len(values)}, values...) }
	for want, build := range map[string]func(p *problem) *Value{
		`graph: evaluate: input "y": no value given for it`: func(p *problem) *Value { return p.Input("y", F32()) },
		`graph: evaluate: param "w": shape [3] with 3 elements given, want [2]`: func(p *problem) *Value {
			p.feeds["w"] = NewArray([]int{3})
			return p.Param("w", 2)
		},
		`graph: evaluate: input "x0": element 1 is 1.5, want i32`: func(p *problem) *Value { return i32(p, 1, 1.5) },
		`graph: evaluate: embedding #2: id 1 is 5, want 0 to 4`: func(p *problem) *Value {
			return p.Embedding(p.x(5, 2), i32(p, 1, 5))
		},
		`graph: evaluate: embedding_grad #2: id 0 is -1, want 0 to 4`: func(p *problem) *Value {
			return p.one(EmbeddingGrad{Vocab: 5}, p.x(1, 2), i32(p, -1))
		},
		`graph: evaluate: cross_entropy #2: label 0 is -1, want 0 to 4`: func(p *problem) *Value {
			return p.CrossEntropy(p.x(1, 5), i32(p, -1))
		},
		`graph: evaluate: head_loss_grad #5: label 1 is 9, want 0 to 4`: func(p *problem) *Value {
			return p.one(HeadLossGrad{}, p.x(2, 3), p.x(5, 3), i32(p, 1, 9), p.x(2), p.x())
		},
	} {
		p := newProblem()
		v := build(p)
		require.NoError(t, p.Err(), want)
		_, err := Eval(p.Graph, p.feeds, v)
		assert.EqualError(t, err, want)
	}
	_, err := Eval(New(), nil, nil)
	assert.EqualError(t, err, "graph: evaluate: value 0 is missing")
}

func TestEvalAsksOnlyForWhatIsNeeded(t *testing.T) {
	p := newProblem()
	y := p.Scale(p.x(2), 2)
	p.Add(y, p.Param("unused", 2))
	p.evaluate(t, y)
}

// TestZeroLength: dimensions of zero go through every operation that allows them.
func TestZeroLength(t *testing.T) {
	for i, build := range []func(p *problem) *Value{
		func(p *problem) *Value { return p.MatMul(p.x(0, 4), p.x(4, 3), false, false) },
		func(p *problem) *Value { return p.MatMul(p.x(2, 0), p.x(0, 3), false, false) },
		func(p *problem) *Value { return p.Add(p.x(0, 3), p.x(3)) },
		func(p *problem) *Value { return p.Sum(p.x(0, 3), 0) },
		func(p *problem) *Value { return p.LayerNorm(p.x(0, 3), p.x(3), p.x(3), 1e-5) },
		func(p *problem) *Value { return p.PackedAttention(p.x(2, 0, 6), 1, 1, 2, true) },
		func(p *problem) *Value { return p.Embedding(p.x(5, 3), p.integers([]int{0})) },
		func(p *problem) *Value { return p.one(HeadLoss{}, p.x(0, 3), p.x(5, 3), p.integers([]int{0})) },
		func(p *problem) *Value { return p.Softmax(p.x(2, 0)) },
		func(p *problem) *Value { return p.Slice(p.x(2, 3), 1, 3, 0) },
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			p := newProblem()
			loss := build(p)
			require.NoError(t, p.Err())
			if len(loss.Shape()) > 0 {
				loss = p.weighted(loss)
			}
			grads, err := Gradients(p.Graph, loss, p.wrt)
			require.NoError(t, err)
			for i, a := range p.evaluate(t, grads...) {
				assert.Equal(t, array.F32, grads[i].DType())
				for _, v := range a.Data {
					require.Zero(t, v)
				}
			}
		})
	}
}

// Neither large nor small numbers leave float64 on the way.
func TestLogSumExp(t *testing.T) {
	for _, by := range []float64{0, 1000, -1000} {
		assert.InDelta(t, by+math.Log(1+math.Exp(-2)), logSumExp([]float64{by, by - 2}), 1e-12, by)
	}
	assert.True(t, math.IsInf(logSumExp(nil), -1))
}
