package table

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
)

// StripPoints is the number of points that one strip stands for.
const StripPoints = 256

// Strip is what a picture needs of neighbouring points of a series where it has room for a few of them.
type Strip struct {
	Points []Point[int32] // its extremes, by their lines in the block
	Count  int            // of the finite points
	Mean   float64        // of these
	// The mean where each point weighs the time that its step took, and that time on average, where every point has one.
	TimedMean, StepMS float64
}

// stripBytes is a strip in a file: five points of a line, 65,535 where there is none, and a value; the count, and three numbers.
const stripBytes = 5*(2+8) + 2 + 3*8

const noLine = math.MaxUint16

// strips makes strips of a series, whose points have a time if took is not nil.
func (s *series) strips(took *series) (raw []byte) {
	var kept Extremes[int32]
	var points []Point[int32]
	at := 0
	for from := 0; from < len(s.line); from += StripPoints {
		var strip Strip
		weights := 0.0
		for i := from; i < min(from+StripPoints, len(s.line)); i++ {
			y := s.value[i]
			kept.Add(s.line[i], y)
			if math.IsNaN(y) || math.IsInf(y, 0) {
				continue
			}
			strip.Count++
			strip.Mean += (y - strip.Mean) / float64(strip.Count)
			if took == nil {
				continue
			}
			for took.line[at] < s.line[i] {
				at++
			}
			weights += took.value[at]
			strip.TimedMean += (y - strip.TimedMean) * took.value[at] / weights
		}
		if strip.Count > 0 {
			strip.StepMS = weights / float64(strip.Count)
		}
		points = kept.Take(points[:0])
		for i := range 5 {
			line, value := uint16(noLine), 0.0
			if i < len(points) {
				line, value = uint16(points[i].At), points[i].Value
			}
			raw = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint16(raw, line), math.Float64bits(value))
		}
		raw = binary.LittleEndian.AppendUint16(raw, uint16(strip.Count))
		for _, v := range []float64{strip.Mean, strip.TimedMean, strip.StepMS} {
			raw = binary.LittleEndian.AppendUint64(raw, math.Float64bits(v))
		}
	}
	return raw
}

// strips is how many strips the points of a column make; few points have none, and are read themselves.
func (c column) strips() int {
	if c.N <= StripPoints {
		return 0
	}
	return (c.N + StripPoints - 1) / StripPoints
}

// Strips are those of a series in a block. They can be read into again.
type Strips struct {
	Strip  []Strip
	raw    []byte
	points []Point[int32]
}

// ReadStrips reads the strips of a series; none where the block has few points of it, or is not on disk yet.
func (t *Table) ReadStrips(block int, name string, to *Strips) error {
	to.Strip, to.points = to.Strip[:0], to.points[:0]
	if block >= len(t.blocks) {
		return nil
	}
	h := t.blocks[block]
	c := h.series(name)
	if c == nil || c.strips() == 0 {
		return nil
	}
	to.raw = sized(to.raw, c.strips()*stripBytes)
	if _, err := h.file.ReadAt(to.raw, h.at+c.At+c.size(h.Lines)); err != nil {
		return fmt.Errorf("table: %s: %w", name, err)
	}
	if crc32.Checksum(to.raw, castagnoli) != c.StripsCheck {
		return fmt.Errorf("table: %s: %w", name, errDamaged)
	}
	if cap(to.points) < 5*c.strips() {
		to.points = make([]Point[int32], 0, 5*c.strips())
	}
	for raw := to.raw; len(raw) > 0; raw = raw[stripBytes:] {
		from := len(to.points)
		for i := range 5 {
			line := binary.LittleEndian.Uint16(raw[10*i:])
			if line == noLine {
				break
			}
			if int(line) >= h.Lines {
				return fmt.Errorf("table: %s: %w", name, errDamaged)
			}
			to.points = append(to.points, Point[int32]{At: int32(line), Value: math.Float64frombits(binary.LittleEndian.Uint64(raw[10*i+2:]))})
		}
		number := func(i int) float64 { return math.Float64frombits(binary.LittleEndian.Uint64(raw[52+8*i:])) }
		to.Strip = append(to.Strip, Strip{to.points[from:], int(binary.LittleEndian.Uint16(raw[50:])), number(0), number(1), number(2)})
	}
	return nil
}
