package histogram

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
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

// Leaves in several parts and slabs, on a device with small limits.
func TestLeavesInParts(t *testing.T) {
	limits := gpu.Limits{BindingBytes: 40 << 10}
	d := gputest.Device(t, gputest.WithLimits(limits))
	var leaves []buffers.Host
	random := rand.New(rand.NewPCG(3, 4))
	for i, shape := range [][]int{{200, 100}, {7, 9000}, {16001}} {
		h := buffers.Host{Path: "Large." + string(rune('a'+i)), Shape: shape, Data: make([]float32, buffers.Leaf{Shape: shape}.Elements())}
		for k := range h.Data {
			h.Data[k] = float32(random.ExpFloat64())
		}
		leaves = append(leaves, h)
	}
	r, err := follow(t.Context(), d, append(leaves, checkLeaves()...))
	require.NoError(t, err)
	assert.True(t, r.MaxError <= r.Tolerance, "%s: %g", r.Worst, r.MaxError)
}

// The twin against what can be counted by hand.
func TestOf(t *testing.T) {
	var line []float32
	for i := range 65 {
		line = append(line, float32(i))
	}
	h := Of("line", append(line, float32(math.NaN()), float32(math.Inf(-1))))
	assert.EqualValues(t, 67, h.Elements)
	assert.EqualValues(t, 2, h.NonFinite)
	assert.Equal(t, []float64{0, 64, 32}, []float64{h.Min, h.Max, h.Mean})
	assert.InDelta(t, math.Sqrt((65*65-1)/12.0), h.Deviation, 1e-12, "of 65 numbers one apart")
	for k, n := range h.Counts[:63] {
		assert.EqualValues(t, 1, n, k)
	}
	assert.EqualValues(t, 2, h.Counts[63], "the last bin has its upper edge")

	h = Of("alike", []float32{3, 3, 3})
	assert.Equal(t, Histogram{Name: "alike", Elements: 3, Min: 3, Max: 3, Mean: 3, Counts: [Bins]uint32{3}}, h)
	for _, data := range [][]float32{nil, {float32(math.NaN())}} {
		h = Of("none", data)
		assert.EqualValues(t, len(data), h.NonFinite)
		assert.True(t, math.IsNaN(h.Min) && math.IsNaN(h.Max) && math.IsNaN(h.Mean) && math.IsNaN(h.Deviation))
		assert.Zero(t, h.Counts)
	}
}

// Numbers between the leaves are none of theirs; neither are leaves that do not match. A second count begins from nothing, and sees what
// has changed.
func TestCountsOnlyWhatMatches(t *testing.T) {
	d := gputest.Device(t)
	hosts := []buffers.Host{
		{Path: "a", Shape: []int{130}, Data: make([]float32, 130)},
		{Path: "b", Shape: []int{0, 5}},
		{Path: "c", Shape: []int{3}, Data: []float32{-1, 0.5, 0.5}},
		{Path: "d", Shape: []int{127}, Data: make([]float32, 127)},
	}
	tree, err := buffers.Upload(d, "params", hosts, buffers.F32)
	require.NoError(t, err)
	defer tree.Release()
	far := make([]byte, tree.Slab(0).Bytes)
	for i := 0; i < len(far); i += 4 {
		binary.LittleEndian.PutUint32(far[i:], math.Float32bits(-1e30))
	}
	require.NoError(t, d.Write(tree.Slab(0), far))
	for _, h := range hosts {
		require.NoError(t, tree.Write(h.Path, h.Data))
	}
	c, err := New(t.Context(), func(name string) bool { return name != "w/a" }, Source{"w", tree})
	require.NoError(t, err)
	defer c.Release()
	before := d.Counters()
	for round := range 2 {
		require.NoError(t, c.Submit(t.Context()))
		got, err := c.Take(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 2, c.Len())
		data := []float32{-1, 0.5, 0.5}
		if round == 1 {
			data = []float32{2, 4, 6}
		}
		assert.Equal(t, []Histogram{Of("w/c", data), Of("w/d", hosts[3].Data)}, got)
		require.NoError(t, tree.Write("c", []float32{2, 4, 6}))
	}
	after := d.Counters()
	assert.Equal(t, before.Buffers, after.Buffers)
	assert.Equal(t, before.BindGroups, after.BindGroups)
	assert.Equal(t, uint64(6), after.Dispatches-before.Dispatches, "of each count the range and the bins of one slab, and a fold")
}

func TestSourcesThatCannotBeCounted(t *testing.T) {
	d, other := gpu.Dry(gpu.Limits{}), gpu.Dry(gpu.Limits{})
	tree := func(d *gpu.Device, dtype buffers.DType) *buffers.Tree {
		layout, err := buffers.NewLayout([]buffers.Spec{{Path: "a", Shape: []int{4}}}, d.Limits())
		require.NoError(t, err)
		made, err := buffers.NewTree(d, "t", layout, dtype)
		require.NoError(t, err)
		return made
	}
	one := Source{"one", tree(d, buffers.F32)}
	_, err := New(t.Context(), nil, one, Source{"two", tree(d, buffers.BF16)})
	assert.ErrorContains(t, err, "two: found dtype bf16, wanted f32")
	_, err = New(t.Context(), nil, one, Source{"two", tree(other, buffers.F32)})
	assert.ErrorContains(t, err, "two: found a tree of another device")
	_, err = New(t.Context(), func(string) bool { return false }, one)
	assert.ErrorContains(t, err, "found none")
	before := d.Counters().LiveBytes
	c, err := New(t.Context(), nil, one)
	require.NoError(t, err)
	assert.Equal(t, before+c.Bytes(), d.Counters().LiveBytes)
	c.Release()
	assert.Equal(t, before, d.Counters().LiveBytes)
}

// What the comparison is for: one element in the wrong bin, one that is missing, figures a little off.
func TestCompareRejectsWhatIsWrong(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	data := make([]float32, 3000)
	for i := range data {
		data[i] = float32(random.NormFloat64())
	}
	good := Of("x", data)
	e, _ := compare(good, data)
	assert.Zero(t, e)
	for name, spoil := range map[string]func(*Histogram){
		"a count too many":   func(h *Histogram) { h.Counts[20]++ },
		"a count too few":    func(h *Histogram) { h.Counts[63]-- },
		"a neighbouring bin": func(h *Histogram) { h.Counts[30]--; h.Counts[31]++ },
		"shifted":            func(h *Histogram) { copy(h.Counts[1:], good.Counts[:63]); h.Counts[0] = good.Counts[63] },
		"min":                func(h *Histogram) { h.Min = math.Nextafter(h.Min, 0) },
		"max":                func(h *Histogram) { h.Max = math.NaN() },
		"mean":               func(h *Histogram) { h.Mean += 2e-5 },
		"no mean":            func(h *Histogram) { h.Mean = math.NaN() },
		"deviation":          func(h *Histogram) { h.Deviation *= 1.0001 },
		"elements":           func(h *Histogram) { h.Elements-- },
		"non-finite":         func(h *Histogram) { h.NonFinite++ },
	} {
		bad := good
		spoil(&bad)
		e, where := compare(bad, data)
		assert.False(t, e <= 1, "%s: %g", name, e)
		assert.NotEmpty(t, where, name)
	}
}
