//go:build window

package window

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"

	"gputrain/cmd/gputrain/window/surface"
	"gputrain/gpu"
)

//go:embed shapes.wgsl
var shapesSource string

//go:embed histogram.wgsl
var histogramSource string

var (
	shapesShader    = gpu.KernelOf("gputrain.window.shapes", shapesSource)
	histogramShader = gpu.KernelOf("gputrain.window.histogram", places(histogramSource))
)

var (
	backColor   = rgba{13, 17, 23}
	weightColor = rgba{190, 148, 235}
)

// maxPanels is how many histograms are drawn.
const maxPanels = 12

// painter draws a View on one device.
type painter struct {
	view    *View
	surface *surface.Surface
	device  *gpu.Device
	own     *gpu.Device // opened for the window alone, where no device that computes can show on it; else nil

	uniform, shapes *gpu.Buffer
	sheet           *surface.Sheet
	weights         chan []*weights
	bars            []*weights

	every  time.Duration // at most a frame in this time
	width  int
	height int
	end    context.CancelFunc
	done   chan struct{}
}

// weights are the histograms of one tally, as the painter's device has them.
type weights struct {
	sheet  *surface.Sheet
	panels *gpu.Buffer
	mirror *gpu.Buffer // nil where the counts lie on the painter's device, and are drawn from there
	groups int
}

// show begins to draw, with the first of the devices that can; where none can, with one opened for that on whatever adapter does.
func (v *View) show(ctx context.Context, devices ...*gpu.Device) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed.Load() {
		return nil
	}
	p := &painter{view: v, weights: make(chan []*weights, 1), done: make(chan struct{})}
	if err := p.open(ctx, devices); err != nil {
		return err
	}
	var err error
	if p.uniform, err = p.device.NewUniform("gputrain.window.view", 16); err == nil {
		p.shapes, err = p.device.NewBuffer("gputrain.window.shapes", maxShapes*shapeBytes)
	}
	if err == nil {
		p.sheet, err = p.surface.NewSheet(shapesShader, p.uniform.All(), p.shapes.All())
	}
	p.every = 50 * time.Millisecond
	if p.device.Limits().Software {
		p.every = 250 * time.Millisecond // it has other work
	}
	v.painter = p
	ctx, p.end = context.WithCancel(context.WithoutCancel(ctx))
	if err != nil {
		close(p.done)
		return fmt.Errorf("window: %w", err)
	}
	go p.run(ctx)
	return nil
}

func (p *painter) open(ctx context.Context, devices []*gpu.Device) error {
	var refusals []error
	for _, d := range devices {
		s, err := surface.New(d, p.view.handle)
		if err == nil {
			p.device, p.surface = d, s
			return nil
		}
		refusals = append(refusals, err)
	}
	adapters, err := gpu.Adapters()
	if err != nil {
		return err
	}
	for _, a := range adapters {
		d, err := gpu.Open(ctx, a, gpu.Options{})
		if err == nil {
			if p.surface, err = surface.New(d, p.view.handle); err == nil {
				p.device, p.own = d, d
				return nil
			}
			d.Release()
		}
		refusals = append(refusals, err)
	}
	return fmt.Errorf("window: no adapter can show on it: %w", errors.Join(refusals...))
}

// weights draws the histograms of tallies from now on, in place of others. The board's histograms must be theirs, in their order.
func (v *View) weights(tallies []*tally) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	p := v.painter
	if p == nil || v.closed.Load() {
		return nil
	}
	var all []*weights
	for _, t := range tallies {
		w := &weights{groups: len(t.groups)}
		counts := t.shown
		var err error
		if t.device != p.device {
			w.mirror, err = p.device.NewBuffer("gputrain.window.mirror", t.counts.Bytes())
			counts = w.mirror
		}
		if err == nil {
			w.panels, err = p.device.NewBuffer("gputrain.window.panels", max(uint64(w.groups), 1)*shapeBytes)
		}
		if err == nil {
			w.sheet, err = p.surface.NewSheet(histogramShader, p.uniform.All(), w.panels.All(), counts.All())
		}
		if err != nil {
			return fmt.Errorf("window: %w", err)
		}
		all = append(all, w)
	}
	select { // those that the painter has not seen yet
	case <-p.weights:
	default:
	}
	p.weights <- all
	return nil
}

func (p *painter) run(ctx context.Context) {
	defer close(p.done)
	var drawn look
	last := time.Time{}
	for {
		select {
		case <-ctx.Done():
			return
		case p.bars = <-p.weights:
			drawn = look{}
		case <-time.After(10 * time.Millisecond):
		}
		now := p.look()
		if p.view.redraw.Swap(false) {
			drawn = look{}
		}
		if now == drawn || now.size == 0 || time.Since(last) < p.every || !p.surface.Idle() {
			continue
		}
		shown, err := p.draw(ctx, now)
		if err != nil {
			// The end of the device is the end of the run, of which others tell.
			if !errors.Is(err, surface.ErrReleased) && !errors.Is(err, context.Canceled) {
				slog.Warn("window: nothing more is drawn", "error", err)
			}
			return
		}
		last = time.Now()
		if shown {
			drawn = now
		}
	}
}

// look is what a picture depends on.
type look struct {
	version, size, scale uint64
	hovers               bool
	mouse                [2]float64
}

func (p *painter) look() look {
	l := look{version: p.view.board.changes(), size: p.view.size.Load(), scale: p.view.scale.Load()}
	if m := p.view.mouse.Load(); m != nil {
		l.hovers, l.mouse = true, *m
	}
	return l
}

func (p *painter) draw(ctx context.Context, now look) (bool, error) {
	width, height := int(now.size>>32), int(uint32(now.size))
	if width < 1 || height < 1 {
		return false, nil
	}
	if width != p.width || height != p.height {
		if err := p.surface.Resize(ctx, width, height); err != nil {
			return false, err
		}
		p.width, p.height = width, height
	}
	var mouse *[2]float64
	if now.hovers {
		mouse = &now.mouse
	}
	seen := p.view.board.snapshot()
	picture := layOut(seen, width, height, math.Float64frombits(now.scale), mouse)
	layers := []surface.Layer{{Sheet: p.sheet, Vertices: 4, Instances: len(picture.Shapes) / shapeBytes}}
	if err := p.surface.Write(p.uniform.Range(0, 8), gpu.Bytes([2]float32{float32(width), float32(height)})); err != nil {
		return false, err
	}
	if err := p.surface.Write(p.shapes.Range(0, uint64(len(picture.Shapes))), picture.Shapes); err != nil {
		return false, err
	}
	first := 0
	for _, w := range p.bars {
		if first+w.groups > len(picture.Bars) {
			break // the board does not have them yet
		}
		layer, err := p.panels(w, picture.Bars[first:first+w.groups], seen.Histograms[first:first+w.groups])
		if err != nil {
			return false, err
		}
		layers = append(layers, layer)
		first += w.groups
	}
	shown, err := p.surface.Show([3]float64{float64(backColor[0]) / 255, float64(backColor[1]) / 255, float64(backColor[2]) / 255}, layers...)
	if !shown {
		p.width = 0 // configured again
	}
	return shown, err
}

// panels puts the bars of a tally where they belong.
func (p *painter) panels(w *weights, bars []box, histograms []histogram) (surface.Layer, error) {
	if len(bars) == 0 {
		return surface.Layer{Sheet: w.sheet}, nil
	}
	var raw, mirror []byte
	for i, b := range bars {
		raw = append(raw, gpu.Bytes([4]float32{float32(b.X), float32(b.Y), float32(b.W), float32(b.H)})...)
		raw = append(raw, weightColor[0], weightColor[1], weightColor[2], 255)
		raw = append(raw, gpu.Bytes([3]uint32{uint32(i)})...)
		mirror = append(mirror, gpu.Bytes(histograms[i].words)...)
	}
	if err := p.surface.Write(w.panels.All(), raw); err != nil {
		return surface.Layer{}, err
	}
	if w.mirror != nil {
		if err := p.surface.Write(w.mirror.All(), mirror); err != nil {
			return surface.Layer{}, err
		}
	}
	return surface.Layer{Sheet: w.sheet, Vertices: 4, Instances: len(bars) * binCount}, nil
}

// release ends the drawing. A device that computes stays.
func (p *painter) release() {
	p.end()
	<-p.done
	p.surface.Release()
	for _, w := range p.bars {
		w.panels.Release()
		w.mirror.Release()
	}
	p.shapes.Release()
	p.uniform.Release()
	if p.own != nil {
		p.own.Release()
	}
}

// changes grows with every change.
func (b *Board) changes() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.version
}
