package kron

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/buffers/prng"
)

// TestTwinFirstUpdateByHand: one element, where matrices are numbers. With Q of 1 on both sides P = g, T = g², s = 1; the bound of a number is
// itself, so L = g² + 1.
func TestTwinFirstUpdateByHand(t *testing.T) {
	const g = 3.0
	rate := 0.7 / math.Sqrt(1+1e-4)
	for method, want := range map[Method]float64{
		Quad: math.Pow(1-rate/(2*(g*g+1))*(g*g-1), 2),
		Skew: 1 - rate/(g*g+1)*(g*g-1), // a number is symmetric: no rotation
	} {
		for _, maxDense := range []int{16, 0} {
			c := plain(method, 4)
			c.MaxSizeDense = maxDense
			p, err := NewPlan([]Leaf{{Path: "w", Shape: []int{1, 1}}}, c)
			require.NoError(t, err)
			// A leaf of one element is a vector; as a matrix it takes its two factors.
			p.Leaves[0].Kind = Dense
			if maxDense == 0 {
				p.Leaves[0].Kind = diagonalBoth
			}
			block := newTwinBlock(c, p.Leaves[0], p.Blocks[0])
			block.refresh(1, []float64{g})
			assert.InDelta(t, want, block.left.q[0], 1e-6)
			assert.InDelta(t, want, block.right.q[0], 1e-6)
			assert.InDelta(t, g*g+1, block.left.l, 1e-6)
			assert.InDelta(t, math.Pow(want, 4)*g, apply(block.left, block.right, []float64{g})[0], 1e-5)
			// A smaller gradient: L keeps 0.95 of what it was.
			was, p2 := block.right.l, math.Pow(block.left.q[0], 4)*0.1
			block.refresh(2, []float64{0.1})
			assert.InDelta(t, 0.95*was+0.05*(p2*p2+1), block.right.l, 1e-5)
		}
	}
}

// TestTwinVectorByHand: the largest square of a row counts for all of it, and rows of a scanned leaf do not meet.
func TestTwinVectorByHand(t *testing.T) {
	c := plain(Quad, 4)
	p, err := NewPlan([]Leaf{{Path: "v", Shape: []int{2, 2}, Scanned: true}}, c)
	require.NoError(t, err)
	twin, err := NewTwin(p, nil)
	require.NoError(t, err)
	u := map[string][]float64{"v": {2, 0.5, 0.25, 0}}
	require.NoError(t, twin.Update(1, u, false, false))
	rate := 0.7 / math.Sqrt(1+1e-4)
	var want []float64
	for i, g := range []float64{2, 0.5, 0.25, 0} {
		largest := []float64{4, 4, 0.0625, 0.0625}[i]
		want = append(want, math.Pow(1-rate/(2*(largest+1))*(g*g-1), 2))
		assert.InDelta(t, g*want[i]*want[i], u["v"][i], 1e-6)
	}
	state := tensorsByName(twin.Tensors())
	assert.InDeltaSlice(t, want, state["leaf/v/Ql"].Data, 1e-6)
	assert.InDeltaSlice(t, []float64{5, 1.0625}, state["leaf/v/Ll"].Data, 1e-6)
	assert.Equal(t, []int{2, 2}, state["leaf/v/Ql"].Shape)
	assert.Len(t, state, 2)
}

// TestTwinWhitens: the Gram matrices of the output of a gradient that stays come to s times the identity.
func TestTwinWhitens(t *testing.T) {
	const n = 6
	for _, method := range methods {
		c := plain(method, 8)
		c.Rules = Stable()
		c.Damping = 0
		twin := newTwin(t, c, Leaf{Path: "w", Shape: []int{n, n}})
		g := draws(7, n*n, 1e-3)
		var u []float64
		for i := int64(1); i <= 500; i++ {
			u = step(t, twin, i, g)
		}
		for i, x := range matmul(u, transpose(u, n, n), n) {
			want := 0.0
			if i%(n+1) == 0 {
				want = n
			}
			assert.InDelta(t, want, x, 0.02, "%s element %d", method, i)
		}
	}
}

func TestTwinSkipAndReuse(t *testing.T) {
	c := plain(Quad, 4)
	c.Rules = Stable()
	p := placedPlan(t, c)
	twin, err := NewTwin(p, nil)
	require.NoError(t, err)
	require.NoError(t, twin.Update(1, gradients(p, 1), false, false))
	state := twin.Tensors()

	u := gradients(p, 100)
	require.NoError(t, twin.Update(100, u, false, true))
	assert.Equal(t, state, twin.Tensors(), "skipped, though it would balance")
	assert.Equal(t, gradients(p, 100), u)

	require.NoError(t, twin.Update(100, u, true, false))
	assert.Equal(t, state, twin.Tensors(), "factors are reused")
	for _, b := range twin.dense {
		g := b.read(gradients(p, 100)[b.leaf.Path])
		left := matmul(transpose(b.left.q, b.left.n, b.left.n), b.left.q, b.left.n)
		right := matmul(transpose(b.right.q, b.right.n, b.right.n), b.right.q, b.right.n)
		want := matmul(matmul(left, g, b.left.n), right, b.left.n)
		assert.InDeltaSlice(t, want, b.read(u[b.leaf.Path]), 1e-9)
	}
	require.NoError(t, twin.Update(2, gradients(p, 2), false, false))
	assert.NotEqual(t, state, twin.Tensors())
}

// TestTwinDeadBlockKeepsFactors: with relative damping a block without a gradient keeps all but its running RMS.
func TestTwinDeadBlockKeepsFactors(t *testing.T) {
	c := plain(Skew, 4)
	c.Rules.RelativeDamping = true
	twin := newTwin(t, c, Leaf{Path: "w", Shape: []int{4, 8}})
	g := draws(1, 32, 1)
	step(t, twin, 1, g)
	before := tensorsByName(twin.Tensors())
	for r := range 4 {
		clear(g[8*r : 8*r+4]) // the first of two blocks
	}
	step(t, twin, 2, g)
	after := tensorsByName(twin.Tensors())
	for _, name := range []string{"dense/Ql", "dense/Qr", "dense/Ll", "dense/Lr"} {
		half := len(before[name].Data) / 2
		assert.Equal(t, before[name].Data[:half], after[name].Data[:half], name)
		assert.NotEqual(t, before[name].Data[half:], after[name].Data[half:], name)
	}
	assert.InDelta(t, 0.999*before["dense/rms"].Data[0], after["dense/rms"].Data[0], 1e-6)
	block := twin.dense[1].read(g)
	assert.InDelta(t, math.Max(rootMeanSquare(block), 0.999*float64(before["dense/rms"].Data[1])), after["dense/rms"].Data[1], 1e-6)
}

// TestTwinBalances: both factors have one largest magnitude and their product stays, except for a factor that is zero.
func TestTwinBalances(t *testing.T) {
	c := plain(Quad, 4)
	left, right := newFactor(c, 2, false), newFactor(c, 3, true)
	copy(left.q, []float64{8, -1, 2, -16})
	copy(right.q, []float64{0.25, 0.125, -0.0625})
	balance(c, left, right)
	assert.InDeltaSlice(t, []float64{1, -0.125, 0.25, -2}, left.q, 1e-6)
	assert.InDeltaSlice(t, []float64{2, 1, -0.5}, right.q, 1e-6)
	clear(right.q)
	balance(c, left, right)
	assert.InDeltaSlice(t, []float64{1, -0.125, 0.25, -2}, left.q, 1e-6)
	assert.Equal(t, []float64{0, 0, 0}, right.q)
	assert.Equal(t, []bool{false, true, false, true}, []bool{balances(99), balances(100), balances(101), balances(200)})
}

// TestTwinRoundsStorage: what is kept is of the dtype, and L is f32.
func TestTwinRoundsStorage(t *testing.T) {
	for _, dtype := range []buffers.DType{buffers.F32, buffers.BF16} {
		for _, rules := range []Rules{{}, Stable()} {
			c := plain(Skew, 4)
			c.DType, c.Rules, c.InitScale = dtype, rules, 0.3
			p := placedPlan(t, c)
			twin, err := NewTwin(p, nil)
			require.NoError(t, err)
			for n := int64(100); n <= 101; n++ {
				require.NoError(t, twin.Update(n, gradients(p, n), false, false))
			}
			for _, blocks := range append(twin.own, twin.dense) {
				for _, b := range blocks {
					for _, f := range []*factor{b.left, b.right} {
						if f == nil {
							continue
						}
						assert.Equal(t, float64(float32(f.l)), f.l)
						for _, q := range f.q {
							require.Equal(t, c.nearest(q), q)
						}
					}
				}
			}
		}
	}
}

// TestTwinKeys are known answers of JAX's derivation for the first block of the first update.
func TestTwinKeys(t *testing.T) {
	keys := func(kind Kind, leaf, stack int, n int64, rules Rules) blockKeys {
		c := plain(Quad, 4)
		c.Rules = rules
		return (&twinBlock{config: c, leaf: Matrix{Kind: kind, Index: leaf}, block: Block{Stack: stack}}).keys(n)
	}
	dense := keys(Dense, 0, 0, 1, Rules{})
	assert.Equal(t, prng.Key{98910778, 3934144064}, dense.noise)
	assert.Equal(t, prng.Key{1411449972, 1157375159}, dense.left)
	assert.Equal(t, prng.Key{1596780495, 579491684}, dense.right)
	assert.Equal(t, dense.left, keys(Dense, 0, 0, 1, Rules{AlignedBound: true}).right)
	assert.Equal(t, prng.Key{0xf66ca3da, 0xe2503a1d}, keys(Vector, 0, 0, 1, Rules{}).noise)
	for kind, base := range map[Kind]prng.Key{
		diagonalBoth: {0x63e3b862, 0x64c282d2}, diagonalLeft: {0x9b44b39c, 0x08b7424d}, diagonalRight: {0x53c3e07f, 0x63712df9},
	} {
		k := keys(kind, 0, 0, 1, Rules{})
		assert.Equal(t, base.Split(2), []prng.Key{k.left, k.noise})
		assert.Equal(t, k.left, k.right)
	}
	independent := Rules{IndependentNoise: true}
	assert.Equal(t, dense, keys(Dense, 3, 0, 1, independent))
	assert.Equal(t, prng.NewKey(46).FoldIn(9).FoldIn(3).Split(6)[5], keys(Vector, 3, 5, 9, independent).noise)
}

func TestTwinErrors(t *testing.T) {
	p := placedPlan(t, plain(Quad, 4))
	_, err := NewTwin(p, []string{"embeding"})
	assert.EqualError(t, err, `kron: part: leaf "embeding": not in the plan`)
	twin, err := NewTwin(p, []string{"bias", "small"})
	require.NoError(t, err)
	u := map[string][]float64{"bias": make([]float64, 6), "small": make([]float64, 6), "other": {1, 2}}
	assert.EqualError(t, twin.Update(0, u, false, false), "kron: twin: update 0: they count from 1")
	require.NoError(t, twin.Update(1, u, false, false))
	assert.Equal(t, []float64{1, 2}, u["other"])
	u["small"] = u["small"][:5]
	assert.EqualError(t, twin.Update(1, u, false, false), `kron: twin: leaf "small": 5 elements, want 6`)
	delete(u, "small")
	assert.EqualError(t, twin.Update(1, u, false, false), `kron: twin: leaf "small": 0 elements, want 6`)
}
