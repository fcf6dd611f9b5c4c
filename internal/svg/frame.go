// Package svg draws curves, and what other pictures share with them, without anything from outside: light or dark as their reader prefers.
package svg

import (
	"fmt"
	"html"
	"io"
	"math"
	"strconv"
)

// Style colours all of a picture but its curves: classes paper, ink, soft (text), grid and frame (lines), light and dark. Every picture has it.
const Style = `<style>.paper{fill:#ffffff}.ink{fill:#222222}.soft{fill:#555555}.grid{stroke:#e4e4e4}.frame{stroke:#999999;fill:none}` +
	`@media (prefers-color-scheme:dark){.paper{fill:#0d1117}.ink{fill:#e6edf3}.soft{fill:#9da7b3}.grid{stroke:#272e38}.frame{stroke:#6e7681}}</style>`

// Begin begins a picture of a size, whose title stands at x; "</svg>" ends it.
func Begin(out io.Writer, width, height, x int, title string) {
	fmt.Fprintf(out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %[1]d %[2]d" width="%[1]d" height="%[2]d" font-family="sans-serif" font-size="12">`+
		"\n%[3]s\n"+`<rect class="paper" width="%[1]d" height="%[2]d"/>`+"\n"+`<text class="ink" x="%[4]d" y="24" font-size="15">%[5]s</text>`+"\n",
		width, height, Style, x, html.EscapeString(title))
}

// Key is a colour of the legend with its name; style is more of the line's.
func Key(out io.Writer, x, y float64, color, style, name string) {
	fmt.Fprintf(out, `<line x1="%[1]s" y1="%[2]s" x2="%[3]s" y2="%[2]s" stroke="%[4]s" stroke-width="3"%[5]s/><text class="ink" x="%[6]s" y="%[7]s">%[8]s</text>`+"\n",
		px(x), px(y-4), px(x+16), color, style, px(x+20), px(y), html.EscapeString(name))
}

// Tick is a line of the grid at x, with its value below.
func Tick(out io.Writer, x, top, bottom float64, value string) {
	fmt.Fprintf(out, `<line class="grid" x1="%[1]s" y1="%[2]s" x2="%[1]s" y2="%[3]s"/><text class="soft" x="%[1]s" y="%[4]s" text-anchor="middle">%[5]s</text>`+"\n",
		px(x), px(top), px(bottom), px(bottom+16), value)
}

// Frame is the box of two axes, with what is along x.
func Frame(out io.Writer, left, top, right, bottom float64, along string) {
	fmt.Fprintf(out, `<rect class="frame" x="%s" y="%s" width="%s" height="%s"/>`+"\n", px(left), px(top), px(right-left), px(bottom-top))
	fmt.Fprintf(out, `<text class="ink" x="%s" y="%s" text-anchor="middle">%s</text>`+"\n", px((left+right)/2), px(bottom+36), html.EscapeString(along))
}

// px is a coordinate with a tenth of a pixel.
func px(v float64) string { return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64) }
