package train

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"gputrain/internal/svg"
)

// Pictures of a report.
const (
	lossPicture     = "loss.svg"
	gradientPicture = "gradient.svg"
	speedPicture    = "speed.svg"
	usePicture      = "use.svg"
)

// Colours of curves.
const (
	blue, light   = "#2f7fd0", "#3d8bd9"
	red, green    = "#d1495b", "#2e9e6b"
	amber, violet = "#c98a1b", "#7b6cd0"
)

var stageColors = []string{blue, red, green, amber, violet}

// writePictures writes the pictures that there is something to see in, and shows them.
func (h *history) writePictures(out io.Writer, dir, title string) error {
	for _, p := range []struct {
		name, alt string
		panels    []svg.Panel
	}{
		{lossPicture, "loss over steps", []svg.Panel{h.lossPanel()}},
		{gradientPicture, "learning rate and norm of the gradient over steps", h.gradientPanels()},
		{speedPicture, "tokens a second and time of a step over steps", h.speedPanels()},
		{usePicture, "use of the devices over steps", h.usePanels()},
	} {
		path := filepath.Join(dir, p.name)
		if len(p.panels) == 0 {
			if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("train: report: %w", err)
			}
			continue
		}
		var picture bytes.Buffer
		if err := (svg.Chart{Title: title, Panels: p.panels}).Write(&picture); err != nil {
			return fmt.Errorf("train: report: %w", err)
		}
		if err := ReplaceFile(path, picture.Bytes()); err != nil {
			return err
		}
		fmt.Fprintf(out, "![%s](%s)\n\n", p.alt, p.name)
	}
	return nil
}

// lossPanel draws training loss, its running mean and validation loss over steps.
func (h *history) lossPanel() svg.Panel {
	panel := svg.Panel{XLabel: "step", YLabel: "loss, nats a token", Series: []svg.Series{
		{Name: "training", Color: light, Faint: true, Points: h.loss.points},
		{Name: fmt.Sprintf("mean of %d", windowSize), Color: blue, Points: h.meanLoss.points},
	}}
	var validation []svg.Point
	for _, e := range h.evals {
		validation = append(validation, svg.Point{X: float64(e.Step), Y: float64(e.Loss)})
	}
	if len(validation) > 0 {
		panel.Series = append(panel.Series, svg.Series{Name: "validation", Color: red, Dots: true, Points: validation})
	}
	return panel
}

func (h *history) gradientPanels() []svg.Panel {
	if h.lines == 0 {
		return nil
	}
	norm := svg.Panel{XLabel: "step", YLabel: "global norm of the gradient", Series: []svg.Series{
		{Name: "norm", Color: blue, Points: h.gradNorm.points},
	}}
	if h.last.GradNormClipped > 0 {
		norm.Series[0].Faint = true
		norm.Series = append(norm.Series, svg.Series{Name: "clipped", Color: blue, Points: h.clippedNorm.points})
	}
	return []svg.Panel{{XLabel: "step", YLabel: "learning rate", Series: []svg.Series{{Color: blue, Points: h.rate.points}}}, norm}
}

func (h *history) speedPanels() []svg.Panel {
	if h.lines == 0 {
		return nil
	}
	tokens := svg.Panel{XLabel: "step", YLabel: "tokens a second", Top: h.usualComputed.usual(), Series: []svg.Series{
		{Color: light, Faint: true, Points: h.counted.points},
		{Name: fmt.Sprintf("in the loss, mean of %d", windowSize), Color: blue, Points: h.meanCounted.points},
	}}
	if h.padding {
		tokens.Series = append(tokens.Series, svg.Series{Name: "computed", Color: violet, Points: h.meanComputed.points})
	}
	ms := svg.Panel{XLabel: "step", YLabel: "milliseconds a step", Top: h.usualMS.usual(), Series: []svg.Series{
		{Name: "step", Color: blue, Points: h.stepMS.points},
		{Name: "device", Color: green, Dashed: true, Points: h.deviceMS.points},
		{Name: "wait for data", Color: red, Points: h.waitMS.points},
	}}
	return []svg.Panel{tokens, ms}
}

// usePanels are how much of the peak is made use of, and how much of their time stages work, as far as either is known.
func (h *history) usePanels() (panels []svg.Panel) {
	if h.last.MFU > 0 {
		panels = append(panels, svg.Panel{XLabel: "step", YLabel: "% of the peak (mfu)", Top: h.usualMFU.usual(), Series: []svg.Series{
			{Name: "each step", Color: light, Faint: true, Points: h.mfu100.points},
			{Name: fmt.Sprintf("mean of %d", windowSize), Color: blue, Points: h.meanMFU.points},
		}})
	}
	if len(h.last.StageBusy) > 0 {
		busy := svg.Panel{XLabel: "step", YLabel: "% of the time in which a stage computes"}
		for i := range h.last.StageBusy {
			busy.Series = append(busy.Series, svg.Series{
				Name: fmt.Sprintf("stage %d", i), Color: stageColors[i%len(stageColors)], Dashed: i >= len(stageColors), Points: h.stagesBusy[i].points,
			})
		}
		panels = append(panels, busy)
	}
	return panels
}
