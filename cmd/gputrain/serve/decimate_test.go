package serve

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// walk is a random series over steps 1 .. n.
func walk(n int, random *rand.Rand) (x []float64, line []int32, value []float64) {
	y := 0.0
	for i := range n {
		y += random.NormFloat64()
		x, line, value = append(x, float64(i+1)), append(line, int32(i)), append(value, y)
	}
	return x, line, value
}

// decimate makes a curve of points.
func decimate(x []float64, line []int32, value []float64, v view) curve {
	t := &table{axes: [3][]float64{x}, series: map[string]*series{"y": {line: line, value: value}}}
	return t.draw("y", 0, v)
}

// smoothed are the means of values.
func smoothed(values []float64, span float64) (out []float64) {
	m := mean{span: span}
	for _, y := range values {
		out = append(out, m.add(point{y: y, weight: 1}))
	}
	return out
}

func TestSpikeOfOneStepIsSentAtAnyZoom(t *testing.T) {
	const n, spike = 100_000, 61_803
	random := rand.New(rand.NewPCG(1, 2))
	x, line, value := walk(n, random)
	value[spike-1], value[spike] = 1e6, -1e6
	for range 300 {
		// Ranges of any size that hold the spike, buckets of any width.
		size := math.Exp(random.Float64() * math.Log(n))
		from := max(0, spike-random.Float64()*size)
		v := view{from: from, to: from + size + 1, bucket: math.Exp(random.Float64() * math.Log(n))}
		c := decimate(x, line, value, v)
		require.Contains(t, c.y, 1e6, "%+v", v)
		require.Contains(t, c.y, -1e6, "%+v", v)
		require.LessOrEqual(t, float64(len(c.x)), 4*((v.to-v.from)/v.bucket+4), "%+v", v)
		require.True(t, slices.IsSorted(c.x), "%+v", v)
		for i := range c.x {
			require.Equal(t, value[int(c.x[i])-1], c.y[i], "a point that was measured")
		}
	}
}

// TestBucketsKeepThePicture draws all points and those sent on pixels as wide as buckets: both touch the same heights.
func TestBucketsKeepThePicture(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	x, line, value := walk(10_000, random)
	const bucket = 64
	extremes := func(x, y []float64) map[int][2]float64 {
		out := map[int][2]float64{}
		touch := func(k int, v float64) {
			e, ok := out[k]
			if !ok {
				e = [2]float64{v, v}
			}
			out[k] = [2]float64{min(e[0], v), max(e[1], v)}
		}
		for i := range x {
			k := int(x[i]) / bucket
			touch(k, y[i])
			if i > 0 && int(x[i-1])/bucket != k { // where the line crosses into the pixel
				edge := float64(k * bucket)
				v := y[i-1] + (y[i]-y[i-1])*(edge-x[i-1])/(x[i]-x[i-1])
				touch(k-1, v)
				touch(k, v)
			}
		}
		return out
	}
	c := decimate(x, line, value, view{from: 1, to: 10_000, bucket: bucket})
	assert.Less(t, len(c.x), 4*(10_000/bucket+2))
	assert.Equal(t, extremes(x, value), extremes(c.x, c.y))
}

// TestTailIsTheEndOfAll joins what was sent before with the new end, as the page does, at random moments of a growing run.
func TestTailIsTheEndOfAll(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	x, line, value := walk(5000, random)
	for _, span := range []float64{0, 32} {
		for range 50 {
			old := 1 + random.IntN(4999)
			now := old + random.IntN(5001-old)
			bucket := math.Exp2(float64(random.IntN(8)))
			all := func(n int) curve {
				return decimate(x, line[:n], value[:n], view{from: 1, to: float64(n), bucket: bucket, span: span})
			}
			from := math.Floor(float64(old)/bucket) * bucket
			tail := decimate(x, line[:now], value[:now], view{from: from, to: float64(now), bucket: bucket, span: span})
			before := all(old)
			keep, skip := below(before.x, from), below(tail.x, from)
			want := all(now)
			assert.Equal(t, want.x, append(before.x[:keep], tail.x[skip:]...), "bucket %g, from %d to %d", bucket, old, now)
			// A mean that begins later is rounded otherwise (farSpans), a few parts in 10^16 of heights of a hundred.
			assert.InDeltaSlice(t, want.y, append(before.y[:keep], tail.y[skip:]...), 1e-11, "bucket %g, from %d to %d", bucket, old, now)
		}
	}
}

func below(values []float64, v float64) int {
	n, _ := slices.BinarySearch(values, v)
	return n
}

func TestWhatIsNotFiniteIsMarkedAndNotDrawn(t *testing.T) {
	x, line, value := walk(100, rand.New(rand.NewPCG(7, 8)))
	value[0], value[40], value[41], value[99] = math.NaN(), math.Inf(1), math.NaN(), math.Inf(-1)
	for _, bucket := range []float64{1, 8, 1000} {
		c := decimate(x, line, value, view{from: 1, to: 100, bucket: bucket, span: 8})
		for _, y := range c.y {
			assert.False(t, math.IsNaN(y) || math.IsInf(y, 0))
		}
		assert.Contains(t, c.bad, 1.0)
		assert.Equal(t, bucket == 1, slices.Contains(c.bad, 42), "the second of a bucket")
	}
	empty := decimate(nil, nil, nil, view{bucket: 1})
	assert.Empty(t, empty.x)
}

// TestSmooth compares with the definition: a sum of all values, each with its own weight and what the later ones leave of it.
func TestSmooth(t *testing.T) {
	_, _, value := walk(90, rand.New(rand.NewPCG(9, 10)))
	const span = 8
	got := smoothed(value, span)
	weight := func(i int) float64 { return 2 / (min(span, 1+float64(i)/4) + 1) }
	for n := range value {
		sum, weights := 0.0, 0.0
		for i := range n + 1 {
			w := weight(i)
			for later := i + 1; later <= n; later++ {
				w *= 1 - weight(later)
			}
			sum, weights = sum+w*value[i], weights+w
		}
		assert.InDelta(t, 1, weights, 1e-12)
		assert.InDelta(t, sum, got[n], 1e-12)
	}
	got = smoothed([]float64{2, math.NaN(), 2}, span)
	assert.True(t, math.IsNaN(got[1]))
	assert.Equal(t, 2.0, got[2])
}

// A step whose end was noticed with that of the step before seems to take no time. The mean of a rate is that of all their tokens over all their
// time, whatever share of it each has.
func TestMeanOfARateIsByTime(t *testing.T) {
	r := newTable()
	add := func(line []byte) { require.NoError(t, r.add(line)) }
	for step, ms := range []float64{20, 20, 39.99, 0.01, 20} {
		add(fmt.Appendf(nil, `{"step":%d,"tokens_per_second":%g,"mfu":%g,"loss":%d,"step_ms":%g}`, step+1, 200e3/ms, 2/ms, step, ms))
	}
	mean := func(name string) []float64 { return r.draw(name, 0, view{to: 6, bucket: 1, span: 4}).y }
	got := mean("tokens_per_second")
	assert.InDelta(t, 10e3, got[4], 3000)
	assert.Less(t, slices.Max(got), 30e3, "the mean of the rates themselves goes beyond 5e6")
	assert.InDelta(t, 0.1, mean("mfu")[4], 0.03)
	assert.False(t, r.series["loss"].weighed())
	add([]byte(`{"step":6,"mfu":1}`))
	assert.False(t, r.series["mfu"].weighed(), "where no time is told")
}
