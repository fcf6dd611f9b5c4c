package optim

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/internal/gputest"
)

// What every registered optimizer promises, each at odd leaves and with several slabs, with the parameters of its row for small leaves.

// registered are the optimizers, without those that single tests register.
func registered() []string {
	return slices.DeleteFunc(Names(), func(name string) bool { return strings.HasPrefix(name, "test") })
}

// smallOf are the parameters of an optimizer's row.
func smallOf(t testing.TB, name string) string {
	o, err := Find(name)
	require.NoError(t, err)
	return o.Small
}

// everySpecs are a leaf of each kind: none, one, rows, columns, four dimensions, a vector, a matrix above the binding limit, and one
// with a side above max_size_dense.
var everySpecs = []buffers.Spec{
	{Path: "col", Shape: []int{19, 1}},
	{Path: "empty", Shape: []int{0, 3}},
	{Path: "four", Shape: []int{2, 3, 4, 5}},
	{Path: "row", Shape: []int{1, 17}},
	{Path: "scalar"},
	{Path: "tall", Shape: []int{310, 9}},
	{Path: "vector", Shape: []int{130}},
	{Path: "w", Shape: []int{257, 255}},
}

func eachOptimizer(t *testing.T, test func(t *testing.T, d *gpu.Device, name string), options ...gputest.Option) {
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		for _, name := range gputest.Some(t, d, registered()) {
			t.Run(name, func(t *testing.T) { test(t, d, name) })
		}
	}, append(options, small)...)
}

func TestEveryOptimizerKeepsTheTree(t *testing.T) {
	eachOptimizer(t, func(t *testing.T, d *gpu.Device, name string) {
		r := rand.New(rand.NewPCG(31, 32))
		for _, dtype := range []buffers.DType{buffers.F32, buffers.BF16} {
			rig := newRig(t, d, built(t, name, Options{Schedule: rate(0.01), WeightDecay: 0.1}, smallOf(t, name)), randomTree(r, everySpecs, 1), dtype)
			before := rig.download(rig.params)
			for range 2 {
				rig.call(randomTree(r, everySpecs, 0.1))
			}
			assert.Equal(t, dtype, rig.params.DType())
			after := rig.download(rig.params)
			require.Len(t, after, len(before))
			for i, h := range after {
				require.Equal(t, before[i].Path, h.Path)
				require.Equal(t, before[i].Shape, h.Shape)
				for k, v := range h.Data {
					require.False(t, math.IsNaN(float64(v)) || math.IsInf(float64(v), 0), "%s[%d]", h.Path, k)
				}
				if len(h.Data) > 0 {
					assert.NotEqual(t, before[i].Data, h.Data, h.Path)
				}
			}
		}
	})
}

func TestEveryOptimizerLeavesParamsAtRateZero(t *testing.T) {
	eachOptimizer(t, func(t *testing.T, d *gpu.Device, name string) {
		r := rand.New(rand.NewPCG(33, 34))
		params := randomTree(r, everySpecs, 1)
		params[7].Data[3] = float32(math.Copysign(0, -1)) // the sum with an update of +0 would be +0
		rig := newRig(t, d, built(t, name, Options{WeightDecay: 0.1}, smallOf(t, name)), params, buffers.F32)
		before := rig.download(rig.params)
		for range 3 {
			rig.call(randomTree(r, everySpecs, 0.1))
		}
		sameBits(t, before, rig.download(rig.params))
	})
}

// The mean of two gradients of small whole numbers is exact, and so all that follows from it.
func TestEveryOptimizerAccumulatesExactly(t *testing.T) {
	eachOptimizer(t, func(t *testing.T, d *gpu.Device, name string) {
		r := rand.New(rand.NewPCG(35, 36))
		options := Options{Schedule: rate(0.01), WeightDecay: 0.1}
		params := randomTree(r, everySpecs, 1)
		whole := newRig(t, d, built(t, name, options, smallOf(t, name)), params, buffers.F32)
		options.AccumulationSteps = 2
		parts := newRig(t, d, built(t, name, options, smallOf(t, name)), params, buffers.F32)
		for range 3 {
			a, b, mean := randomTree(r, everySpecs, 1), randomTree(r, everySpecs, 1), randomTree(r, everySpecs, 1)
			for i := range a {
				for k := range a[i].Data {
					x, y := float32(r.IntN(9)-4), float32(r.IntN(9)-4)
					a[i].Data[k], b[i].Data[k], mean[i].Data[k] = x, y, (x+y)/2
				}
			}
			before := parts.download(parts.params)
			parts.call(a)
			sameBits(t, before, parts.download(parts.params))
			parts.call(b)
			whole.call(mean)
		}
		sameBits(t, whole.download(whole.params), parts.download(parts.params))
		want := whole.tensors()
		for tensor, got := range parts.tensors() {
			if !strings.HasPrefix(tensor, "acc/") {
				sameBits(t, []buffers.Host{vector(tensor, want[tensor]...)}, []buffers.Host{vector(tensor, got...)})
			}
		}
	})
}

func TestEveryOptimizerIsRestoredInTheMiddleOfAnAccumulation(t *testing.T) {
	eachOptimizer(t, func(t *testing.T, d *gpu.Device, name string) {
		clip := 0.5
		tx := built(t, name, Options{
			Schedule: ScheduleConfig{Type: "linear", LearningRate: 0.1, LearningRateEnd: new(0.0), Steps: 9},
			ClipGrad: &clip, AccumulationSteps: 2, SkipNonFinite: true,
		}, smallOf(t, name))
		r := rand.New(rand.NewPCG(37, 38))
		first := newRig(t, d, tx, randomTree(r, everySpecs, 1), buffers.F32)
		for range 5 {
			first.call(randomTree(r, everySpecs, 1))
		}
		second := first.again(func(to buffers.Tensor, raw []byte) error { return to.Write(raw) })
		for range 4 {
			g := randomTree(r, everySpecs, 1)
			first.call(g)
			second.call(g)
		}
		sameBits(t, first.download(first.params), second.download(second.params))
		want := first.tensors()
		for tensor, got := range second.tensors() {
			sameBits(t, []buffers.Host{vector(tensor, want[tensor]...)}, []buffers.Host{vector(tensor, got...)})
		}
		assert.Equal(t, first.state.Counts(), second.state.Counts())
		assert.Equal(t, []int64{4, 1}, []int64{first.state.Counts()["updates"], first.state.Counts()["mini_step"]})
		assert.Equal(t, first.state.LearningRate(), second.state.LearningRate())
		assert.InDelta(t, 0.1*(1-3.0/9), first.state.LearningRate(), 1e-15)
	})
}

func TestEveryOptimizerSkipsOneNaN(t *testing.T) {
	eachOptimizer(t, func(t *testing.T, d *gpu.Device, name string) {
		r := rand.New(rand.NewPCG(39, 40))
		clip := 0.5
		tx := built(t, name, Options{Schedule: rate(0.1), ClipGrad: &clip, WeightDecay: 0.1, SkipNonFinite: true}, smallOf(t, name))
		rig := newRig(t, d, tx, randomTree(r, everySpecs, 1), buffers.F32)
		rig.call(randomTree(r, everySpecs, 1))
		params, state := rig.download(rig.params), rig.tensors()
		for leaf := range everySpecs {
			grads := randomTree(r, everySpecs, 1)
			if n := len(grads[leaf].Data); n > 0 {
				grads[leaf].Data[n-1] = float32([]float64{math.NaN(), math.Inf(1), math.Inf(-1)}[leaf%3])
				rig.call(grads)
				assert.True(t, rig.statistics().NonFinite)
				sameBits(t, params, rig.download(rig.params))
			}
		}
		for tensor, got := range rig.tensors() {
			sameBits(t, []buffers.Host{vector(tensor, state[tensor]...)}, []buffers.Host{vector(tensor, got...)})
		}
		assert.Equal(t, uint32(len(everySpecs)-1), rig.statistics().Skipped)
		rig.call(randomTree(r, everySpecs, 1))
		assert.False(t, rig.statistics().NonFinite)
		assert.NotEqual(t, params, rig.download(rig.params), "it goes on")
	})
}

func TestEveryOptimizerMakesNothingAfterTheSecondStep(t *testing.T) {
	eachOptimizer(t, func(t *testing.T, d *gpu.Device, name string) {
		r := rand.New(rand.NewPCG(41, 42))
		clip := 1.0
		tx := built(t, name, Options{Schedule: rate(0.1), ClipGrad: &clip, AccumulationSteps: 2}, smallOf(t, name))
		rig := newRig(t, d, tx, randomTree(r, everySpecs, 1), buffers.F32)
		g := randomTree(r, everySpecs, 1)
		for range 4 {
			rig.call(g)
		}
		before := d.Counters()
		for range 3 {
			rig.call(g)
		}
		after := d.Counters()
		assert.Equal(t, []any{before.Pipelines, before.BindGroups, before.Buffers, before.LiveBytes, before.Submits + 3},
			[]any{after.Pipelines, after.BindGroups, after.Buffers, after.LiveBytes, after.Submits})
	})
}

// reaches tells whether one of the rates brings a loss below what is asked for; the first does that. A rate that fits depends on the
// optimizer's units: of signs, of gradients, of whole leaves.
func reaches(t *testing.T, rates []float64, part float64, descend func(lr float64) (first, last float64)) {
	t.Helper()
	for _, lr := range rates {
		first, last := descend(lr)
		t.Logf("rate %g: %.4g to %.4g", lr, first, last)
		if last < part*first {
			return
		}
	}
	assert.Fail(t, "no rate is good enough", "%v", rates)
}

// A parabola with a different slope in every direction, on the device, gradients too.
func TestEveryOptimizerConvergesOnAParabola(t *testing.T) {
	eachOptimizer(t, func(t *testing.T, d *gpu.Device, name string) {
		const steps = 150
		reaches(t, []float64{0.3, 0.05}, 1e-2, func(lr float64) (float64, float64) {
			tx := built(t, name, Options{Schedule: ScheduleConfig{Type: "cosine", LearningRate: lr, Steps: steps}}, smallOf(t, name))
			r := rand.New(rand.NewPCG(43, 44))
			specs := []buffers.Spec{{Path: "m", Shape: []int{24, 40}}, {Path: "v", Shape: []int{33}}}
			rig := newRig(t, d, tx, randomTree(r, specs, 1), buffers.F32)
			target, err := buffers.Upload(d, "target", randomTree(r, specs, 2), buffers.F32)
			require.NoError(t, err)
			defer target.Release()
			rec := d.Record("gradient")
			require.NoError(t, buffers.Map(rec, rig.grads, "(a - b) * vec4<f32>(0.5, 1.0, 1.5, 2.0)", rig.params, target))
			gradient := programOf(t, rec)
			loss := func() float64 {
				sum, want := 0.0, rig.download(target)
				for i, h := range rig.download(rig.params) {
					for k, v := range h.Data {
						sum += math.Pow(float64(v-want[i].Data[k]), 2)
					}
				}
				return sum
			}
			first := loss()
			for range steps {
				phase, err := rig.state.Prepare()
				require.NoError(t, err)
				require.NoError(t, d.Submit(t.Context(), gradient, rig.programs[phase]))
			}
			return first, loss()
		})
	})
}

// Rosenbrock's valley in every pair (x, y) of two leaves, from the usual start: what takes many turns.
func TestEveryOptimizerFollowsRosenbrock(t *testing.T) {
	for _, name := range registered() {
		t.Run(name, func(t *testing.T) {
			const steps = 1500
			reaches(t, []float64{0.2, 0.05, 0.01, 0.0003}, 1e-3, func(lr float64) (float64, float64) {
				tx := built(t, name, Options{Schedule: ScheduleConfig{Type: "cosine", LearningRate: lr, Steps: steps}}, smallOf(t, name))
				at := []buffers.Host{{Path: "x", Shape: []int{3, 2}, Data: []float32{-1.2, 0, 0.5, -1, 2, 1.5}}, {Path: "y", Shape: []int{3, 2}, Data: []float32{1, 1, -1, 0, 0, 2}}}
				twin, err := NewTwin(tx, at)
				require.NoError(t, err)
				valley := func() (loss float64, grads []buffers.Host) {
					p := twin.Params()
					grads = []buffers.Host{{Path: "x", Shape: at[0].Shape, Data: make([]float32, 6)}, {Path: "y", Shape: at[1].Shape, Data: make([]float32, 6)}}
					for i := range 6 {
						x, y := float64(p[0].Data[i]), float64(p[1].Data[i])
						loss += (1-x)*(1-x) + 100*(y-x*x)*(y-x*x)
						grads[0].Data[i] = float32(-2*(1-x) - 400*x*(y-x*x))
						grads[1].Data[i] = float32(200 * (y - x*x))
					}
					return loss, grads
				}
				first, _ := valley()
				for range steps {
					_, grads := valley()
					require.NoError(t, twin.Update(grads))
				}
				last, _ := valley()
				return first, last
			})
		})
	}
}

// The update of the transposed gradient is the transposed update, where there is no noise and one block: several stand in another order and
// draw other numbers.
func TestKroneckerUpdatesTranspose(t *testing.T) {
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		for _, name := range []string{"quad", "skew"} {
			tx := built(t, name, Options{Schedule: rate(0.1)}, `{"block_size":32,"damping":0}`)
			transposes(t, d, tx, [2]int{29, 21}, 5, 1e-6)
		}
	}, small)
}

// transposes asserts that a transformation makes of the transposes of some gradients, of that shape, the transposed update, within a difference.
func transposes(t *testing.T, d *gpu.Device, tx Transform, shape [2]int, calls int, within float64) {
	t.Helper()
	m, n := shape[0], shape[1]
	r := rand.New(rand.NewPCG(45, 46))
	zero := func(m, n int) []buffers.Host {
		return []buffers.Host{{Path: "w", Shape: []int{m, n}, Data: make([]float32, m*n)}}
	}
	a, b := newRig(t, d, tx, zero(m, n), buffers.F32), newRig(t, d, tx, zero(n, m), buffers.F32)
	for range calls {
		g, h := zero(m, n), zero(n, m)
		for i := range m {
			for j := range n {
				v := float32(r.NormFloat64())
				g[0].Data[i*n+j], h[0].Data[j*m+i] = v, v
			}
		}
		a.call(g)
		b.call(h)
	}
	got, want := a.download(a.params)[0].Data, b.download(b.params)[0].Data
	for i := range m {
		for j := range n {
			require.InDelta(t, want[j*m+i], got[i*n+j], within, "%d %d", i, j)
		}
	}
}
