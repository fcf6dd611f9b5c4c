package window

import (
	"encoding/binary"
	"math"
	"unicode/utf8"
)

// Color is red, green and blue, 0 to 255.
type Color [3]uint8

// mix is c with a share of d.
func (c Color) mix(d Color, share float64) Color {
	for i := range c {
		c[i] = uint8(math.Round(float64(c[i])*(1-share) + float64(d[i])*share))
	}
	return c
}

// Box is a part of the window in pixels, from the top left.
type Box struct{ X, Y, W, H float64 }

// Contains says whether a point is in b.
func (b Box) Contains(x, y float64) bool {
	return x >= b.X && x < b.X+b.W && y >= b.Y && y < b.Y+b.H
}

// shapeBytes is the size of a shape on the device: two points, a width (negative for the box between the points) and a color.
const shapeBytes = 32

// maxShapes bounds a picture; what is drawn beyond it is left out.
const maxShapes = 1 << 16

// Canvas collects the shapes of a picture, the first at the bottom.
type Canvas struct {
	Unit   float64 // pixels of a unit of the letters' grid at size 1
	shapes []byte
}

// Shapes are the shapes as the shader reads them.
func (c *Canvas) Shapes() []byte { return c.shapes }

func (c *Canvas) add(x0, y0, x1, y1, width float64, color Color) {
	if len(c.shapes) >= maxShapes*shapeBytes {
		return
	}
	for _, v := range []float64{x0, y0, x1, y1, width} {
		c.shapes = binary.LittleEndian.AppendUint32(c.shapes, math.Float32bits(float32(v)))
	}
	c.shapes = append(c.shapes, color[0], color[1], color[2], 255)
	c.shapes = append(c.shapes, make([]byte, 8)...)
}

// Fill fills a box.
func (c *Canvas) Fill(b Box, color Color) { c.add(b.X, b.Y, b.X+b.W, b.Y+b.H, -1, color) }

// Line draws a line with round ends.
func (c *Canvas) Line(x0, y0, x1, y1, width float64, color Color) {
	c.add(x0, y0, x1, y1, width, color)
}

// Text writes one line, its top left at x, y.
func (c *Canvas) Text(x, y, size float64, color Color, text string) {
	u := c.Unit * size
	for _, letter := range text {
		eachStroke(letter, func(x0, y0, x1, y1 float64) {
			c.Line(x+u*x0, y+u*y0, x+u*x1, y+u*y1, max(1, 0.85*u), color)
		})
		x += u * letterAdvance
	}
}

// Width is how wide Text writes.
func (c *Canvas) Width(size float64, text string) float64 {
	return c.Unit * size * (letterAdvance*float64(utf8.RuneCountInString(text)) - 2)
}
