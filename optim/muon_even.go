package optim

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"gputrain/buffers"
	"gputrain/gpu"
)

// With Even each index of the longer side has a second moment of the orthogonal update, by whose root the update is divided, before the whole gets
// back the norm that it had (NorMuon). In stacks that side are the columns.

// evened is a chunk with its second moments, one matrix after the other, of tiles side by side.
type evened struct {
	table   *gpu.Buffer // of the matrices
	moments *gpu.Buffer
}

const sliceRows = 128 // of a matrix, whose sums of squares an invocation makes

// slices is how many of them a tile has.
func (c muonChunk) slices() int { return (c.height + sliceRows - 1) / sliceRows }

// evenMatrix is Matrix of optim_muon_even.wgsl.
type evenMatrix struct {
	Long, Slices, First, Stride, Place uint32
	Size, Rest                         float32
	Unused                             uint32
}

func (w *orthogonalState) allocateEven() {
	if w.Even == 0 {
		return
	}
	sums, moments := 0, 0
	for _, c := range w.chunks {
		wide := c.across * c.width
		var table []evenMatrix
		for i, l := range c.leaves {
			slices := c.down * c.slices()
			table = append(table, evenMatrix{
				Long: uint32(max(l.Shape[0], l.Shape[1])), Slices: uint32(slices), First: uint32(i * slices * wide / 4), Stride: uint32(wide / 4), Place: uint32(i * wide),
				Size: float32(w.size(l)), Rest: float32((1 - w.Even) / float64(min(l.Shape[0], l.Shape[1]))),
			})
		}
		w.even = append(w.even, evened{w.Filled("even", table), w.Zeros("nu", 4*uint64(c.count*wide))})
		sums, moments = max(sums, c.count*c.down*c.slices()*wide), max(moments, c.count*wide)
	}
	w.columns, w.multipliers = w.Zeros("columns", 4*uint64(sums)), w.Zeros("multipliers", 4*uint64(moments))
}

// recordEven records what follows the steps on a chunk.
func (w *orthogonalState) recordEven(rec *gpu.Recording, c muonChunk, e evened, x []*gpu.Buffer, flag gpu.Range) {
	lim, wide := w.Device().Limits(), c.across*c.width
	each := func(do func(i, k int, tile gpu.Range)) { // of several tiles there is one matrix
		for i := range c.down {
			for k := range c.across {
				do(i, k, x[c.tile(i, k)].Range(0, 4*uint64(c.stackSize())))
			}
		}
	}
	each(func(i, k int, tile gpu.Range) {
		n := c.count * c.slices() * c.width / 4
		params := struct{ Vecs, Rows, Slices, Total, First, Stride uint32 }{
			uint32(c.width / 4), uint32(c.height), uint32(c.slices()), uint32(n), uint32((i*c.slices()*wide + k*c.width) / 4), uint32(wide / 4),
		}
		kernel := operatorKernel("muon_columns", "muon_columns", nil, map[string]string{"ROWS": fmt.Sprint(sliceRows)})
		rec.Dispatch(kernel, gpu.Linear(uint64(n), lanes, lim), params, tile, w.columns.All())
	})
	flags := map[string]bool{"ADAPTIVE": w.Adaptive, "SKIP": flag.Bytes > 0}
	bind := []gpu.Range{e.table.All(), w.columns.All(), e.moments.All(), w.multipliers.All()}
	if w.Adaptive {
		bind = append(bind, w.factors.All())
	}
	if flag.Bytes > 0 {
		bind = append(bind, flag.Buffer.Range(flag.Offset, 16))
	}
	rec.Dispatch(operatorKernel("muon_even", "muon_even", flags, nil), gpu.Linear(uint64(c.count), 1, lim), struct {
		Matrices uint32
		B        float32
	}{uint32(c.count), float32(w.Even)}, bind...)
	each(func(_, k int, tile gpu.Range) {
		n := c.stackSize() / 4
		params := struct{ Vecs, Rows, Total, First, Stride uint32 }{uint32(c.width / 4), uint32(c.height), uint32(n), uint32(k * c.width / 4), uint32(wide / 4)}
		rec.Dispatch(operatorKernel("muon_multiply", "muon_multiply", nil, nil), gpu.Linear(uint64(n), lanes, lim), params, w.multipliers.All(), tile)
	})
}

// Tensors are the second moments.
func (w *orthogonalState) Tensors() []buffers.Tensor {
	var out []buffers.Tensor
	for i, e := range w.even {
		c := w.chunks[i]
		for k, l := range c.leaves {
			long := max(l.Shape[0], l.Shape[1])
			out = append(out, rangeTensor(w.Device(), "nu/"+l.Path, []int{long}, e.moments, k*c.across*c.width))
		}
	}
	slices.SortFunc(out, func(a, b buffers.Tensor) int { return strings.Compare(a.Name, b.Name) })
	return out
}

func newOrthogonalTwin(o orthogonal, s Scene) *orthogonalTwin {
	w := &orthogonalTwin{orthogonal: o, Scene: s, moments: make([][]float64, len(s.Leaves))}
	for i, l := range s.Leaves {
		if s.Chosen[i] && o.Even > 0 && l.Elements() > 0 && len(l.Shape) == 2 {
			w.moments[i] = make([]float64, max(l.Shape[0], l.Shape[1]))
		}
	}
	return w
}

// even is the definition, of u before it is multiplied by its size.
func (w *orthogonalTwin) even(leaf int, u []float64, skip bool) {
	l := w.Leaves[leaf]
	size, long, short := w.size(l), max(l.Shape[0], l.Shape[1]), min(l.Shape[0], l.Shape[1])
	place := func(i int) int {
		if longRows(l) {
			return i / l.Shape[1]
		}
		return i % l.Shape[1]
	}
	sums, next := make([]float64, long), make([]float64, long)
	for i, x := range u {
		sums[place(i)] += size * size * x * x
	}
	for k, s := range sums {
		next[k] = w.Even*w.moments[leaf][k] + (1-w.Even)*s/float64(short)
	}
	before, after := 0.0, 0.0
	for i, x := range u {
		p := size * x / math.Sqrt(max(next[place(i)], 1e-10))
		before += size * size * x * x
		after += p * p
		u[i] = p
	}
	for i := range u {
		u[i] *= math.Sqrt(before) / max(math.Sqrt(after), 1e-10) / size
	}
	if !skip {
		for k, v := range next {
			w.moments[leaf][k] = store(v, buffers.F32)
		}
	}
}

func (w *orthogonalTwin) Tensors() []buffers.Host {
	var out []buffers.Host
	for i, m := range w.moments {
		if m != nil {
			h := buffers.Host{Path: "nu/" + w.Leaves[i].Path, Shape: []int{len(m)}}
			for _, v := range m {
				h.Data = append(h.Data, float32(v))
			}
			out = append(out, h)
		}
	}
	return out
}
