package optim

import (
	"math"
	"slices"

	"gputrain/buffers"
)

// factoredRMS is the operator of ScaleByFactoredRMS, for leaves that it factors.
type factoredRMS struct {
	FactoredRMSOptions
	grouped bool // take the kernel that is for hardware
}

// cost is of large matrices, whose two vectors do not count: the sums read the update, and its scaling reads and writes it.
func (f factoredRMS) Cost() Cost { return Cost{TrafficBytes: 12, FLOPs: 6} }

// factoredTwin is the definition, by coordinates of elements.
type factoredTwin struct {
	factoredRMS
	Scene
	row, col map[int][]float64 // by leaf
}

func (f factoredRMS) Twin(s Scene) (OperatorTwin, error) {
	w := &factoredTwin{factoredRMS: f, Scene: s, row: map[int][]float64{}, col: map[int][]float64{}}
	for i, l := range s.Leaves {
		if s.Chosen[i] {
			first, second := largestAxes(l.Shape)
			w.row[i] = make([]float64, buffers.Leaf{Shape: without(l.Shape, first)}.Elements())
			w.col[i] = make([]float64, buffers.Leaf{Shape: without(l.Shape, second)}.Elements())
		}
	}
	return w, nil
}

// without is a shape less some axes.
func without(shape []int, axes ...int) []int {
	out := []int{}
	for axis, d := range shape {
		if !slices.Contains(axes, axis) {
			out = append(out, d)
		}
	}
	return out
}

// index is the place of an element of a leaf in an array that lacks some axes.
func index(element int, shape []int, axes ...int) int {
	at, stride := 0, 1
	for axis := len(shape) - 1; axis >= 0; axis-- {
		if !slices.Contains(axes, axis) {
			at += element % shape[axis] * stride
			stride *= shape[axis]
		}
		element /= shape[axis]
	}
	return at
}

func (w *factoredTwin) Update(t int64, u, _ [][]float64, skip bool) {
	rest := w.rest(t)
	for i, l := range w.Leaves {
		if !w.Chosen[i] {
			continue
		}
		first, second := largestAxes(l.Shape)
		mean := func(old []float64, axis int) []float64 {
			sums := make([]float64, len(old))
			for e, x := range u[i] {
				sums[index(e, l.Shape, axis)] += x*x + w.Eps
			}
			for k := range sums {
				sums[k] = (1-rest)*old[k] + rest*sums[k]/float64(l.Shape[axis])
			}
			return sums
		}
		row, col := mean(w.row[i], first), mean(w.col[i], second)
		means := make([]float64, max(1, buffers.Leaf{Shape: without(l.Shape, first, second)}.Elements()))
		for e := range u[i] { // each entry of row as often as the largest axis is long
			means[index(e, l.Shape, first, second)] += row[index(e, l.Shape, first)] / float64(l.Shape[first]*l.Shape[second])
		}
		for e := range u[i] {
			r := row[index(e, l.Shape, first)] / means[index(e, l.Shape, first, second)]
			u[i][e] /= math.Sqrt(r) * math.Sqrt(col[index(e, l.Shape, second)])
		}
		if !skip {
			for k, x := range row {
				w.row[i][k] = store(x, buffers.F32)
			}
			for k, x := range col {
				w.col[i][k] = store(x, buffers.F32)
			}
		}
	}
}

func (w *factoredTwin) Tensors() []buffers.Host {
	var out []buffers.Host
	for i, l := range w.Leaves {
		if !w.Chosen[i] {
			continue
		}
		first, second := largestAxes(l.Shape)
		for _, side := range []struct {
			name string
			data []float64
			axis int
		}{{"v_row", w.row[i], first}, {"v_col", w.col[i], second}} {
			h := buffers.Host{Path: side.name + "/" + l.Path, Shape: without(l.Shape, side.axis)}
			for _, x := range side.data {
				h.Data = append(h.Data, float32(x))
			}
			out = append(out, h)
		}
	}
	return out
}
