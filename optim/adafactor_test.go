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

// factoredSpecs have all orders of their two largest axes, with others before, between and after; rows of whole vec4s
// and others; leaves in one slab of 16,384 elements and in several; sides of one tile, of several, and beyond a block
// of sums.
var factoredSpecs = []buffers.Spec{
	{Path: "batch", Shape: []int{3, 20, 40}},
	{Path: "between", Shape: []int{40, 3, 36}},
	{Path: "bias", Shape: []int{100}},
	{Path: "conv", Shape: []int{24, 17, 3, 2}},
	{Path: "cube", Shape: []int{20, 20, 20}},
	{Path: "empty", Shape: []int{0, 64, 64}},
	{Path: "flat", Shape: []int{3, 60}},
	{Path: "four", Shape: []int{2, 19, 3, 17}},
	{Path: "middle", Shape: []int{17, 5, 16, 4}},
	{Path: "scalar"},
	{Path: "sq", Shape: []int{64, 64}},
	{Path: "tall", Shape: []int{700, 68}},            // three slabs, whole vec4s
	{Path: "tall.odd", Shape: []int{1300, 31}},       // the largest axis is cut
	{Path: "wide", Shape: []int{150, 260}},           // the second largest axis is cut
	{Path: "wide.scanned", Shape: []int{70, 16, 48}}, // matrices in several slabs
}

func plainFactoredRMS(least int) Transform {
	return ScaleByFactoredRMS(FactoredRMSOptions{MinDimSizeToFactor: least, DecayRate: 0.8, Eps: 1e-30})
}

func TestFactoredRMSFollowsTheTwin(t *testing.T) {
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		// Sums of up to 1,300 squares, of partial sums; roots halve their errors.
		followTwin(t, d, Chain(plainFactoredRMS(16), Scale(-0.01)), factoredSpecs, 3, tolerance{1e-5, 1e-5}, tolerance{1e-5, 1e-5})
	}, small)
}

func TestAdafactorFollowsTheTwin(t *testing.T) {
	schedule := ScheduleConfig{Type: "cosine", LearningRate: 0.05, Steps: 8, WarmupSteps: 2}
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		for name, tx := range map[string]Transform{
			"defaults": built(t, "adafactor", Options{Schedule: schedule, SkipNonFinite: true}, `{"min_dim_size_to_factor":16}`),
			"momentum": built(t, "adafactor", Options{Schedule: schedule, WeightDecayMask: MaskMatrices()},
				`{"min_dim_size_to_factor":16,"momentum":0.9,"weight_decay_rate":0.01,"decay_offset":-3}`),
			"accumulated": built(t, "adafactor", Options{Schedule: schedule, AccumulationSteps: 2}, `{"min_dim_size_to_factor":16,"clipping_threshold":0.5}`),
			"nothing":     built(t, "adafactor", Options{Schedule: schedule}, `{}`),
		} {
			t.Run(name, func(t *testing.T) {
				followTwin(t, d, tx, factoredSpecs, 4, tolerance{1e-5, 1e-5}, tolerance{1e-5, 1e-5})
			})
		}
	}, small)
}

func TestAdafactorByHand(t *testing.T) {
	// G = [[1, 4], [9, 16]], means over columns 2.5, 12.5, of which the mean is 7.5, over rows 5, 10; of equal axes the later is the largest.
	m := buffers.Host{Path: "m", Shape: []int{1, 2, 2}, Data: []float32{0, 0, 0, 0}}
	g := buffers.Host{Path: "m", Data: []float32{1, -2, 3, 4}}
	twin, err := NewTwin(plainFactoredRMS(2), []buffers.Host{m})
	require.NoError(t, err)
	require.NoError(t, twin.Update([]buffers.Host{g}))
	root := func(row, col float64) float32 { return float32(1 / math.Sqrt(row/7.5*col)) }
	assert.InDeltaSlice(t, []float32{root(2.5, 5), -2 * root(2.5, 10), 3 * root(12.5, 5), 4 * root(12.5, 10)}, twin.Params()[0].Data, 1e-6)
	assert.Equal(t, []buffers.Host{{Path: "v_row/m", Shape: []int{1, 2}, Data: []float32{2.5, 12.5}}, {Path: "v_col/m", Shape: []int{1, 2}, Data: []float32{5, 10}}},
		twin.Tensors())
	// beta of the second update is 1 - 2^-0.8.
	require.NoError(t, twin.Update([]buffers.Host{{Path: "m", Data: []float32{0, 0, 0, 0}}}))
	assert.InDelta(t, 2.5*0.425650823, twin.Tensors()[0].Data[0], 1e-6)
	// Unfactored: the sign at first, then g over the root of a mean with weight 2^-0.8.
	assert.InDelta(t, 10+1-3/math.Sqrt(0.425650823*4+0.574349177*9), after(t, plainFactoredRMS(1), 10, 2, -3), 1e-6)
	assert.InDelta(t, 20, after(t, scaleByParamBlockRMS(5), 10, 1), 1e-5)
	assert.InDelta(t, 13, after(t, Chain(scaleByParamBlockRMS(25), Scale(0.12)), 10, 1), 1e-5)
}

// What is factored: the second largest side decides, and a leaf without elements is not.
func TestFactoredLeaves(t *testing.T) {
	var params []buffers.Host
	for path, shape := range map[string][]int{
		"vector": {200}, "matrix": {128, 130}, "narrow": {127, 5000}, "third": {2, 128, 128}, "first": {300, 2, 128}, "empty": {0, 128, 128}, "scalar": {},
	} {
		params = append(params, buffers.Host{Path: path, Shape: shape, Data: make([]float32, buffers.Leaf{Shape: shape}.Elements())})
	}
	shapes := func(tx Transform) map[string][]int {
		twin, err := NewTwin(tx, params)
		require.NoError(t, err)
		out := map[string][]int{}
		for _, h := range twin.Tensors() {
			out[h.Path] = h.Shape
		}
		return out
	}
	assert.Equal(t, map[string][]int{
		"v/vector": {200}, "v/narrow": {127, 5000}, "v/empty": {0, 128, 128}, "v/scalar": {},
		"v_row/matrix": {128}, "v_col/matrix": {130},
		"v_row/third": {2, 128}, "v_col/third": {2, 128},
		"v_row/first": {2, 128}, "v_col/first": {300, 2},
	}, shapes(built(t, "adafactor", Options{}, `{}`)))
	for name := range shapes(built(t, "adafactor", Options{}, `{"factored":false,"momentum":0.5}`)) {
		assert.True(t, strings.HasPrefix(name, "v/") || strings.HasPrefix(name, "ema/"), name)
	}
}

// The decay inside of the optimizer applies to all leaves in eformer's numerics, and to the mask's leaves in stable
// ones.
func TestAdafactorDecayInside(t *testing.T) {
	run := func(n Numerics) float32 {
		tx := built(t, "adafactor", Options{Schedule: rate(0.5), WeightDecayMask: MaskPatterns("a"), Numerics: n}, `{"weight_decay_rate":0.25}`)
		twin, err := NewTwin(tx, []buffers.Host{vector("a", 8), vector("b", 8)})
		require.NoError(t, err)
		require.NoError(t, twin.Update([]buffers.Host{vector("a", 0), vector("b", 0)}))
		assert.Equal(t, float32(6), twin.Params()[0].Data[0], "whatever the rate")
		return twin.Params()[1].Data[0]
	}
	assert.Equal(t, float32(8), run(Stable))
	assert.Equal(t, float32(6), run(EFormer))
}

// Dispatches depend on slabs, not on leaves: sums and foldings and scalings a slab, and one of means.
func TestFactoredDispatches(t *testing.T) {
	d := gpu.Dry(gpu.DefaultLimits())
	count := func(leaves int) (dispatches int) {
		var specs []buffers.Spec
		for i := range leaves {
			specs = append(specs, buffers.Spec{Path: string(rune('a' + i)), Shape: []int{256, 128}})
		}
		rig := newRig(t, d, plainFactoredRMS(128), randomTree(rand.New(rand.NewPCG(1, 1)), specs, 1), buffers.F32)
		return rig.programs[Emit].Dispatches()
	}
	assert.Equal(t, 4+2, count(1)) // and the update to and from the sums
	assert.Equal(t, 4+2, count(20))
}

// State is written in its own size alone, and a leaf without a gradient is no division by zero.
func TestFactoredState(t *testing.T) {
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		r := rand.New(rand.NewPCG(8, 8))
		tx := built(t, "adafactor", Options{Schedule: rate(0.1)}, `{"min_dim_size_to_factor":16,"momentum":0.5}`)
		first := newRig(t, d, tx, randomTree(r, factoredSpecs, 1), buffers.F32)
		for range 2 {
			first.call(randomTree(r, factoredSpecs, 1))
		}
		first.again(func(to buffers.Tensor, raw []byte) error {
			require.Error(t, to.Write(append(slices.Clone(raw), 0, 0, 0, 0)))
			return nil
		})
		third := newRig(t, d, tx, first.download(first.params), buffers.F32)
		third.call(randomTree(r, factoredSpecs, 0))
		sameBits(t, first.download(first.params), third.download(third.params))
	}, small)
}

// The last two of numpy.argsort(shape, kind="stable"), worked out by hand: of equal sides the later axis is the larger.
func TestLargestAxes(t *testing.T) {
	for _, c := range []struct{ shape, want []int }{
		{[]int{2, 3}, []int{1, 0}},
		{[]int{3, 2}, []int{0, 1}},
		{[]int{2, 2}, []int{1, 0}},
		{[]int{5, 3, 3}, []int{0, 2}},
		{[]int{3, 5, 3}, []int{1, 2}},
		{[]int{3, 3, 5}, []int{2, 1}},
		{[]int{4, 4, 4}, []int{2, 1}},
		{[]int{5, 5, 3}, []int{1, 0}},
		{[]int{1, 7, 7}, []int{2, 1}},
		{[]int{9, 1, 9, 2}, []int{2, 0}},
		{[]int{1, 2, 3, 4}, []int{3, 2}},
		{[]int{4, 3, 2, 1}, []int{0, 1}},
	} {
		first, second := largestAxes(c.shape)
		assert.Equal(t, c.want, []int{first, second}, c.shape)
	}
}

// The kernel of means that only hardware takes, on the adapters at hand.
func TestGroupedMeans(t *testing.T) {
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		o := FactoredRMSOptions{MinDimSizeToFactor: 3, DecayRate: 0.8, Eps: 1e-30}
		tx := ScaleByFactoredRMS(o)
		require.NotNil(t, tx.elements[0].operator)
		tx.elements[0].operator = factoredRMS{o, true}
		r, err := follow(t.Context(), d, Chain(tx, Scale(-0.1)))
		require.NoError(t, err)
		assert.LessOrEqual(t, r.MaxError, 1e-5, r.Worst)
	})
}
