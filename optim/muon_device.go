package optim

import (
	"fmt"

	"gputrain/buffers"
	"gputrain/gpu"
)

// orthogonalState is orthogonal at work: for each chunk its matrices are gathered from the update to stacks, measured, stepped and
// scattered back. It has no state of its own; buffers are shared by all chunks.
type orthogonalState struct {
	*gpu.Set
	orthogonal
	chunks []muonChunk
	tables [][][][2]*gpu.Buffer // by chunk, tile and slab, as in muonMoves; nil where there is nothing to move
	// stacks of tiles: the momentum, and two sets that steps go between; without Adaptive the first is one of the two.
	stacks [3][]*gpu.Buffer
	grams  [2][]*gpu.Buffer // of tiles on and above the diagonal: A, and b A + c A²
	small  [2]*gpu.Buffer   // more of them, for chunks of small steps
	sums   [2]*gpu.Buffer   // that products of several tiles go between
	scales [3]*gpu.Buffer   // of a matrix, in the first step: (s², 1), (s, a s), (s, 1) with s = 1/(|M| + eps)

	partial, factors *gpu.Buffer // sums of products of elements; <M, X> of a matrix
	even             []evened    // by chunk, with Even

	columns, multipliers *gpu.Buffer // with Even: sums of squares of columns by slices of rows; what columns are multiplied by
}

func (o orthogonal) Open(s Scene) (Operation, error) {
	if err := s.matrices(); err != nil {
		return nil, err
	}
	w := &orthogonalState{orthogonal: o, Set: s.Device.NewSet("gputrain.optim.muon"), chunks: muonChunks(s, s.Device.Limits(), o.Even > 0)}
	if err := w.allocate(); err != nil {
		w.Release()
		return nil, err
	}
	return w, nil
}

func (w *orthogonalState) allocate() error {
	buffer := func(name string, n int) *gpu.Buffer { return w.Zeros(name, 4*uint64(n)) }
	buffersOf := func(name string, sizes []int) (out []*gpu.Buffer) {
		for _, n := range sizes {
			out = append(out, buffer(name, n))
		}
		return out
	}
	var stacks, grams []int // sizes, by tile
	largest := func(sizes []int, count, n int) []int {
		for i := range count {
			if i == len(sizes) {
				sizes = append(sizes, 0)
			}
			sizes[i] = max(sizes[i], n)
		}
		return sizes
	}
	small, sum, partial, count := 0, 0, 0, 0
	for _, c := range w.chunks {
		stacks = largest(stacks, c.down*c.across, c.stackSize())
		grams = largest(grams, c.down*(c.down+1)/2, c.gramSize())
		if c.small(w.Steps) {
			small = max(small, c.gramSize())
		}
		if c.down*c.across > 1 {
			sum = max(sum, c.stackSize(), c.gramSize())
		}
		partial, count = max(partial, c.down*c.across*c.count*c.groups()*lanes), max(count, c.count)
		var tables [][][2]*gpu.Buffer
		for _, slabs := range c.moves {
			row := make([][2]*gpu.Buffer, len(slabs))
			for slab, moves := range slabs {
				for by, runs := range moves {
					if len(runs) > 0 {
						row[slab][by] = w.Filled("moves", runs)
					}
				}
			}
			tables = append(tables, row)
		}
		w.tables = append(w.tables, tables)
	}
	w.stacks = [3][]*gpu.Buffer{buffersOf("stack", stacks), buffersOf("stack", stacks), nil}
	w.stacks[2] = w.stacks[0]
	if w.Adaptive {
		w.stacks[2] = buffersOf("stack", stacks)
	}
	w.grams = [2][]*gpu.Buffer{buffersOf("gram", grams), buffersOf("gram", grams)}
	w.small = [2]*gpu.Buffer{buffer("gram", small), buffer("gram", small)}
	w.sums = [2]*gpu.Buffer{buffer("sum", sum), buffer("sum", sum)}
	w.scales = [3]*gpu.Buffer{buffer("scales", 2*count), buffer("scales", 2*count), buffer("scales", 2*count)}
	w.allocateEven()
	w.partial, w.factors = buffer("partial", partial), buffer("factors", count)
	return w.Err()
}

func (w *orthogonalState) Reuses() bool                { return false }
func (w *orthogonalState) Prepare(int64) (bool, error) { return false, nil }

func (w *orthogonalState) Record(rec *gpu.Recording, c OperatorCall) {
	for i, chunk := range w.chunks {
		if chunk.padded {
			for _, b := range w.stacks[0][:chunk.down*chunk.across] {
				rec.Zero(b.Range(0, 4*uint64(chunk.stackSize())))
			}
		}
		w.recordMoves(rec, i, "gather", c.Updates, w.stacks[0])
		w.recordDots(rec, chunk, w.stacks[0], true)
		x := w.recordSteps(rec, chunk)
		if w.Adaptive {
			w.recordDots(rec, chunk, x, false)
		}
		if w.Even > 0 {
			w.recordEven(rec, chunk, w.even[i], x, c.Flag)
		}
		w.recordMoves(rec, i, "scatter", c.Updates, x)
	}
}

// recordMoves records "gather", from the update to stacks, or "scatter", back.
func (w *orthogonalState) recordMoves(rec *gpu.Recording, chunk int, name string, updates *buffers.Tree, stacks []*gpu.Buffer) {
	for tile, slabs := range w.tables[chunk] {
		for slab, tables := range slabs {
			for by, table := range tables {
				if table != nil {
					w.recordMove(rec, w.chunks[chunk], name, by == 1, table, updates.Slab(slab), stacks[tile].All())
				}
			}
		}
	}
}

func (w *orthogonalState) recordMove(rec *gpu.Recording, c muonChunk, name string, blocks bool, table *gpu.Buffer, update, stack gpu.Range) {
	element, size := "f32", c.height*c.width
	if blocks {
		element, size = "vec4<f32>", size/4
	}
	gather := name == "gather"
	adaptive := !gather && w.Adaptive
	bind := []gpu.Range{table.All(), update, stack}
	if adaptive {
		bind = append(bind, w.factors.All())
	}
	flags := map[string]bool{"GATHER": gather, "ADAPTIVE": adaptive, "BLOCKS": blocks}
	k := operatorKernel("muon_move", "muon_"+name, flags, map[string]string{"T": element})
	runs := uint64(table.Bytes() / (4 * moveWords))
	rec.Dispatch(k, gpu.Linear(runs, 1, w.Device().Limits()), struct{ Runs, Size uint32 }{uint32(runs), uint32(size)}, bind...)
}

// recordDots records, for each matrix of a chunk, the product of all its elements with the momentum's: for the norm of
// the momentum to the scales of the first step, else to the factors.
func (w *orthogonalState) recordDots(rec *gpu.Recording, c muonChunk, with []*gpu.Buffer, norm bool) {
	dots := operatorKernel("muon_dots", "muon_dots", nil, map[string]string{"STEPS": fmt.Sprint(dotSteps)})
	groups := uint32(c.groups() * c.count)
	for tile := range c.down * c.across { // of several tiles there is one matrix: its sums lie one after the other
		params := struct{ Vecs, Groups, Total, Base uint32 }{uint32(c.height * c.width / 4), uint32(c.groups()), groups, uint32(tile) * groups}
		rec.Dispatch(dots, gpu.Linear(uint64(groups), 1, w.Device().Limits()), params, w.stacks[0][tile].All(), with[tile].All(), w.partial.All())
	}
	bind := []gpu.Range{w.partial.All(), w.factors.All()}
	if norm {
		bind = []gpu.Range{w.partial.All(), w.scales[0].All(), w.scales[1].All(), w.scales[2].All()}
	}
	total := operatorKernel("muon_total", "muon_total", map[string]bool{"NORM": norm}, nil)
	params := struct {
		Partials, Matrices uint32
		Eps, A             float32
	}{uint32(c.down * c.across * c.groups() * lanes), uint32(c.count), float32(w.Eps), float32(w.Coefficients[0])}
	rec.Dispatch(total, gpu.Linear(uint64(c.count), 1, w.Device().Limits()), params, bind...)
}
