//go:build window

package window

import (
	"context"
	"image"
	"image/color"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/cmd/gputrain/window/screen"
	"gputrain/gpu"
	"gputrain/internal/gputest"
	"gputrain/run/train"
)

// find is the pixels of a color in a box, column by column from its left.
func find(picture *image.RGBA, b box, c rgba) (columns [][]int) {
	want := color.RGBA{c[0], c[1], c[2], 255}
	for x := int(b.X); x < int(b.X+b.W); x++ {
		var rows []int
		for y := int(b.Y); y < int(b.Y+b.H); y++ {
			if picture.RGBAAt(x, y) == want {
				rows = append(rows, y)
			}
		}
		columns = append(columns, rows)
	}
	return columns
}

// display shows a board until what is wanted is on the screen.
func display(t *testing.T, server *screen.Screen, b *Board, devices []*gpu.Device, tallies []*tally, wanted func(*image.RGBA) bool) *image.RGBA {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	view, err := Open(b)
	require.NoError(t, err)
	defer view.Close()
	require.NoError(t, view.show(context.Background(), devices...))
	require.NoError(t, view.weights(tallies))
	done := make(chan struct{})
	var picture *image.RGBA
	go func() {
		defer close(done)
		for deadline := time.Now().Add(gputest.Patience); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
			if wanted(server.Picture(t)) {
				time.Sleep(300 * time.Millisecond) // all of it
				picture = server.Picture(t)
				return
			}
		}
	}()
	view.Loop(done)
	require.NotNil(t, picture, "what is wanted never came")
	return picture
}

// What is on the screen is what lies on the devices and on the board: bar by bar, and curve by curve. The second tree is of another device
// than the one that draws.
func TestViewShowsWhatThereIs(t *testing.T) {
	devices := gputest.Several(t, 2)
	server := screen.New(t, 1280, 800)
	random := rand.New(rand.NewPCG(3, 4))
	data := map[string][]float32{"0: a": make([]float32, 20_000), "0: b": make([]float32, 999), "1: c": make([]float32, 5000)}
	trees := make([]*buffers.Tree, 2)
	for i := range data["0: a"] {
		data["0: a"][i] = float32(random.NormFloat64())
	}
	for i := range data["0: b"] {
		data["0: b"][i] = float32(i%3)/4 - 0.1
	}
	for i := range data["1: c"] {
		data["1: c"][i] = float32(random.Float64() * random.Float64())
	}
	var tallies []*tally
	var histograms []histogram
	for i, names := range [][]string{{"0: a", "0: b"}, {"1: c"}} {
		var hosts []buffers.Host
		for _, name := range names {
			hosts = append(hosts, buffers.Host{Path: name, Shape: []int{1, len(data[name])}, Data: data[name]})
		}
		var err error
		trees[i], err = buffers.Upload(devices[i], "params", hosts, buffers.F32)
		require.NoError(t, err)
		tally, err := newTally(context.Background(), trees[i], maxPanels)
		require.NoError(t, err)
		require.NoError(t, tally.count(context.Background()))
		found, err := tally.take(context.Background())
		require.NoError(t, err)
		tallies, histograms = append(tallies, tally), append(histograms, found...)
	}

	b := NewBoard("a test", 200)
	b.status("training")
	for step := range int64(101) {
		norm := 2.0
		if step == 25 {
			norm = 6
		}
		b.add(train.Metrics{Step: step, Loss: train.Number(9 - float64(step)/20), GradNorm: train.Number(norm), Cost: train.Cost{TokensPerSecond: 12345, StepMS: 2}})
		if step%50 == 0 {
			b.evaluated(train.EvalMetrics{Step: step, Loss: train.Number(9 - 8*float64(step)/100)})
		}
	}
	b.sampled(train.Sample{Step: 100, Prompt: "func ", Text: "main() {\n\tprintln(\"Hello, world\")\n}"})
	b.counted(histograms, "after step 100")
	laid := layOut(b.snapshot(), 1280, 800, 1, nil)
	last := laid.Bars[2]
	picture := display(t, server, b, devices, tallies, func(p *image.RGBA) bool {
		for _, rows := range find(p, last, weightColor) {
			if len(rows) > 0 {
				return true
			}
		}
		return false
	})
	screen.Keep(t, picture, "view")

	for i, h := range histograms {
		_, bins, _ := tallied(data[h.Label])
		tallest := uint32(0)
		for _, n := range bins {
			tallest = max(tallest, n)
		}
		area := laid.Bars[i]
		columns := find(picture, box{area.X, area.Y - 3, area.W, area.H + 3}, weightColor) // a bar that is too high shows
		for k, n := range bins {
			want := area.H * float64(n) / float64(tallest)
			if n > 0 {
				want = max(want, 1)
			}
			got := columns[int((float64(k)+0.5)*area.W/binCount)]
			assert.InDelta(t, want, len(got), 1.01, "%s: bin %d", h.Label, k)
		}
	}

	boxes := lay(1280, 800, 1.25)
	below := func(b box) box { return box{b.X, b.Y + 25, b.W, b.H - 25} } // without title and legend
	// The line of the gradient norm is 2 but for a spike a quarter of the way.
	norms := find(picture, below(boxes.norm), normColor)
	left, right, top, spike := len(norms), 0, math.MaxInt, 0
	for x, rows := range norms {
		if len(rows) == 0 {
			continue
		}
		left, right = min(left, x), max(right, x)
		if rows[0] < top {
			top, spike = rows[0], x
		}
	}
	assert.InDelta(t, 0.25, float64(spike-left)/float64(right-left), 0.01)
	// That of the validation losses is straight, from 9 to 1.
	valid := find(picture, below(boxes.loss), validColor)
	middle := func(x int) float64 {
		rows := valid[x]
		require.NotEmpty(t, rows, "column %d", x)
		return float64(rows[0]+rows[len(rows)-1]) / 2
	}
	left, right = len(valid), 0
	for x, rows := range valid {
		if len(rows) > 0 {
			left, right = min(left, x), max(right, x)
		}
	}
	a, z := left+20, right-20
	assert.Greater(t, middle(z), middle(a)+200)
	for _, share := range []float64{0.2, 0.4, 0.6, 0.8} {
		x := a + int(share*float64(z-a))
		assert.InDelta(t, middle(a)+share*(middle(z)-middle(a)), middle(x), 1.6, "share %v", share)
	}
	// There is text where the sample belongs, and nothing where it has ended.
	letters := 0
	for _, rows := range find(picture, box{boxes.sample.X, boxes.sample.Y + 25, boxes.sample.W, 60}, textColor) {
		letters += len(rows)
	}
	assert.Greater(t, letters, 100)
	for _, rows := range find(picture, box{boxes.sample.X, boxes.sample.Y + 120, boxes.sample.W, boxes.sample.H - 125}, textColor) {
		assert.Empty(t, rows)
	}
}

// Without a window system there is an error.
func TestViewNeedsAWindowSystem(t *testing.T) {
	t.Setenv("DISPLAY", "")
	_, err := Open(NewBoard("a test", 0))
	assert.ErrorContains(t, err, "no window system")
}

// A device that is released while the window draws ends the drawing and nothing else.
func TestViewOutlivesItsDevice(t *testing.T) {
	screen.New(t, 1280, 800)
	adapter := gputest.Adapters(t)[0]
	dev, err := gpu.Open(context.Background(), adapter, gpu.Options{})
	require.NoError(t, err)
	b := NewBoard("a test", 0)
	b.status("training")
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	view, err := Open(b)
	require.NoError(t, err)
	require.NoError(t, view.show(context.Background(), dev))
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range int64(40) {
			b.add(train.Metrics{Step: i, Loss: 3})
			time.Sleep(10 * time.Millisecond)
			if i == 30 {
				dev.Release()
			}
		}
	}()
	view.Loop(done)
	view.Close()
	view.Close()
	assert.Error(t, dev.Err())
}
