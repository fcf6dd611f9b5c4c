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
)

// soapSpecs are, with blocks of 16 and a max_size_dense of 60: leaves of one block and of several, in parts of several slabs, turned on one side, long
// enough for slices, on none, of low rank, and what Adam has.
var soapSpecs = []buffers.Spec{
	{Path: "blocks", Shape: []int{33, 40}},
	{Path: "h.lora_A.weight", Shape: []int{4, 40}},
	{Path: "left", Shape: []int{7, 70}},
	{Path: "none", Shape: []int{61, 62}},
	{Path: "one", Shape: []int{1, 17}},
	{Path: "right", Shape: []int{700, 18}},
	{Path: "scalar"},
	{Path: "scanned", Shape: []int{2, 3, 5}, Scanned: true},
	{Path: "three", Shape: []int{4, 3, 6}},
	{Path: "vector", Shape: []int{37}},
}

func TestSOAPFollowsTheTwin(t *testing.T) {
	clip := 1.0
	for name, c := range map[string]struct {
		parameters string
		options    Options
		allowed    float64
	}{
		"gradient": {`"refresh":{"every":2},"basis_damping":0.05`, Options{WeightDecay: 0.1, ClipGrad: &clip, AccumulationSteps: 2}, 1e-3},
		"momentum": {`"whiten":"momentum","refresh":{"every":3},"basis_damping":0.05,"basis_decay":0.8,"bias_correction":false,"b2_1d":0.5`, Options{SkipNonFinite: true}, 1e-3},
		"bf16":     {`"mu_dtype":"bf16","basis_damping":0.05`, Options{Numerics: EFormer}, 0x1p-5},
	} {
		test := func(t *testing.T, d *gpu.Device) {
			c.options.Schedule = rate(0.02)
			tx := built(t, "soap", c.options, `{"block_size":16,"max_size_dense":60,`+c.parameters+`}`)
			followTwin(t, d, tx, soapSpecs, 5, tolerance{c.allowed, c.allowed}, tolerance{c.allowed, c.allowed})
		}
		t.Run(name, func(t *testing.T) { gputest.Each(t, test, small) })
		if name == "gradient" {
			t.Run(name+", software's kernels", func(t *testing.T) { test(t, gputest.Device(t)) })
		}
	}
}

// Blocks of full size take several dispatches on a software adapter, whose drivers leave loops after so many turns.
func TestSOAPFollowsTheTwinInBlocksOf128(t *testing.T) {
	tx := built(t, "soap", Options{Schedule: rate(0.02)}, `{"refresh":{"every":1},"basis_damping":0.1}`)
	followTwin(t, gputest.Device(t), tx, []buffers.Spec{{Path: "w", Shape: []int{130, 128}}}, 2, tolerance{1e-3, 1e-3}, tolerance{1e-3, 1e-3})
}

// Without a refresh it is Adam, whatever the blocks.
func TestSOAPBeginsAsAdam(t *testing.T) {
	d := gputest.Device(t, small)
	after := func(name, parameters string) []buffers.Host {
		r := rand.New(rand.NewPCG(61, 62))
		rig := newRig(t, d, built(t, name, Options{Schedule: rate(0.05)}, parameters), randomTree(r, soapSpecs, 1), buffers.F32)
		for range 3 {
			rig.call(randomTree(r, soapSpecs, 0.1))
		}
		return rig.download(rig.params)
	}
	for i, got := range after("soap", `{"block_size":16,"max_size_dense":60,"refresh":{"every":9}}`) {
		want := after("adamw", `{"b1":0.95,"b2":0.95}`)[i]
		for k, x := range got.Data {
			require.InDelta(t, want.Data[k], x, 1e-6, got.Path)
		}
	}
}

// The turned second moment is diagonal where gradients are, up to a rotation of each side, of one diagonal: a step of SOAP is then the rotation of
// Adam's, which is known by hand.
func TestSOAPFindsARotation(t *testing.T) {
	d := gputest.Device(t)
	const n, angle = 2, 0.6
	rotation := [n][n]float64{{math.Cos(angle), -math.Sin(angle)}, {math.Sin(angle), math.Cos(angle)}}
	spec := []buffers.Spec{{Path: "w", Shape: []int{n, n}}}
	rig := newRig(t, d, built(t, "soap", Options{Schedule: rate(1)}, `{"b1":0,"refresh":{"every":1}}`), []buffers.Host{{Path: "w", Shape: spec[0].Shape, Data: make([]float32, n*n)}}, buffers.F32)
	var before []float32
	for range 60 { // turns until Q is R: the eigenvalues 9 and 1 part by a ninth an update
		g := make([]float32, n*n) // R diag(3, 1) Rᵀ
		for i := range n {
			for j := range n {
				g[i*n+j] = float32(3*rotation[i][0]*rotation[j][0] + rotation[i][1]*rotation[j][1])
			}
		}
		before = rig.download(rig.params)[0].Data
		rig.call([]buffers.Host{{Path: "w", Shape: spec[0].Shape, Data: g}})
	}
	after := rig.download(rig.params)[0].Data
	for i := range n {
		for j := range n { // R diag(1, 1) Rᵀ: the identity
			want := 0.0
			if i == j {
				want = 1
			}
			// nu still has some of what was before the bases had turned: 0.95^50.
			assert.InDelta(t, -want, float64(after[i*n+j]-before[i*n+j]), 0.1, "%d %d", i, j)
		}
	}
}

// Where C lacks rank a basis is orthogonal all the same, and the run goes on the same bits.
func TestSOAPBasesStayOrthogonal(t *testing.T) {
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		const rows, cols = 90, 7
		tx := built(t, "soap", Options{Schedule: rate(0.01)}, `{"refresh":{"every":1}}`)
		run := func() map[string][]float32 {
			r := rand.New(rand.NewPCG(63, 64))
			specs := []buffers.Spec{{Path: "w", Shape: []int{rows, cols}}, {Path: "dead", Shape: []int{5, 6}}}
			rig := newRig(t, d, tx, randomTree(r, specs, 1), buffers.F32)
			for range 3 {
				grads := randomTree(r, specs, 1e-8)
				clear(grads[0].Data[:40*cols])
				clear(grads[1].Data)
				rig.call(grads)
			}
			return rig.tensors()
		}
		got := run()
		q := got["Ql/w"]
		require.Len(t, q, rows*rows)
		for i := range rows {
			for j := range rows {
				dot := 0.0
				for k := range rows {
					dot += float64(q[k*rows+i]) * float64(q[k*rows+j])
				}
				want := 0.0
				if i == j {
					want = 1
				}
				require.InDelta(t, want, dot, 2e-6, "%d %d", i, j)
			}
		}
		for i, x := range got["Ql/dead"] {
			require.Equal(t, i%6 == 0, x == 1, "the identity")
		}
		for name, x := range run() {
			require.Equal(t, got[name], x, name)
		}
	}, small)
}

func TestSOAPRefuses(t *testing.T) {
	for parameters, want := range map[string]string{
		`{"block_size":0}`:            "block_size: found 0",
		`{"block_size":2000}`:         "block_size: found 2000, wanted 1 to 1024",
		`{"max_size_dense":-1}`:       "max_size_dense: found -1",
		`{"refresh":{"every":-1}}`:    "refresh: every: found -1, wanted 0 or more",
		`{"refresh":{"anneal":true}}`: "refresh.anneal",
		`{"basis_decay":1}`:           "basis_decay: found 1",
		`{"basis_damping":-1}`:        "basis_damping: found -1",
		`{"eps":-1}`:                  "eps: found -1",
		`{"whiten":"both"}`:           `whiten: found "both", wanted gradient or momentum`,
		`{"state_dtype":"8bit"}`:      "state_dtype",
		`{"mu_dtype":"8bit"}`:         `mu_dtype: found "8bit", wanted f32 or bf16`,
	} {
		_, err := Build("soap", Options{}, []byte(parameters))
		if assert.ErrorContains(t, err, want, parameters) {
			assert.True(t, strings.HasPrefix(err.Error(), "optim: soap: "), err)
		}
	}
}
