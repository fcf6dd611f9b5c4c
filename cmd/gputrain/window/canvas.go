package window

import (
	"encoding/binary"
	"math"
	"unicode/utf8"
)

// rgba is red, green and blue, 0 to 255.
type rgba [3]uint8

// mix is c with a share of d.
func (c rgba) mix(d rgba, share float64) rgba {
	for i := range c {
		c[i] = uint8(math.Round(float64(c[i])*(1-share) + float64(d[i])*share))
	}
	return c
}

// box is a part of the window in pixels, from the top left.
type box struct{ X, Y, W, H float64 }

// contains says whether a point is in b.
func (b box) contains(x, y float64) bool {
	return x >= b.X && x < b.X+b.W && y >= b.Y && y < b.Y+b.H
}

// shapeBytes is the size of a shape on the device: two points, a width (negative for the box between the points) and a color.
const shapeBytes = 32

// maxShapes bounds a picture; what is drawn beyond it is left out.
const maxShapes = 1 << 16

// canvas collects the shapes of a picture, the first at the bottom.
type canvas struct {
	Unit   float64 // pixels of a unit of the letters' grid at size 1
	shapes []byte  // as the shader reads them
}

func (c *canvas) add(x0, y0, x1, y1, width float64, color rgba) {
	if len(c.shapes) >= maxShapes*shapeBytes {
		return
	}
	for _, v := range []float64{x0, y0, x1, y1, width} {
		c.shapes = binary.LittleEndian.AppendUint32(c.shapes, math.Float32bits(float32(v)))
	}
	c.shapes = append(c.shapes, color[0], color[1], color[2], 255)
	c.shapes = append(c.shapes, make([]byte, 8)...)
}

// fill fills a box.
func (c *canvas) fill(b box, color rgba) { c.add(b.X, b.Y, b.X+b.W, b.Y+b.H, -1, color) }

// line draws a line with round ends.
func (c *canvas) line(x0, y0, x1, y1, width float64, color rgba) {
	c.add(x0, y0, x1, y1, width, color)
}

// text writes one line, its top left at x, y.
func (c *canvas) text(x, y, size float64, color rgba, text string) {
	u := c.Unit * size
	for _, letter := range text {
		eachStroke(letter, func(x0, y0, x1, y1 float64) {
			c.line(x+u*x0, y+u*y0, x+u*x1, y+u*y1, max(1, 0.85*u), color)
		})
		x += u * letterAdvance
	}
}

// width is how wide text writes.
func (c *canvas) width(size float64, text string) float64 {
	return c.Unit * size * (letterAdvance*float64(utf8.RuneCountInString(text)) - 2)
}
