package histogram

import (
	"context"
	"fmt"
	"math"
	"slices"

	"gputrain/buffers"
	"gputrain/buffers/prng"
	"gputrain/gpu"
)

// Checks are the self-checks of the kernels of this package against Of. Their error is in units of what rounding allows.
func Checks() []gpu.Check {
	return []gpu.Check{{Name: "buffers.histogram", Run: func(ctx context.Context, d *gpu.Device) (gpu.Result, error) {
		r, err := follow(ctx, d, checkLeaves())
		if err != nil {
			return r, fmt.Errorf("histogram: check: %w", err)
		}
		return r, nil
	}}}
}

// checkLeaves have sizes around a vec4, a workgroup and a group, and numbers of all kinds.
func checkLeaves() (out []buffers.Host) {
	key := prng.NewKey(45)
	add := func(scale, shift float64, shape ...int) []float32 {
		h := buffers.Host{Path: fmt.Sprintf("leaf.%02d", len(out)), Shape: shape}
		h.Data = make([]float32, buffers.Leaf{Shape: shape}.Elements())
		for i := range h.Data {
			h.Data[i] = float32(shift + scale*float64(key.FoldIn(uint32(len(out))).Normal(uint64(i))))
		}
		out = append(out, h)
		return h.Data
	}
	const group = 4 * groupVecs
	for _, n := range []int{1, 2, 3, 4, 5, 4*lanes - 1, 4 * lanes, 4*lanes + 1, group - 1, group, group + 1, 3*group + 130} {
		add(0.02, 0, n)
	}
	add(1, 0)            // a scalar
	add(1e-4, 1, 70, 67) // far from 0 for its width
	add(1e-30, 0, 300)   // squares that are no numbers any more
	add(1e36, 0, 300)    // and those that are too large
	add(0, 1, 2*group+9) // all alike
	add(0, 0, 40)        // and all 0
	copy(add(1, 0, 129), []float32{math.MaxFloat32, -math.MaxFloat32})
	copy(add(1, 0, 5000), []float32{1e6}) // one far out
	wild := add(1, 0, group+77)
	for i := range wild {
		switch i % 5 {
		case 0:
			wild[i] = float32(math.Inf(i%2*2 - 1))
		case 3:
			wild[i] = float32(math.NaN())
		}
	}
	nothing := add(1, 0, 6)
	for i := range nothing {
		nothing[i] = float32(math.NaN())
	}
	last := add(1, 0, 260)
	for i := range last[:259] {
		last[i] = float32(math.Inf(1))
	}
	edges := add(1, 0, 2*Bins+1)
	for i := range edges {
		edges[i] = float32(i) / 2
	}
	return out
}

// follow counts leaves in two trees on a device, and compares each with its twin.
func follow(ctx context.Context, d *gpu.Device, leaves []buffers.Host) (r gpu.Result, err error) {
	r.Tolerance = 1
	half := len(leaves) / 2
	var sources []Source
	for i, list := range [][]buffers.Host{leaves[:half], leaves[half:]} {
		tree, err := buffers.Upload(d, "histogram.check", list, buffers.F32)
		if err != nil {
			return r, err
		}
		defer tree.Release()
		sources = append(sources, Source{Name: fmt.Sprint("tree", i), Tree: tree})
	}
	c, err := New(ctx, nil, sources...)
	if err != nil {
		return r, err
	}
	defer c.Release()
	if err := c.Submit(ctx); err != nil {
		return r, err
	}
	list, err := c.Take(ctx)
	if err != nil {
		return r, err
	}
	if len(list) != len(leaves) {
		return r, fmt.Errorf("found %d histograms, wanted %d", len(list), len(leaves))
	}
	for i, h := range list {
		name := fmt.Sprintf("tree%d/%s", min(i/half, 1), leaves[i].Path)
		if h.Name != name {
			return r, fmt.Errorf("found a histogram of %q, wanted one of %q", h.Name, name)
		}
		if e, where := compare(h, leaves[i].Data); !(e <= r.MaxError) && !math.IsNaN(r.MaxError) {
			r.MaxError, r.Worst = e, name+": "+where
		}
	}
	return r, nil
}

// compare gives the largest error of a histogram of data, 1 being what rounding in f32 can come to, and where it is. What is exact (counts of
// elements, least, greatest) has error 0 or infinity.
func compare(got Histogram, data []float32) (worst float64, where string) {
	want := Of(got.Name, data)
	n := float64(want.Elements - want.NonFinite)
	note := func(e float64, what string, found, wanted any) {
		if !(e <= worst) && !math.IsNaN(worst) {
			worst, where = e, fmt.Sprintf("%s %v, want %v", what, found, wanted)
		}
	}
	exact := func(what string, found, wanted float64) {
		if math.Float64bits(found) != math.Float64bits(wanted) && (found != 0 || wanted != 0) {
			note(math.Inf(1), what, found, wanted)
		}
	}
	exact("elements", float64(got.Elements), float64(want.Elements))
	exact("non-finite", float64(got.NonFinite), float64(want.NonFinite))
	exact("min", got.Min, want.Min)
	exact("max", got.Max, want.Max)
	if n == 0 {
		exact("mean", got.Mean, want.Mean)
		exact("deviation", got.Deviation, want.Deviation)
		note(float64(slices.Max(got.Counts[:])), "count", got.Counts, 0)
		return worst, where
	}
	// A sum has at most so many roundings on the way from any of its terms: in a lane and over the lanes, of elements and then of groups, and
	// few more. Each is of half a unit in the last place of the sum of magnitudes.
	const eps = 0x1p-24
	terms := 2*lanes + groupVecs/lanes + n/(4*groupVecs)/lanes + 10
	magnitudes := 0.0
	for _, v := range data {
		if x := math.Abs(float64(v)); x <= math.MaxFloat32 {
			magnitudes += x / n
		}
	}
	mean := terms * eps * magnitudes
	// Squares are below the least number where their root is below 2^-63 of the scale.
	scale := max(math.Abs(want.Min), math.Abs(want.Max))
	note(ratio(got.Mean-want.Mean, mean), "mean", got.Mean, want.Mean)
	note(ratio(got.Deviation-want.Deviation, terms*eps*want.Deviation+2*mean+0x1p-63*scale), "deviation", got.Deviation, want.Deviation)
	e, edge := misplaced(got.Counts, want, data)
	note(e, fmt.Sprintf("counts below edge %d of", edge), got.Counts, want.Counts)
	return worst, where
}

func ratio(diff, allowed float64) float64 {
	if diff == 0 {
		return 0
	}
	return math.Abs(diff) / allowed
}

// misplaced tells how far an element lies, at most, on the wrong side of an edge between bins, in units of what rounding of its place can
// come to, and at which edge. Every element has to be counted.
func misplaced(counts [Bins]uint32, want Histogram, data []float32) (worst float64, edge int) {
	// A difference, a range, its reciprocal and a product, of numbers up to Bins.
	const eps = 8 * Bins * 0x1p-24
	var places []float64
	for _, v := range data {
		if x := float64(v); !math.IsNaN(x) && !math.IsInf(x, 0) {
			place := 0.0
			if want.Max > want.Min {
				place = (x - want.Min) / (want.Max - want.Min) * Bins
			}
			places = append(places, place)
		}
	}
	slices.Sort(places)
	below := 0
	for k, n := range counts {
		below += int(n)
		if k == Bins-1 {
			break
		}
		// The elements that are to be below the edge are the first of places; wrong ones are those between it and the count.
		at := float64(k + 1)
		right, _ := slices.BinarySearch(places, at)
		off := 0.0
		switch {
		case below > len(places):
			off = math.Inf(1)
		case below > right:
			off = places[below-1] - at + eps/2
		case below < right:
			off = at - places[below] + eps/2
		}
		if off/eps > worst {
			worst, edge = off/eps, k+1
		}
	}
	if below != len(places) {
		return math.Inf(1), Bins
	}
	return worst, edge
}
