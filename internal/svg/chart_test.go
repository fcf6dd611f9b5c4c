package svg

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestChart(t *testing.T) {
	var steep []Point
	for i := range 5000 {
		y := 5.5 * math.Exp(-float64(i)/1000)
		switch i {
		case 2500:
			y = 40 // a spike that thinning must not lose
		case 3000:
			y = math.NaN()
		case 3001:
			y = math.Inf(1)
		}
		steep = append(steep, Point{float64(i), y})
	}
	c := Chart{Title: "a < b & c", Panels: []Panel{{XLabel: "step", YLabel: "loss", Series: []Series{
		{Name: "training", Color: "#1f77b4", Points: steep}, {Name: "validation", Color: "#d62728", Dots: true, Points: []Point{{1, 5}, {5000, 1}}},
	}}}}
	var out bytes.Buffer
	require.NoError(t, c.Write(&out))
	requireXML(t, out.Bytes())
	text := out.String()
	assert.NotContains(t, text, "NaN")
	assert.NotContains(t, text, "Inf")
	assert.Contains(t, text, "a &lt; b &amp; c")
	box := c.Panels[0].box(0, singleWidth)
	assert.Contains(t, text, px(box.px(2500))+","+px(box.py(40)), "the spike is drawn")
	assert.Less(t, len(thin(steep, 0, 5000)), 2*maxColumns+2)

	// Nothing, one point, a flat line.
	for _, s := range [][]Point{nil, {{3, 2}}, {{1, 2}, {2, 2}}} {
		out.Reset()
		require.NoError(t, Chart{Panels: []Panel{{Direct: true, Series: []Series{{Name: "x", Points: s}}}}}.Write(&out))
		assert.NotContains(t, out.String(), "NaN")
	}
}

// requireXML fails where a picture is not well-formed.
func requireXML(t *testing.T, picture []byte) {
	t.Helper()
	d := xml.NewDecoder(bytes.NewReader(picture))
	for {
		_, err := d.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		require.NoError(t, err)
	}
}

// Names at the ends of curves that end together keep clear of each other and inside the panel, in the order of the curves.
func TestNamesOfCurvesKeepClear(t *testing.T) {
	panel := Panel{Direct: true, Top: 4}
	for i, name := range []string{"c", "a", "b", "off", "far"} {
		end := []float64{2.002, 2, 2.001, 900, 800}[i]
		panel.Series = append(panel.Series, Series{Name: name, Color: "#123456", Points: []Point{{0, 5}, {100, end}}})
	}
	var out bytes.Buffer
	require.NoError(t, Chart{Panels: []Panel{panel, panel}}.Write(&out))
	requireXML(t, out.Bytes())
	box := panel.box(1, severalEach)
	assert.Equal(t, 4.0, box.y1, "what is above the top does not stretch the axis")
	at := map[string]float64{}
	for _, m := range regexp.MustCompile(`<text x="([\d.]+)" y="([\d.]+)" font-weight="bold" fill="#123456">(\w+)<`).FindAllStringSubmatch(out.String(), -1) {
		x, err := strconv.ParseFloat(m[1], 64)
		require.NoError(t, err)
		y, err := strconv.ParseFloat(m[2], 64)
		require.NoError(t, err)
		assert.Less(t, x, float64(2*severalEach-boldWidth*len(m[3])))
		at[m[3]] = y
	}
	require.Len(t, at, 5)
	assert.InDelta(t, box.top+4, at["off"], 0.1, "a curve that leaves the panel has its name at the top")
	assert.InDelta(t, at["off"]+labelHeight, at["far"], 0.1)
	assert.GreaterOrEqual(t, at["b"]-at["c"], float64(labelHeight))
	assert.GreaterOrEqual(t, at["a"]-at["b"], float64(labelHeight))
	assert.LessOrEqual(t, at["a"], box.bottom+4)
}

func TestTicks(t *testing.T) {
	assert.Equal(t, "0", label(ticks(0, 5, 6)[0]), "not -0")
	assert.Equal(t, []float64{0, 100, 200, 300, 400, 500, 600}, ticks(0, 600, 6))
	for _, r := range [][2]float64{{1, 2}, {-3, 5}, {2.1e-5, 2.2e-5}, {0, 7e9}} {
		got := ticks(r[0], r[1], 6)
		assert.GreaterOrEqual(t, len(got), 2)
		assert.LessOrEqual(t, len(got), 8)
	}
}

// Values that differ by the rounding of what was computed of them, such as a mean of equal ones, are drawn as one value.
func TestAxesOfEqualValues(t *testing.T) {
	for _, v := range []float64{0, 0.05893313240041345, -3, 1e16, 1e300, 5e-324} {
		for _, other := range []float64{v, math.Nextafter(v, math.Inf(1))} {
			var p plot
			p.scale(Panel{Series: []Series{{Points: []Point{{X: 1, Y: v}, {X: 2, Y: other}}}}})
			assert.LessOrEqual(t, len(p.ys), 14, "%g and %g", v, other)
			assert.Less(t, p.y0, p.y1, "%g and %g", v, other)
			assert.Less(t, p.ys[0], p.ys[1], "%g and %g", v, other)
		}
	}
}
