package graph

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers/array"
)

// The backward passes below are the lists of dispatches to come: nothing in them is of no use.

func TestBackwardOfLinearLayer(t *testing.T) {
	p := newProblem()
	x := p.Input("x", F32(2, 3, 4))
	w, b := p.Param("fc.weight", 4, 5), p.Param("fc.bias", 5)
	y := p.Add(p.MatMul(x, w, false, false), b)
	loss := p.Sum(p.Mul(y, p.Input("dy", F32(2, 3, 5))))
	// The seed is the input dy itself: no constant is multiplied, nothing spread out; the input x gets no gradient.
	assert.Equal(t, `%8 = constant() 1 : f32 [] "1"
%9 = reduce(%5) fn=sum axes=[0 1] : f32 [5] "fc/grad"
%10 = reshape(%0) : f32 [6 4] "fc/grad"
%11 = reshape(%5) : f32 [6 5] "fc/grad"
%12 = matmul(%10, %11) trans_a=true : f32 [4 5] "fc/grad"
`, backward(t, p, loss, w, b))
}

func TestBackwardOfTransposedWeight(t *testing.T) {
	p := newProblem()
	x := p.Input("x", F32(2, 3, 4))
	w := p.Param("fc.weight", 5, 4)
	loss := p.Sum(p.Mul(p.MatMul(x, w, false, true), p.Input("dy", F32(2, 3, 5))))
	assert.Equal(t, `%6 = constant() 1 : f32 [] "1"
%7 = matmul(%3, %1) : f32 [2 3 4] "fc/grad"
%8 = reshape(%0) : f32 [6 4] "fc/grad"
%9 = reshape(%3) : f32 [6 5] "fc/grad"
%10 = matmul(%9, %8) trans_a=true : f32 [5 4] "fc/grad"
`, backward(t, p, loss, x, w))
}

func TestBackwardOfTiedHeadAndScaledLoss(t *testing.T) {
	p := newProblem()
	w := p.Param("wte.weight", 9, 4)
	x := p.Embedding(w, p.Input("ids", Type{[]int{2, 3}, array.I32}))
	sum := p.one(HeadLoss{}, p.Reshape(x, 6, 4), w, p.Input("labels", Type{[]int{6}, array.I32}))
	loss := p.Mul(sum, p.Input("loss_scale", F32()))
	// dloss is loss_scale; labels and ids get nothing; the two gradients of the table are added.
	assert.Equal(t, `%8 = constant() 1 : f32 [] "1"
%9 = head_loss_grad(%3, %0, %4, %5.1, %6) : f32 [6 4], f32 [9 4] "wte/grad"
%10 = reshape(%9) : f32 [2 3 4] "grad"
%11 = embedding_grad(%10, %1) vocab=9 : f32 [9 4] "wte/grad"
%12 = elementwise(%9.1, %11) fn=add : f32 [9 4] "wte.weight/grad"
`, backward(t, p, loss, w))
}

func TestBackwardStopsAtWhatIsWanted(t *testing.T) {
	p := newProblem()
	w1, w2 := p.Param("a.weight", 4, 4), p.Param("b.weight", 4, 4)
	h := p.Apply("tanh", p.MatMul(p.Input("x", F32(3, 4)), w1, false, false))
	y := p.MatMul(h, w2, false, false)
	loss := p.Sum(p.Apply("square", y))
	// The gradient of h, in the middle: nothing of the layer before it, nor of w2.
	assert.Equal(t, `%8 = constant() 1 : f32 [] "1"
%9 = elementwise(%5, %8) fn=square_grad : f32 [3 4] "grad"
%10 = matmul(%9, %1) trans_b=true : f32 [3 4] "b/grad"
`, backward(t, p, loss, h))
}

func TestBackwardOfSlicesSideBySideIsOneConcat(t *testing.T) {
	p := newProblem()
	x := p.Input("x", F32(2, 6))
	dy := p.Input("dy", F32(2, 3))
	loss := p.Sum(p.Mul(p.Mul(p.Slice(x, 1, 3, 3), p.Slice(x, 1, 0, 3)), dy))
	assert.Equal(t, `%7 = constant() 1 : f32 [] "1"
%8 = elementwise(%1, %3) fn=mul : f32 [2 3] "grad"
%9 = elementwise(%1, %2) fn=mul : f32 [2 3] "grad"
%10 = concat(%9, %8) axis=1 : f32 [2 6] "x/grad"
`, backward(t, p, loss, x))
}

func TestGradientsErrors(t *testing.T) {
	for want, try := range map[string]func(p *problem, x *Value) (*Value, []*Value){
		`graph: gradients: loss: neg #1 has shape [2], want a scalar`: func(p *problem, x *Value) (*Value, []*Value) {
			return p.Apply("neg", x), []*Value{x}
		},
		`graph: gradients: the loss does not depend on param "w"`: func(p *problem, x *Value) (*Value, []*Value) {
			return p.Sum(x), []*Value{x, p.Param("w", 2)}
		},
		`graph: gradients: the loss does not depend on neg #1`: func(p *problem, x *Value) (*Value, []*Value) {
			y := p.Apply("neg", x)
			return p.Sum(x), []*Value{y}
		},
		`graph: gradients: input "ids" is i32, want f32`: func(p *problem, x *Value) (*Value, []*Value) {
			return p.Sum(x), []*Value{p.Input("ids", Type{nil, array.I32})}
		},
		`graph: gradients: a value is missing`: func(p *problem, x *Value) (*Value, []*Value) {
			return p.Sum(x), []*Value{nil}
		},
		`graph: gradients: input "y" is of another graph`: func(p *problem, x *Value) (*Value, []*Value) {
			return p.Sum(x), []*Value{New().Input("y", F32())}
		},
		`graph: gradients: silu_grad #1: has no second derivative`: func(p *problem, x *Value) (*Value, []*Value) {
			return p.Sum(p.Apply("silu_grad", x, x)), []*Value{x}
		},
		`graph: gradients: attention "x": output 1 has no gradient`: func(p *problem, x *Value) (*Value, []*Value) {
			q := p.Input("q", F32(1, 3, 2))
			defer p.Scope("x")()
			return p.Sum(p.PackedAttention(p.Concat(2, q, q, q), 1, 1, 2, true).node.Outputs[1]), []*Value{q}
		},
	} {
		p := newProblem()
		loss, wrt := try(p, p.Input("x", F32(2)))
		require.NoError(t, p.Err())
		_, err := Gradients(p.Graph, loss, wrt)
		assert.EqualError(t, err, want)
	}
}

func TestGradientsAgainAreTheSame(t *testing.T) {
	p := newProblem()
	x := p.x(3)
	loss := p.Sum(p.Apply("exp", x))
	for range 2 {
		grads, err := Gradients(p.Graph, loss, []*Value{x})
		require.NoError(t, err)
		got, err := Eval(p.Graph, p.feeds, grads...)
		require.NoError(t, err)
		assert.NoError(t, near(got[0], differences(t, p, loss, x)))
	}
	require.NoError(t, p.Err())
}
