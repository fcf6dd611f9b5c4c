package window

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/run/train"
)

// A spike of one step among 100,000 is in what is drawn, at any width; so are the ends, in order.
func TestDecimateKeepsSpikes(t *testing.T) {
	const n, spike, dip = 100_000, 54_321, 77_777
	points := make([]point, n)
	for i := range points {
		points[i] = point{int64(i), math.Sin(float64(i) / 5000)}
	}
	points[spike].Value, points[dip].Value = 100, -100
	for _, columns := range []int{1, 2, 77, 640, 4000} {
		runs, broken := decimate(points, func(step int64) int { return int(step) * columns / n })
		require.Len(t, runs, 1)
		assert.Empty(t, broken)
		run := runs[0]
		assert.LessOrEqual(t, len(run), 4*columns)
		assert.Contains(t, run, points[spike], "%d columns", columns)
		assert.Contains(t, run, points[dip], "%d columns", columns)
		assert.Equal(t, points[0], run[0])
		assert.Equal(t, points[n-1], run[len(run)-1])
		for i := range run[1:] {
			require.Less(t, run[i].Step, run[i+1].Step, "%d columns", columns)
		}
	}
}

func TestDecimateBreaksAtWhatIsNotFinite(t *testing.T) {
	points := []point{{1, 1}, {2, 2}, {3, math.NaN()}, {4, math.Inf(1)}, {5, 5}}
	runs, broken := decimate(points, func(step int64) int { return int(step) })
	assert.Equal(t, [][]point{{{1, 1}, {2, 2}}, {{5, 5}}}, runs)
	require.Len(t, broken, 2)
	assert.EqualValues(t, 3, broken[0].Step)
	assert.EqualValues(t, 4, broken[1].Step)
}

// Every letter that can be typed has lines, on its grid, and no two look the same.
func TestGlyphs(t *testing.T) {
	seen := map[string]rune{unknown: 0}
	for r := ' '; r <= '~'; r++ {
		lines, ok := glyphs[r]
		require.True(t, ok, "%q", r)
		other, twice := seen[lines]
		assert.False(t, twice, "%q looks like %q", r, other)
		seen[lines] = r
		strokes := 0
		eachStroke(r, func(x0, y0, x1, y1 float64) {
			strokes++
			for _, x := range []float64{x0, x1} {
				assert.True(t, x >= 0 && x <= 4, "%q: x %v", r, x)
			}
			for _, y := range []float64{y0, y1} {
				assert.True(t, y >= 0 && y <= 8, "%q: y %v", r, y)
			}
		})
		assert.Equal(t, r != ' ', strokes > 0, "%q", r)
	}
	strokes := 0
	eachStroke('语', func(_, _, _, _ float64) { strokes++ })
	assert.Equal(t, 4, strokes)
}

func TestWrap(t *testing.T) {
	assert.Equal(t, []string{"abcd", "ef", "", "    ", "x"}, wrap("abcdef\n\n\tx", 4))
	assert.Equal(t, []string{"a\ufffd\ufffdb"}, wrap("a\x1b\xffb", 10))
	assert.Equal(t, []string{""}, wrap("", 10))
}

func TestNumbers(t *testing.T) {
	for want, v := range map[string]float64{
		"0": 0, "1": 1, "3.142": math.Pi, "0.05": 0.05, "0.001234": 0.00123449, "1e-05": 1e-5, "1.23e+07": 12345678, "-2.5": -2.5,
		"15827": 15827.4, "0.1": 0.1, "1000": 1000, "NaN": math.NaN(), "+Inf": math.Inf(1),
	} {
		assert.Equal(t, want, number(v))
	}
	for want, n := range map[string]int64{"0": 0, "999": 999, "1,000": 1000, "-100": -100, "-1,234,567": -1234567} {
		assert.Equal(t, want, grouped(n))
	}
}

func TestTicksAreRoundAndWithin(t *testing.T) {
	near := chart{series: []series{{points: []point{{Value: 0.05893313240041345}, {Value: math.Nextafter(0.05893313240041345, 1)}}}}}
	one, _ := near.extent(0, 1)
	assert.Greater(t, one.high-one.low, 1e-3, "values that differ by their rounding are one value")
	assert.InDeltaSlice(t, []float64{2.5, 3, 3.5, 4}, axis{low: 2.4, high: 4.1}.ticks(4), 1e-12)
	assert.InDeltaSlice(t, []float64{0, 200, 400}, axis{low: 0, high: 450}.ticks(3), 1e-12)
	assert.InDeltaSlice(t, []float64{0.2, 0.5, 1, 2, 5, 10}, axis{low: -0.9, high: 1.05, logarithmic: true}.ticks(5), 1e-12)
	assert.InDelta(t, 50, axis{low: 0, high: 2, from: 0, to: 100, logarithmic: true}.at(10), 1e-12)
}

func TestBoardMeansTheLast32(t *testing.T) {
	b := NewBoard("", 0)
	for i := 1; i <= 40; i++ {
		b.add(train.Metrics{Step: int64(i), Loss: train.Number(i)})
	}
	b.add(train.Metrics{Step: 41, Loss: train.Number(math.NaN())})
	s := b.snapshot()
	require.Len(t, s.Mean, 40)
	assert.InDelta(t, 1, s.Mean[0].Value, 1e-12)
	assert.InDelta(t, 16.5, s.Mean[31].Value, 1e-12) // of 1 to 32
	assert.InDelta(t, 24.5, s.Mean[39].Value, 1e-12) // of 9 to 40
	assert.EqualValues(t, 41, s.Last.Step)
}

// Whatever a run is called or has to show, and however small the window is, nothing is drawn outside.
func TestNothingIsDrawnOutside(t *testing.T) {
	b := NewBoard(strings.Repeat("name ", 4), 1000)
	b.status("training")
	for i := range 500 {
		loss := 5 / float64(i+1)
		if i == 100 {
			loss = math.NaN()
		}
		b.add(train.Metrics{Step: int64(i), Loss: train.Number(loss), GradNorm: train.Number(math.Exp(float64(i % 9)))})
	}
	b.evaluated(train.EvalMetrics{Step: 300, Loss: 3})
	b.sampled(train.Sample{Step: 200, Prompt: "func\n", Text: strings.Repeat("func main() {\n\tpanic(\"语\")\n}\n", 100)})
	var histograms []histogram
	for i := range 12 {
		h := histogram{Label: fmt.Sprintf("model.layers.*.self_attention.projection_%d.weight", i), Elements: 100}
		h.words[rangeAt], h.words[binsAt+i], h.words[255] = 120, 100, uint32(i)
		histograms = append(histograms, h)
	}
	b.counted(histograms, "after step 3")
	for _, size := range [][2]int{{1280, 800}, {900, 500}, {600, 900}, {3000, 2000}} {
		picture := layOut(b.snapshot(), size[0], size[1], 1, &[2]float64{float64(size[0]) / 4, float64(size[1]) / 4})
		require.Len(t, picture.Bars, 12)
		for i := 0; i < len(picture.Shapes); i += shapeBytes {
			at := func(k int) float64 {
				return float64(math.Float32frombits(binary.LittleEndian.Uint32(picture.Shapes[i+4*k:])))
			}
			for k := range 4 {
				require.True(t, at(k) >= 0 && at(k) <= float64(size[k%2]), "%v: shape %d: %v %v %v %v", size, i/shapeBytes, at(0), at(1), at(2), at(3))
			}
		}
		for _, bar := range picture.Bars {
			require.True(t, bar.X >= 0 && bar.Y >= 0 && bar.X+bar.W <= float64(size[0]) && bar.Y+bar.H <= float64(size[1]), "%v", bar)
			require.True(t, bar == box{} && size[0] < 1000 || bar.W > 20 && bar.H > 15, "%v: %v", size, bar)
		}
	}
	for _, size := range [][2]int{{1, 1}, {50, 20}, {200, 100}} {
		layOut(b.snapshot(), size[0], size[1], 2, nil) // no panic
	}
}
