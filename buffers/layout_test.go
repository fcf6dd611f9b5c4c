package buffers

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/gpu"
)

func limits(bindingBytes uint64) gpu.Limits {
	l := gpu.DefaultLimits()
	l.BindingBytes = bindingBytes
	return l
}

// requireSound checks what every user of a layout relies on: the parts of a leaf are all its rows in order, each part is
// aligned and inside its slab, no two parts share a block, every block belongs to a leaf.
func requireSound(t *testing.T, l *Layout, lim gpu.Limits) {
	t.Helper()
	owner := make([][]int, len(l.Slabs()))
	for s, n := range l.Slabs() {
		require.Zero(t, n%BlockElements)
		require.NotZero(t, n)
		require.LessOrEqual(t, uint64(n)*4, lim.BindingBytes)
		owner[s] = make([]int, n/BlockElements)
		for b := range owner[s] {
			owner[s][b] = -1
		}
	}
	total := 0
	for i, leaf := range l.Leaves() {
		require.Equal(t, i, leaf.Index)
		if i > 0 {
			require.Less(t, l.Leaves()[i-1].Path, leaf.Path)
		}
		found, ok := l.Leaf(leaf.Path)
		require.True(t, ok)
		require.Equal(t, leaf, found)
		row, count := 0, 0
		for _, p := range leaf.Parts {
			require.Equal(t, row, p.Row)
			require.Positive(t, p.Rows)
			require.Equal(t, p.Rows*leaf.rowElements(), p.Count)
			require.Zero(t, p.Offset%BlockElements)
			require.LessOrEqual(t, p.Offset+p.Count, l.Slabs()[p.Slab])
			for b := p.Offset / BlockElements; b*BlockElements < p.Offset+p.Count; b++ {
				require.Equal(t, -1, owner[p.Slab][b], "leaf %q shares block %d", leaf.Path, b)
				owner[p.Slab][b] = i
			}
			row += p.Rows
			count += p.Count
		}
		require.Equal(t, leaf.Elements(), count, "leaf %q", leaf.Path)
		total += count
	}
	require.Equal(t, total, l.Elements())
	for s := range owner {
		require.NotContains(t, owner[s], -1, "slab %d", s)
	}
}

func TestLayoutPlaces(t *testing.T) {
	lim := limits(4 * 512)
	l, err := NewLayout([]Spec{
		{Path: "w", Shape: []int{5, 200}},    // two rows a slab: 2, 2, 1
		{Path: "a", Shape: []int{3}},         // one block
		{Path: "scalar", Shape: nil},         // one element
		{Path: "none", Shape: []int{4, 0}},   // no part
		{Path: "full", Shape: []int{512}},    // a whole slab
		{Path: "Upper", Shape: []int{2, 64}}, // sorted before the lower case
	}, lim)
	require.NoError(t, err)
	requireSound(t, l, lim)
	var paths []string
	for _, leaf := range l.Leaves() {
		paths = append(paths, leaf.Path)
	}
	assert.Equal(t, []string{"Upper", "a", "full", "none", "scalar", "w"}, paths)
	leaf := func(path string) Leaf { leaf, _ := l.Leaf(path); return leaf }
	assert.Equal(t, []Part{{Slab: 0, Offset: 0, Count: 128, Rows: 2}}, leaf("Upper").Parts)
	assert.Equal(t, []Part{{Slab: 0, Offset: 128, Count: 3, Rows: 3}}, leaf("a").Parts)
	assert.Equal(t, []Part{{Slab: 1, Offset: 0, Count: 512, Rows: 512}}, leaf("full").Parts)
	assert.Empty(t, leaf("none").Parts)
	assert.Equal(t, []Part{{Slab: 0, Offset: 256, Count: 1, Rows: 1}}, leaf("scalar").Parts)
	assert.Equal(t, []Part{
		{Slab: 2, Offset: 0, Count: 400, Row: 0, Rows: 2},
		{Slab: 3, Offset: 0, Count: 400, Row: 2, Rows: 2},
		{Slab: 4, Offset: 0, Count: 200, Row: 4, Rows: 1},
	}, leaf("w").Parts)
	assert.Equal(t, []int{384, 512, 512, 512, 256}, l.Slabs())
	assert.Equal(t, 128+3+512+1+1000, l.Elements())
	assert.EqualValues(t, 2176*4, l.Bytes(F32))
	assert.EqualValues(t, 2176*2, l.Bytes(BF16))
	_, ok := l.Leaf("W")
	assert.False(t, ok)
}

func TestLayoutFillsSlabs(t *testing.T) {
	l, err := NewLayout([]Spec{{Path: "a", Shape: []int{256}}, {Path: "b", Shape: []int{255}}, {Path: "c", Shape: []int{384}}, {Path: "d", Shape: nil}}, limits(4*512))
	require.NoError(t, err)
	requireSound(t, l, limits(4*512))
	assert.Equal(t, []int{512, 512}, l.Slabs())
}

// The embedding of GPT-2 in the 128 MiB bindings of software adapters: 43690 rows fit, 43648 is the multiple of 64 below.
func TestLayoutOfEmbedding(t *testing.T) {
	lim := limits(128 << 20)
	l, err := NewLayout([]Spec{{Path: "wte.weight", Shape: []int{50257, 768}}, {Path: "wpe.weight", Shape: []int{1024, 768}}}, lim)
	require.NoError(t, err)
	requireSound(t, l, lim)
	wte, _ := l.Leaf("wte.weight")
	require.Len(t, wte.Parts, 2)
	assert.Equal(t, 43648, wte.Parts[0].Rows)
	assert.Equal(t, 50257-43648, wte.Parts[1].Rows)
	assert.Len(t, l.Slabs(), 2, "the rest of the embedding shares a slab with the positions")
}

func TestLayoutRandom(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		lim := limits(uint64(4 * BlockElements * (1 + rng.IntN(16))))
		var specs []Spec
		for i := range rng.IntN(20) {
			shape := make([]int, rng.IntN(4))
			for j := range shape {
				shape[j] = rng.IntN(12)
			}
			if rng.IntN(3) == 0 {
				shape = []int{rng.IntN(3000)}
			}
			specs = append(specs, Spec{Path: fmt.Sprintf("leaf.%d", i), Shape: shape})
		}
		l, err := NewLayout(specs, lim)
		if err != nil {
			require.ErrorContains(t, err, "a row of")
			continue
		}
		requireSound(t, l, lim)
		rng.Shuffle(len(specs), func(i, j int) { specs[i], specs[j] = specs[j], specs[i] })
		again, err := NewLayout(specs, lim)
		require.NoError(t, err)
		require.True(t, l.Equal(again), "the order of the specs does not matter")
	}
}

func TestLayoutErrors(t *testing.T) {
	for name, c := range map[string]struct {
		specs []Spec
		bytes uint64
		want  string
	}{
		"empty path": {[]Spec{{Path: "", Shape: []int{2}}}, 1 << 20, "path is empty"},
		"twice":      {[]Spec{{Path: "a", Shape: nil}, {Path: "b", Shape: nil}, {Path: "a", Shape: []int{2}}}, 1 << 20, `leaf "a": given twice`},
		"negative":   {[]Spec{{Path: "a", Shape: []int{2, -1}}}, 1 << 20, `leaf "a": shape [2 -1]: dimension -1 is negative`},
		"hidden":     {[]Spec{{Path: "a", Shape: []int{0, -1}}}, 1 << 20, "negative"},
		"overflow":   {[]Spec{{Path: "a", Shape: []int{1 << 32, 1 << 32}}}, 1 << 20, "more than"},
		"huge":       {[]Spec{{Path: "a", Shape: []int{math.MaxInt}}}, 1 << 20, "more than"},
		"wide row":   {[]Spec{{Path: "a", Shape: []int{2, 129}}}, 512, `leaf "a": shape [2 129]: a row of 129 elements, a slab holds 128`},
		"no binding": {nil, 511, "limit BindingBytes 511, want at least 512"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := NewLayout(c.specs, limits(c.bytes))
			require.ErrorContains(t, err, c.want)
			require.ErrorContains(t, err, "buffers: layout: ")
		})
	}
	l, err := NewLayout([]Spec{{Path: "a", Shape: []int{0, math.MaxInt, math.MaxInt}}}, limits(512))
	require.NoError(t, err, "no elements, no matter how large the rest")
	assert.Zero(t, l.Elements())
	assert.Empty(t, l.Slabs())
}

func TestLayoutDifference(t *testing.T) {
	lim := limits(1 << 12)
	base := []Spec{{Path: "a", Shape: []int{2, 3}}, {Path: "b", Shape: []int{4}}, {Path: "c", Shape: nil}}
	l, err := NewLayout(base, lim)
	require.NoError(t, err)
	for want, specs := range map[string][]Spec{
		"":                              base,
		`leaf "c" is missing`:           base[:2],
		`leaf "a" is missing`:           base[1:],
		`leaf "d" is unknown here`:      append(base[:3:3], Spec{Path: "d", Shape: nil}),
		`leaf "Z" is unknown here`:      append(base[:3:3], Spec{Path: "Z", Shape: nil}),
		`leaf "b": shape [5], want [4]`: {base[0], {Path: "b", Shape: []int{5}}, base[2]},
	} {
		other, err := NewLayout(specs, lim)
		require.NoError(t, err)
		assert.Equal(t, want, l.difference(other))
		assert.Equal(t, want == "", l.Equal(other))
	}
	elsewhere, err := NewLayout(base, limits(512))
	require.NoError(t, err)
	assert.Equal(t, `leaf "b": placed at [{1 0 4 0 4}], want [{0 128 4 0 4}]`, l.difference(elsewhere))
}

func TestSubsetKeepsSlabs(t *testing.T) {
	limits := gpu.DefaultLimits()
	limits.BindingBytes = 4 * 1024
	specs := []Spec{{Path: "a", Shape: []int{600}}, {Path: "b", Shape: []int{40, 64}}, {Path: "c", Shape: nil}, {Path: "d", Shape: []int{0, 3}}, {Path: "e", Shape: []int{130}}}
	whole, err := NewLayout(specs, limits)
	require.NoError(t, err)
	require.Greater(t, len(whole.Slabs()), 2)
	some := whole.Subset(func(l Leaf) bool { return l.Path != "a" && l.Path != "c" })
	require.Len(t, some.Slabs(), len(whole.Slabs()))
	assert.Equal(t, 40*64+130, some.Elements())
	used := make([]int, len(some.Slabs()))
	for i, leaf := range some.Leaves() {
		old, ok := whole.Leaf(leaf.Path)
		require.True(t, ok)
		assert.Equal(t, i, leaf.Index)
		found, ok := some.Leaf(leaf.Path)
		assert.True(t, ok)
		assert.Equal(t, leaf, found)
		require.Len(t, leaf.Parts, len(old.Parts))
		for k, p := range leaf.Parts {
			q := old.Parts[k]
			assert.Equal(t, []int{q.Slab, q.Count, q.Row, q.Rows}, []int{p.Slab, p.Count, p.Row, p.Rows})
			assert.Equal(t, used[p.Slab], p.Offset, "no gap, no overlap")
			used[p.Slab] += roundUp(p.Count)
		}
	}
	for i, n := range some.Slabs() {
		assert.Equal(t, max(used[i], BlockElements), n)
	}
	none := whole.Subset(func(Leaf) bool { return false })
	assert.Equal(t, BlockElements, none.Slabs()[0], "a binding is never empty")
	_, ok := some.Leaf("a")
	assert.False(t, ok)
}

// Parts beside each other make one run; those of two slabs never do, though one begins where the other ends.
func TestRunsStayInTheirSlabs(t *testing.T) {
	l, err := NewLayout([]Spec{{Path: "a", Shape: []int{384}}, {Path: "b", Shape: []int{384}}, {Path: "c", Shape: []int{128}}, {Path: "d", Shape: []int{128}}}, limits(4*512))
	require.NoError(t, err)
	of := func(paths ...string) []Part {
		return l.runs(func(leaf Leaf) bool { return slices.Contains(paths, leaf.Path) })
	}
	assert.Equal(t, []Part{{Slab: 0, Offset: 0, Count: 512}}, of("a", "c"))
	assert.Equal(t, []Part{{Slab: 0, Offset: 0, Count: 384}, {Slab: 1, Offset: 384, Count: 128}}, of("a", "d"))
	assert.Equal(t, []Part{{Slab: 0, Offset: 0, Count: 512}, {Slab: 1, Offset: 0, Count: 512}}, l.runs(nil))
}
