package optim

import (
	"context"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"gputrain/buffers"
	"gputrain/gpu"
)

// A rowRule says what becomes of an update by rows and by matrices of the parameters: a floor of its size, and spheres that parameters stay on.
// An element that asks for $row_pull and $row_stretch, the two numbers p' - p = pull p + stretch u of each row, has one. They come of three sums,
// w·w, w·u and u·u, which a pass of their own measures before the element's kernel:
//
//	optim_rows       a sum for each run of at most 8,192 elements of a row (of a matrix, where rows do not matter), or 64 rows of a column
//	optim_rows_fold  a workgroup a matrix: the runs of its rows, the rows of it, and the two numbers of each row
//
// Runs are cut by the shape of a leaf alone, so that its place, its parts and its neighbours change no bit. A leaf lies whole on the device that updates
// it, so nothing is exchanged. The two numbers lie in each slab's table, behind the values of the leaves.
type rowRule struct {
	floor   float64 // 0: none
	byRow   bool    // the floor is of each row, else of a matrix
	sphere  *Mask   // matrices that keep their norm; nil: none
	scanned *Mask   // leaves whose first axis counts matrices, besides those that say so themselves; nil: none
	rates   []PathRate
	eta     int // the element's scalar that is the rate
}

const (
	rowRun     = 8192 // elements of a run
	rowBlock   = 64   // rows of a run of whole rows, or of columns, at most: parts of a leaf are cut at multiples of it
	groupOfRow = 5    // words of a group: first element in the slab, elements or rows, columns of a leaf (0: a run), place among sums, columns at hand
	matrixWord = 6    // words of a matrix: first sum, rows, sums a row, place of its first row, 1 floor by row | 2 by matrix | 4 sphere, rate

	floorLeast  = 1e-8  // of a norm under the floor
	sphereLeast = 1e-10 // of a norm that is divided by
)

// rowsOf is what a rule makes of a leaf.
type rowsOf struct {
	first     int // place of its first row among all
	count     int // of rows; 0: the rule is not for the leaf
	inner     int // element k is of row k/inner, with columns of row k%inner
	matrices  int
	columns   bool // the leaf is [inputs, outputs], rows lie across
	byRow     bool
	byMatrix  bool
	onSphere  bool
	rate      float32
	perMatrix int // elements
	width     int // elements of a row of a matrix
}

// of finds the rows of the leaves at hand, and how many there are.
func (r *rowRule) of(leaves []buffers.Leaf, whole []string) (out []rowsOf, count int, err error) {
	masked := func(name string, m *Mask) ([]bool, error) {
		if m == nil {
			return make([]bool, len(leaves)), nil
		}
		in, err := m.resolve(leaves, whole)
		if err != nil {
			err = fmt.Errorf("%s: %w", name, err)
		}
		return in, err
	}
	sphere, err := masked("hyperball", r.sphere)
	if err != nil {
		return nil, 0, err
	}
	scanned, err := masked("scanned_layers", r.scanned)
	if err != nil {
		return nil, 0, err
	}
	rates, err := rateColumn(r.rates).values(leaves, whole)
	if err != nil {
		return nil, 0, err
	}
	for i, l := range leaves {
		shape, g := l.Shape, rowsOf{first: count, matrices: 1, rate: rates[i]}
		if (scanned[i] || l.Scanned) && len(shape) > 0 {
			g.matrices, shape = shape[0], shape[1:]
		}
		g.onSphere = sphere[i]
		if g.onSphere && startsAtZero.MatchString(l.Path) {
			return nil, 0, fmt.Errorf("hyperball: leaf %q: found the B of an adapter, which starts at 0 and would stay there", l.Path)
		}
		if len(shape) >= 2 && l.Elements() > 0 && (r.floor > 0 || g.onSphere) {
			if uint64(l.Elements()) > math.MaxUint32 {
				return nil, 0, fmt.Errorf("leaf %q: found %d elements, wanted at most %d where rows are measured", l.Path, l.Elements(), uint32(math.MaxUint32))
			}
			g.perMatrix = l.Elements() / g.matrices
			g.width = g.perMatrix / shape[0]
			g.byRow, g.byMatrix = r.floor > 0 && r.byRow, r.floor > 0 && !r.byRow
			g.columns = g.byRow && l.InOut && g.matrices == 1 && len(shape) == 2
			switch {
			case g.columns:
				g.count, g.inner = g.width, g.width
			case g.byRow:
				g.count, g.inner = g.matrices*shape[0], g.width
			default:
				g.count, g.inner = g.matrices, g.perMatrix
			}
			count += g.count
		}
		out = append(out, g)
	}
	return out, count, nil
}

// columnsOf are the values of leaves by which a kernel finds the row of an element. They are whole numbers, by their bits.
func (r *rowRule) columnsOf() []column {
	value := func(name string, of func(rowsOf) int) column {
		return column{name, func(leaves []buffers.Leaf, whole []string) ([]float32, error) {
			rows, _, err := r.of(leaves, whole)
			var out []float32
			for _, g := range rows {
				out = append(out, math.Float32frombits(uint32(of(g))))
			}
			return out, err
		}}
	}
	return []column{
		value("row_first", func(g rowsOf) int { return 2 * g.first }),
		value("row_inner", func(g rowsOf) int { return g.inner }),
		value("row_across", func(g rowsOf) int {
			if g.columns {
				return 1
			}
			return 0
		}),
	}
}

// rowTables are the words of each slab's table about the sums: groups, and the matrices that have elements there.
type rowTables struct {
	groups, matrices [][]uint32
	sums             int // of all slabs
	rows             int
}

// tables cuts leaves into groups.
func (r *rowRule) tables(layout *buffers.Layout, rows []rowsOf, count int) rowTables {
	t := rowTables{groups: make([][]uint32, len(layout.Slabs())), matrices: make([][]uint32, len(layout.Slabs())), rows: count}
	for _, l := range layout.Leaves() {
		g := rows[l.Index]
		if g.count == 0 {
			continue
		}
		for m := range g.matrices {
			base, seen := t.sums, map[int]bool{}
			folded, each := 0, 1
			if g.columns {
				folded, each = g.inner, t.across(l, g, seen)
			} else {
				folded, each = t.along(l, g, m, seen)
			}
			flags := uint32(0)
			for bit, is := range []bool{g.byRow, g.byMatrix, g.onSphere} {
				if is {
					flags |= 1 << bit
				}
			}
			first := 2 * (g.first + g.count/g.matrices*m)
			for slab := range layout.Slabs() {
				if seen[slab] {
					t.matrices[slab] = append(t.matrices[slab], uint32(base), uint32(folded), uint32(each), uint32(first), flags, math.Float32bits(g.rate))
				}
			}
		}
	}
	return t
}

// across cuts a matrix whose rows lie across: 64 lines of as many columns as a workgroup has invocations, or fours of them.
func (t *rowTables) across(l buffers.Leaf, g rowsOf, seen map[int]bool) (each int) {
	wide := lanes
	if g.inner%4 == 0 {
		wide *= 4
	}
	base := t.sums
	for _, part := range l.Parts {
		seen[part.Slab] = true
		for line := part.Row; line < part.Row+part.Rows; each++ {
			end := min(line/rowBlock*rowBlock+rowBlock, part.Row+part.Rows)
			for c := 0; c < g.inner; c += wide {
				t.group(part.Slab, part.Offset+(line-part.Row)*g.inner+c, end-line, g.inner, base+each*g.inner+c, min(wide, g.inner-c))
			}
			line = end
		}
	}
	t.sums += each * g.inner
	return each
}

// along cuts matrix m of a leaf whose rows lie one after another: each row, or as many as a run has, and what is longer into runs.
func (t *rowTables) along(l buffers.Leaf, g rowsOf, m int, seen map[int]bool) (folded, each int) {
	block, base := g.width, t.sums
	if !g.byRow && g.width < rowRun {
		block *= min(1<<(bits.Len(uint(rowRun/g.width))-1), rowBlock)
	}
	each = 1
	if g.byRow {
		folded, each = g.perMatrix/g.width, (g.width+rowRun-1)/rowRun
		t.sums += folded * each
	}
	line := l.Elements() / l.Shape[0]
	for at := 0; at < g.perMatrix; at += block {
		for piece := 0; piece < block && at+piece < g.perMatrix; piece += rowRun {
			from := m*g.perMatrix + at + piece
			to := min(from+min(rowRun, block-piece), (m+1)*g.perMatrix)
			for _, part := range l.Parts {
				a, b := max(from, part.Row*line), min(to, (part.Row+part.Rows)*line)
				if a >= b {
					continue
				}
				place := base + piece/rowRun*folded + at/g.width
				if !g.byRow { // what a part's edge cuts has one more
					place, folded = t.sums, folded+1
					t.sums++
				}
				seen[part.Slab] = true
				t.group(part.Slab, part.Offset+a-part.Row*line, b-a, 0, place, 0)
			}
		}
	}
	return folded, each
}

func (t *rowTables) group(slab int, words ...int) {
	for _, w := range words {
		t.groups[slab] = append(t.groups[slab], uint32(w))
	}
}

// rowWords are the words of the two numbers of so many rows, and of three that are none.
func rowWords(rows int) int { return 2 * (rows + 3) }

// bytes are those of the sums.
func (t rowTables) bytes() uint64 { return 16 * uint64(max(t.sums, 1)) }

// recordRows records the sums and what comes of them.
func (r *recorder) recordRows() {
	r.dispatch(rowsJob, r.plan.rows)
	if !r.wanted(r.round) {
		return
	}
	rule := r.plan.steps[r.plan.rows]
	k := operatorKernel("rows_fold", "rows_fold", nil, map[string]string{
		"SCALARS": fmt.Sprint(r.plan.uniformBytes() / 16), "ETA": scalarWord(rule.firstScalar + rule.rows.eta),
		"FLOOR_LEAST": fmt.Sprint(floorLeast), "SPHERE_LEAST": fmt.Sprint(sphereLeast),
	})
	for _, t := range r.tables {
		if t.matrixCount == 0 {
			continue
		}
		params := struct {
			Matrices, First, Rows uint32
			Floor                 float32
		}{t.matrixCount, t.matrices, t.rows, float32(rule.rows.floor)}
		r.rec.Dispatch(k, gpu.Linear(uint64(t.matrixCount), 1, r.device.Limits()), params, r.scalars.All(), t.buffer.All(), r.rowSums.All())
	}
}

// CheckStart refuses a matrix of zeros that is to keep its norm, which it would for ever. It reads of each such matrix until it finds another number.
func (s *State) CheckStart(ctx context.Context, params *buffers.Tree) error {
	for i, g := range s.rows {
		if !g.onSphere || g.count == 0 || s.device.Dry() {
			continue
		}
		leaf := s.layout.Leaves()[i]
		each := g.perMatrix * params.DType().Bits() / 8
		for m := range g.matrices {
			zero, piece := true, make([]byte, startPiece)
			for at := m * each / 4 * 4; zero && at < (m+1)*each; at += len(piece) {
				piece = piece[:min(len(piece), ((m+1)*each-at+3)/4*4)]
				if err := params.ReadRawAt(ctx, leaf.Path, piece, at); err != nil {
					return fmt.Errorf("optim: %s: %w", s.plan.transform.name, err)
				}
				zero = !slices.ContainsFunc(piece, func(b byte) bool { return b&0x7f != 0 })
			}
			if zero {
				return fmt.Errorf("optim: %s: hyperball: leaf %q: found a matrix of zeros, wanted one with a norm to keep: leave it out by patterns", s.plan.transform.name, leaf.Path)
			}
		}
	}
	return nil
}

const startPiece = 4096

// rowLookup finds the two numbers of the rows that four elements are of: once where it is one row, as loads are dear on software adapters.
const rowLookup = `var row_pull = vec4<f32>(0.0);
var row_stretch = vec4<f32>(1.0);
let row_inner = table[values + %[2]du];
if (row_inner != 0u) {
    let row_first = params.values + params.leaves * params.width + table[values + %[1]du];
    let row_across = table[values + %[3]du] != 0u;
    let row_element = (table[entry + 2u] + (i & 31u)) * 4u;
    let row_quotient = row_element / row_inner;
    let row_rest = row_element - row_quotient * row_inner;
    let row_one = !row_across && (row_inner & 3u) == 0u;
    for (var k = 0u; k < select(4u, 1u, row_one); k++) {
        let row_over = row_rest + k; // of rows of one, two or three elements several end in four elements
        let row_ends = u32(row_over >= row_inner) + u32(row_over >= 2u * row_inner) + u32(row_over >= 3u * row_inner);
        let row = select(row_quotient + row_ends, row_over - row_ends * row_inner, row_across);
        let row_at = row_first + 2u * row; // behind the last of all rows are three more, for elements behind a leaf's last one
        let row_mine = vec4<bool>(row_one) | (vec4<u32>(k) == vec4<u32>(0u, 1u, 2u, 3u));
        row_pull = select(row_pull, vec4<f32>(bitcast<f32>(table[row_at])), row_mine);
        row_stretch = select(row_stretch, vec4<f32>(bitcast<f32>(table[row_at + 1u])), row_mine);
    }
}
`
