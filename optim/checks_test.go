package optim

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/internal/gputest"
)

func TestChecksPass(t *testing.T) {
	gputest.Checks(t, Checks())
}

// One element of the chain spoiled, and a check fails.
func TestChecksFailOnAWrongKernel(t *testing.T) {
	d := gputest.Device(t)
	tx := Trace(0.9, false)
	tx.elements[0].WGSL = "$trace = u + 0.9001 * $trace;\nu = $trace;"
	r, err := follow(t.Context(), d, tx)
	require.NoError(t, err)
	assert.Greater(t, r.MaxError, 1e-5)
}

func TestFusedText(t *testing.T) {
	p, err := newPlan(Accumulate(2, SkipNonFinite(Chain(ClipByGlobalNorm(1), Trace(0.5, false), AddDecayedWeights(1, MaskMatrices())))))
	require.NoError(t, err)
	assert.Equal(t, []int{1}, normsBefore(p), "skip and clip share the measurement of the mean")
	update := p.fuse(job{kind: updateJob})
	var places []int
	for _, o := range update.operands {
		places = append(places, o.place)
	}
	assert.Equal(t, []int{gradsPlace, paramsPlace, 0, 1}, places)
	assert.Contains(t, update.kernel.Source, "acc_data[i] = select(vec4<f32>(0.0), acc, live);\nif (statistics[0].y == 0u) { trace_data[i]",
		"the accumulation is stored on a skipped update too, other state is not")
	norm := p.fuse(job{kind: measureJob})
	require.Len(t, norm.operands, 2, "gradient and accumulation, neither stored")
	assert.NotContains(t, norm.kernel.Source, "_data[i] =")
	for _, b := range norm.kernel.Bindings[:len(norm.kernel.Bindings)-1] {
		assert.NotEqual(t, gpu.ReadWrite, b.Access, b.Name)
	}
	again := p.fuse(job{kind: updateJob})
	assert.Equal(t, update.kernel, again.kernel, "one source, one pipeline")
}

func TestUnknownNameInAnElementIsABug(t *testing.T) {
	p, err := newPlan(Transform{elements: []Element{{Name: "odd", WGSL: "u = $nothing;", Twin: func(*Cell) {}}}}) // Elementwise refuses it
	require.NoError(t, err)
	assert.PanicsWithValue(t, "optim: fuse: odd: unknown name $nothing", func() { p.fuse(job{kind: updateJob}) })
}

// normsBefore lists the steps that norms are taken before.
func normsBefore(p *plan) (before []int) {
	for _, m := range p.norms {
		before = append(before, p.measured[m].before)
	}
	return before
}

func TestMeasurementsAreShared(t *testing.T) {
	clip, scale := ClipByGlobalNorm(1), Scale(2)
	for name, c := range map[string]struct {
		tx   Transform
		want []int
	}{
		"none":            {scale, nil},
		"statistics only": {globalNorm(), []int{0}},
		"shared":          {SkipNonFinite(Chain(globalNorm(), clip)), []int{0}},
		"after a change":  {Chain(globalNorm(), scale, clip, scale), []int{0, 2}},
		"after a clip":    {Chain(clip, clip), []int{0, 1}},
		"skip first":      {SkipNonFinite(Chain(scale, clip)), []int{0, 1}},
		"with leaves":     {Chain(scale, normalizeByLeaf(1), globalNorm(), ClipByLeafRMS(1)), []int{2}},
	} {
		p, err := newPlan(c.tx)
		require.NoError(t, err)
		assert.Equal(t, c.want, normsBefore(p), name)
		assert.Len(t, p.measured, len(c.want)+map[bool]int{true: 1}[name == "with leaves"], "leaves share them too")
	}
}

func TestTableOfLeaves(t *testing.T) {
	layout, err := buffers.NewLayout([]buffers.Spec{{Path: "a", Shape: []int{130}}, {Path: "b", Shape: []int{300, 5}}},
		gpu.Limits{BindingBytes: 4 * 1024})
	require.NoError(t, err)
	p, err := newPlan(Chain(ScaleByAdam(Adam{B1: 0.9, B2: 0.9, MuDType: "bf16"}, Stable), AddDecayedWeights(1, MaskMatrices())))
	require.NoError(t, err)
	r, err := p.resolve(layout.Leaves(), Transform{}.whole(specs(layout.Leaves())))
	require.NoError(t, err)
	assert.Equal(t, []float32{0, 1}, r.values)
	var rows [][]uint32
	for slab := range layout.Slabs() {
		words, values := p.table(layout, slab, r, nil, nil), p.tableValues(layout, slab)
		assert.Equal(t, []uint32{0, 0x3f800000}, words[values:])
		for i := uint32(0); i < values; i += 3 {
			rows = append(rows, words[i:i+3])
		}
	}
	a, b := pathKey("a"), pathKey("b")
	assert.NotEqual(t, a, b)
	require.Equal(t, []uint32{0<<8 | 128, a, 0}, rows[0])
	require.Equal(t, []uint32{0<<8 | 2, a, 32}, rows[1])
	last, elements := rows[len(rows)-1], uint32(0)
	for _, r := range rows {
		if r[1] == b {
			elements += r[0] & 0xff
			assert.Equal(t, uint32(1), r[0]>>8)
		}
	}
	assert.Equal(t, uint32(1500), elements)
	assert.Equal(t, b, last[1])
}
