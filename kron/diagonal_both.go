package kron

import (
	"fmt"
	"slices"

	"gputrain/buffers"
	"gputrain/gpu"
)

// bothDiagonal is the matrices with two diagonal factors. Their tiles write partial sums of P² along rows and columns, which are then
// folded to T. The partial sums take an eighth of the matrices, so that this goes in waves, whose sums fit their buffer; a model of
// ordinary size has one.
//
//	balance, a dispatch (for each bank), which does something in updates that balance
//	for each wave: tiles' sums, a dispatch for each slab (and bank); fold, one (for each bank)
//	apply: for each wave and slab
type bothDiagonal struct {
	areas    []area
	waves    []*wave
	pairs    []*pairs
	squares  uint32 // sums of squares: one a workgroup
	partials *gpu.Buffer
	table    *gpu.Buffer // of the areas
}

// area is what of a block lies in one slab: Area in shared/kron_area.wgsl.
type area struct {
	place, rows, cols, row, left, right, across, byRow, byCol, block, kind, stack, leaf uint32
}

// wave is blocks whose partial sums are there at one time.
type wave struct {
	sums   int // f32
	groups []*areaGroups
	folds  []*fold
}

// areaGroups is the workgroups of a slab and a bank: Group in shared/kron_area.wgsl.
type areaGroups struct {
	slab, bank int
	items      [][3]uint32
	table      *gpu.Buffer
}

// pairs is the two factors of each block in a bank: Pair in kron_diagonal_balance.wgsl.
type pairs struct {
	bank  int
	items [][4]uint32
	table *gpu.Buffer
}

// fold is the items of a bank whose T is in partial sums.
type fold struct {
	bank  int
	items []factorItem
	table *gpu.Buffer
}

const (
	tileRows  = 16 // as in shared/kron_area.wgsl
	tileFours = 4
	waveBytes = 32 << 20 // of partial sums
)

// addBoth adds a leaf.
func (p *diagonalPath) addBoth(plan *Plan, m Matrix, leaf buffers.Leaf) error {
	bank, err := p.room(m, m.Blocks, fours(m.Rows)+fours(m.Cols))
	if err != nil {
		return err
	}
	l := diagonalLeaf{matrix: m, block: len(p.blocks), left: len(p.factors), right: len(p.factors) + m.Blocks}
	p.leaves = append(p.leaves, l)
	across := (fours(m.Cols) + tileFours - 1) / tileFours
	var places []partialSums
	for _, b := range plan.BlocksOf(m) {
		block := p.block(m.Rows * m.Cols)
		s, err := p.both.reserve(p.Device(), m, piecesOf(leaf, m, b), across)
		if err != nil {
			return err
		}
		places = append(places, s)
		p.factor(m, b.Stack, block, 0, m.Cols)
		p.put(bank(b.Stack), m.Rows, 0, m.Rows, func(first int) factorItem {
			return factorItem{place: uint32(s.byRow + first*across), step: uint32(across), stride: 1, sums: uint32(across)}
		})
	}
	for _, b := range plan.BlocksOf(m) {
		s := places[b.Stack]
		p.factor(m, b.Stack, uint32(l.block+b.Stack), 1, m.Rows)
		p.put(bank(b.Stack), m.Cols, 0, m.Cols, func(first int) factorItem {
			return factorItem{place: uint32(s.byCol + first), step: 1, stride: uint32(4 * fours(m.Cols)), sums: uint32(s.tiles)}
		})
	}
	for _, b := range plan.BlocksOf(m) {
		p.both.cover(&p.diagonals, l, b, piecesOf(leaf, m, b), places[b.Stack], across)
	}
	return nil
}

// partialSums is where the partial sums of a block are: along rows, and along columns for each row of tiles.
type partialSums struct {
	wave, byRow, byCol, tiles int
}

// reserve finds room for the sums of a block.
func (w *bothDiagonal) reserve(dev *gpu.Device, m Matrix, pieces []piece, across int) (partialSums, error) {
	tiles := 0
	for _, p := range pieces {
		tiles += (p.Rows + tileRows - 1) / tileRows
	}
	byRow, byCol := m.Rows*across, tiles*4*fours(m.Cols)
	limit := dev.Limits().BindingBytes
	if bytes := 4 * uint64(byRow+byCol); bytes > limit {
		return partialSums{}, fmt.Errorf("leaf %q: %w", m.Path,
			&gpu.LimitError{Subject: "partial sums of a matrix with two diagonal factors", Bytes: bytes, Limit: limit, Name: "BindingBytes"})
	}
	if n := len(w.waves); n == 0 || 4*uint64(w.waves[n-1].sums+byRow+byCol) > min(limit, waveBytes) {
		w.waves = append(w.waves, &wave{})
	}
	last := len(w.waves) - 1
	s := partialSums{wave: last, byRow: w.waves[last].sums, byCol: w.waves[last].sums + byRow, tiles: tiles}
	w.waves[last].sums += byRow + byCol
	return s, nil
}

// cover adds the areas and workgroups of a block.
func (w *bothDiagonal) cover(d *diagonals, l diagonalLeaf, b Block, pieces []piece, s partialSums, across int) {
	left, right := d.factors[l.left+b.Stack], d.factors[l.right+b.Stack]
	in := left.runs[0].bank
	block := &d.blocks[left.block]
	block.squares = w.squares
	tiles := 0
	for _, p := range pieces {
		groups := w.waves[s.wave].groupsOf(p.Slab, in)
		down := (p.Rows + tileRows - 1) / tileRows
		for first := 0; first < down*across; first += groupLanes {
			groups.items = append(groups.items, [3]uint32{uint32(len(w.areas)), uint32(first), w.squares})
			w.squares++
		}
		w.areas = append(w.areas, area{
			place: uint32(p.At), rows: uint32(p.Rows), cols: uint32(b.Cols), row: uint32(p.Row),
			left: uint32(4 * left.runs[0].four), right: uint32(right.runs[0].four), across: uint32(across),
			byRow: uint32(s.byRow), byCol: uint32(s.byCol + tiles*4*fours(b.Cols)),
			block: left.block, kind: left.kind, stack: left.stack, leaf: left.leaf,
		})
		tiles += down
	}
	block.sums = w.squares - block.squares
	w.pair(in, left, right)
	for _, f := range []diagonalFactor{left, right} {
		v := w.waves[s.wave]
		v.folds = foldInto(v.folds, in, d.banks[in].items[f.runs[0].item:][:f.chunks])
	}
}

// pair adds the factors of a block to the factors of their bank.
func (w *bothDiagonal) pair(in int, left, right diagonalFactor) {
	i := slices.IndexFunc(w.pairs, func(p *pairs) bool { return p.bank == in })
	if i < 0 {
		i = len(w.pairs)
		w.pairs = append(w.pairs, &pairs{bank: in})
	}
	a, b := left.runs[0], right.runs[0]
	w.pairs[i].items = append(w.pairs[i].items, [4]uint32{uint32(a.four), uint32(fours(a.count)), uint32(b.four), uint32(fours(b.count))})
}

// groupsOf are the workgroups of a slab and a bank.
func (w *wave) groupsOf(slab, bank int) *areaGroups {
	for _, g := range w.groups {
		if g.slab == slab && g.bank == bank {
			return g
		}
	}
	g := &areaGroups{slab: slab, bank: bank}
	w.groups = append(w.groups, g)
	return g
}

// foldInto adds the items of a factor to the items of its bank.
func foldInto(folds []*fold, in int, items []factorItem) []*fold {
	i := slices.IndexFunc(folds, func(f *fold) bool { return f.bank == in })
	if i < 0 {
		i = len(folds)
		folds = append(folds, &fold{bank: in})
	}
	folds[i].items = append(folds[i].items, items...)
	return folds
}

// allocate makes the tables and the room for one wave's sums.
func (w *bothDiagonal) allocate(d *diagonals) {
	sums := 0
	for i, v := range w.waves {
		sums = max(sums, v.sums)
		for k, g := range v.groups {
			g.table = d.Filled(fmt.Sprintf("groups.%d.%d", i, k), g.items)
		}
		for k, f := range v.folds {
			f.table = d.Filled(fmt.Sprintf("folds.%d.%d", i, k), f.items)
		}
	}
	for i, p := range w.pairs {
		p.table = d.Filled(fmt.Sprintf("pairs.%d", i), p.items)
	}
	if len(w.waves) > 0 {
		w.table = d.Filled("areas", w.areas)
		w.partials = d.Zeros("partials", 4*uint64(sums))
	}
}

// each records a kernel for all workgroups of a wave.
func (w *bothDiagonal) each(d *diagonals, rec *gpu.Recording, v *wave, name string, flags map[string]bool, bind func(g *areaGroups) []gpu.Range) {
	for _, g := range v.groups {
		d.dispatch(rec, name, flags, d.groups(len(g.items)), uint32(len(g.items)), bind(g)...)
	}
}

// balance records what updates that balance begin with.
func (w *bothDiagonal) balance(d *diagonals, rec *gpu.Recording, c call) {
	for _, p := range w.pairs {
		d.dispatch(rec, "diagonal_balance", map[string]bool{"BF16": d.bf16(), "DENSE": false}, d.groups(len(p.items)),
			uint32(len(p.items)), c.scalars, p.table.All(), c.flag, d.banks[p.bank].q.All())
	}
}

// measure records the sums of squares of the gradients.
func (w *bothDiagonal) measure(d *diagonals, rec *gpu.Recording, c call) {
	for _, v := range w.waves {
		w.each(d, rec, v, "diagonal_squares", nil, func(g *areaGroups) []gpu.Range {
			return []gpu.Range{g.table.All(), w.table.All(), c.updates.Slab(g.slab), d.squares.All()}
		})
	}
}

// follow records T of the factors and its maxima.
func (w *bothDiagonal) follow(d *diagonals, rec *gpu.Recording, c call) {
	for _, v := range w.waves {
		w.each(d, rec, v, "diagonal_sums", d.drawing(), func(g *areaGroups) []gpu.Range {
			return []gpu.Range{
				c.scalars, g.table.All(), w.table.All(), c.updates.Slab(g.slab), d.amplitude.All(), d.banks[g.bank].q.All(), w.partials.All(),
			}
		})
		for _, f := range v.folds {
			d.fold(rec, f, w.partials.All())
		}
	}
}

// fold records the maxima of T of some factors, and T itself where it is in partial sums.
func (d *diagonals) fold(rec *gpu.Recording, f *fold, partials ...gpu.Range) {
	bind := append([]gpu.Range{f.table.All(), d.maxima.All(), d.banks[f.bank].t.All()}, partials...)
	flags := map[string]bool{"PARTIALS": len(partials) > 0}
	d.dispatch(rec, "diagonal_fold", flags, d.groups(len(f.items)), uint32(len(f.items)), bind...)
}

// apply records the updates.
func (w *bothDiagonal) apply(d *diagonals, rec *gpu.Recording, c call) {
	for _, v := range w.waves {
		w.each(d, rec, v, "diagonal_apply", map[string]bool{"BF16": d.bf16()}, func(g *areaGroups) []gpu.Range {
			return []gpu.Range{g.table.All(), w.table.All(), d.banks[g.bank].q.All(), c.updates.Slab(g.slab)}
		})
	}
}
