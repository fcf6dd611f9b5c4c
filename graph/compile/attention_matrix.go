package compile

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"gputrain/gpu"
	"gputrain/shaders"
)

// attentionUnits is the geometry of the kernels of attention by matrix units. A workgroup owns subgroups x down x unit.M rows and meets columns at a time.
// Of the operands of its rows (q of the forward pass, q and dout of dq, k and v of dkv), the first `held` stay in registers, the others in workgroup memory.
type attentionUnits struct {
	unit      gpu.MatrixShape
	lanes     int
	subgroups int
	down      int
	columns   int
	held      int
	ahead     bool // a block of columns is loaded while the one before is multiplied
}

// unitTile is a geometry: subgroups, and matrices of the unit's shape that a subgroup has of rows, and meets of columns.
type unitTile struct {
	subgroups, down, across int
	ahead                   bool
}

// attentionPass is what sets the three kernels apart.
type attentionPass struct {
	operands int // of its rows
	sums     int // matrices of a row's width that it adds up
	scores   int // matrices of scores
	halves   int // of scores, in f16, that it keeps in workgroup memory at once
	byRow    bool
	rest     []string   // what it reads besides
	more     int        // bytes of workgroup memory besides, a row
	tiles    []unitTile // the best first
}

var unitTiles = []unitTile{{4, 1, 2, true}, {4, 1, 1, true}, {4, 1, 2, false}, {4, 1, 1, false}}

var attentionPasses = map[string]attentionPass{
	"attention":     {operands: 1, sums: 1, scores: 1, halves: 1, byRow: true, more: 16, tiles: unitTiles},
	"attention_dq":  {operands: 2, sums: 1, scores: 2, halves: 1, byRow: true, rest: []string{"o", "lse", "dout"}, more: 8, tiles: unitTiles},
	"attention_dkv": {operands: 2, sums: 2, scores: 2, halves: 2, rest: []string{"lse", "dout"}, tiles: unitTiles},
}

// rows are those of a workgroup, mine those of a subgroup.
func (u attentionUnits) rows() int { return u.subgroups * u.mine() }
func (u attentionUnits) mine() int { return u.down * u.unit.M }

// attentionLayout says where what lies in workgroup memory, in vec4s: columns' operands from 0 on, rows' operands, what scores start from or how
// much rows shrink, and what a subgroup has of its own.
type attentionLayout struct {
	pitch, ownPitch, startPitch int
	first, second               int // rows' operands: those that are held lie where columns' do, until these come
	start, own, end             int
	weights, dscores            int // in a row of a subgroup's own
}

func (u attentionUnits) layout(p attentionPass, headDim int, capped bool) (l attentionLayout) {
	l.pitch = headDim/8 + 1
	l.ownPitch = u.columns/4 + 1
	l.dscores = u.columns / 8
	if p.halves == 2 && capped { // plain code makes weights in f16 and others in f32 at once
		l.weights, l.dscores = u.columns/4, 0
		l.ownPitch += u.columns / 8
	}
	at := 2 * u.columns * l.pitch
	if u.held > 0 {
		at = max(at, u.rows()*l.pitch)
	}
	for i, operand := range []*int{&l.first, &l.second}[:p.operands] {
		if i >= u.held {
			*operand = at
			at += u.rows() * l.pitch
		}
	}
	l.start = at
	if p.byRow { // equal columns
		l.startPitch = u.unit.N/4 + 2
		at += p.operands * u.rows() * l.startPitch
	} else { // equal rows
		l.startPitch = u.columns/4 + 2
		at += p.operands * u.unit.M * l.startPitch
	}
	l.own = at
	l.end = at + u.rows()*max(l.ownPitch, u.unit.N/4)
	return l
}

// registers are those of an invocation that matrices take, a number of 32 bits each. On AMD's cards each half of a subgroup has all of A.
func (u attentionUnits) registers(p attentionPass, headDim int, of gpu.Registers) int {
	c := u.unit.M * u.unit.N / u.lanes
	a := u.unit.M * u.unit.K / u.lanes / 2
	if of.Budget == 256 {
		a *= 2
	}
	n := u.down * (p.sums*headDim/u.unit.N*c + u.held*headDim/u.unit.K*a + p.scores*u.columns/u.unit.N*c)
	if u.ahead {
		n += 8 * u.blocks(headDim)
	}
	return n
}

// blocks are the eights of a block of columns that an invocation brings of an operand.
func (u attentionUnits) blocks(headDim int) int {
	return (u.columns*headDim/8 + u.subgroups*u.lanes - 1) / (u.subgroups * u.lanes)
}

// unitsFor is the geometry of a pass on an adapter, false where heads are not of whole matrices, or no geometry fits registers and workgroup memory.
func unitsFor(l gpu.Limits, name string, headDim int, capped bool) (attentionUnits, bool) {
	v, ok := units(l)
	if !ok || headDim%v.matrix.unit.N != 0 || headDim%v.matrix.unit.K != 0 {
		return attentionUnits{}, false
	}
	p := attentionPasses[name]
	most := l.Registers.OrLeast().Budget * 4 / 5
	if l.Registers.Budget == 256 { // of AMD's, rows of B take many on their way (make isa)
		most = 112 + 16*p.sums
	}
	for _, tile := range p.tiles {
		u := attentionUnits{unit: v.matrix.unit, lanes: v.matrix.lanes, subgroups: tile.subgroups, down: tile.down, ahead: tile.ahead}
		u.columns = tile.across * max(u.unit.N, u.unit.K)
		if u.subgroups > l.Matrix.Subgroups || u.subgroups*u.lanes > l.Invocations || u.lanes%u.mine() != 0 || u.columns/8*u.mine()%u.lanes != 0 {
			continue
		}
		for u.held = p.operands; u.held >= 0; u.held-- {
			if u.registers(p, headDim, l.Registers) <= most && 16*u.layout(p, headDim, capped).end+p.more*u.rows() <= l.WorkgroupBytes {
				return u, true
			}
		}
	}
	return attentionUnits{}, false
}

// byUnits dispatches one of the three kernels by matrix units, where products of the attention are of f16 and the adapter's units fit.
func (c *Compiler) byUnits(name string, a attentionKernel, names map[string]string, bind []Span) bool {
	if !a.op.F16 || a.scalar() {
		return false
	}
	u, ok := unitsFor(c.limits, name, a.op.HeadDim, a.op.Cap > 0)
	if !ok {
		return false
	}
	p := attentionPasses[name]
	l := u.layout(p, a.op.HeadDim, a.op.Cap > 0)
	flags := a.flags()
	flags["PACKED"], flags["CAUSAL"], flags["F16"], flags["FIRST_HELD"] = a.op.Packed, a.op.Causal, false, u.held > 0 // all is rounded as it comes
	flags["AHEAD"], flags["UNEVEN"] = u.ahead, u.columns*a.op.HeadDim/8%(u.subgroups*u.lanes) != 0
	numbers := map[string]int{
		"HEAD_DIM": a.op.HeadDim, "EIGHTS": a.op.HeadDim / 8, "ROWS": u.rows(), "MINE": u.mine(), "COLUMNS": u.columns, "INVOCATIONS": u.subgroups * u.lanes,
		"DOWN": u.down, "ACROSS": u.columns / u.unit.N, "DEPTH": a.op.HeadDim / u.unit.K, "WIDE": a.op.HeadDim / u.unit.N, "STEPS": u.columns / u.unit.K,
		"PITCH": l.pitch, "OWN_PITCH": l.ownPitch, "FIRST": l.first, "START": l.start, "START_PITCH": l.startPitch, "OWN": l.own, "TILE": l.end,
		"BLOCKS": u.blocks(a.op.HeadDim),
	}
	if p.operands > 1 {
		flags["SECOND_HELD"], numbers["SECOND"] = u.held > 1, l.second
	}
	if !p.byRow {
		numbers["WEIGHTS"], numbers["DSCORES"] = l.weights, l.dscores
	}
	if p.scores == 1 {
		numbers["EIGHTHS"] = u.columns / 8 * u.mine() / u.lanes
	}
	variant := shaders.Variant{Flags: flags, Constants: maps.Clone(names)}
	bind, suffix := slices.Clone(bind), ""
	operands := map[string]int{"Q": 0, "K": 1, "V": 2}
	if p.operands > 1 {
		operands["DOUT"], variant.Constants["DOUT"] = slices.Index(p.rest, "dout")+3, "dout"
	}
	for operand, at := range operands {
		if a.op.Packed {
			at = max(0, at-2)
		}
		from := variant.Constants[operand]
		load, element := fmt.Sprintf("matrix_eight(%[1]s[at+2u*eight],%[1]s[at+2u*eight+1u])", from), a.element()
		if bind[at].inHalves() {
			load, element, bind[at].asKept = from+"[at/2u+eight]", "vec4<u32>", true
			suffix = "_halves"
		}
		variant.Constants[operand+"_EIGHT"] = load
		if operand == "Q" || operand == "DOUT" || !a.op.Packed {
			variant.Constants[operand+"_ELEMENT"] = element
		}
	}
	for _, name := range []string{"K", "V", "DOUT"} {
		delete(variant.Constants, name)
	}
	variant.Constants["ELEMENT"] = a.element()
	for constant, n := range numbers {
		variant.Constants[constant] = strconv.Itoa(n)
	}
	u.unit.Specialise(u.lanes, variant)
	grid, finish := gpu.Grid{X: uint32(a.batch * a.heads), Y: tiles(a.t, u.rows()), Z: 1}, func() {}
	if name == "attention_dkv" {
		grid.Z = headParts(c.limits, a.op.Heads/a.op.KVHeads, int(grid.X*grid.Y))
		if flags["PARTS"] = grid.Z > 1; grid.Z > 1 {
			suffix += fmt.Sprintf("_by%d", grid.Z)
			variant.Constants["DK"], variant.Constants["DV"] = "dk", "dv"
			bind, finish = c.inParts(a, int(grid.Z), bind)
		}
	}
	k := c.kernel(name+"_matrix", fmt.Sprintf("_%d_%s_%d", a.op.HeadDim, u.unit, u.lanes)+a.suffix()+suffix, variant)
	c.Dispatch(k, grid, a.uniform(), bind...)
	finish()
	return true
}

// headParts are the parts of the query heads of a key head that have sums of their own, as many as give each multiprocessor a workgroup.
func headParts(l gpu.Limits, group, workgroups int) uint32 {
	parts := 1
	for parts < group && (parts*workgroups < cmp.Or(l.Multiprocessors, 128) || group%parts != 0) {
		parts++
	}
	return uint32(parts)
}

// inParts has dkv write sums of parts of the heads, which finish adds up in order.
func (c *Compiler) inParts(a attentionKernel, parts int, bind []Span) (to []Span, finish func()) {
	_, width, _ := a.op.Widths()
	p, at := a.params(), a.op.Operands()+3
	results, seen := []Span{bind[at], bind[at]}, bind[at+1:]
	if !a.op.Packed {
		results, seen = bind[at:at+2], bind[at+2:]
	}
	var sums [2]Span
	for i, of := range []string{"dk", "dv"} {
		sums[i] = c.One(c.workspace(of+".parts", parts, a.batch, a.t, width), of)
	}
	return slices.Concat(bind[:at], sums[:], seen), func() {
		for i, sum := range sums {
			variant := shaders.Variant{Flags: map[string]bool{"ACCUMULATE": false, "STORE_SCALAR": false}, Constants: map[string]string{}}
			suffix, spans := gemm{c: operand{span: results[i]}}.results(c, variant, sum)
			rows := a.batch * a.t
			c.Dispatch(c.kernel("matmul_slices", suffix, variant), c.Linear(rows*width/4), slicesParams{
				M: uint32(rows), N4: uint32(width / 4), N: uint32(width), Slices: uint32(parts), C0: []uint32{p.K0, p.V0}[i], LDC: p.KS,
			}, spans...)
		}
	}
}

// UnitsAttend tells whether matrix units make attention, and its gradient, of heads of a width, whose scores are capped or not.
func UnitsAttend(l gpu.Limits, headDim int, capped bool) bool {
	for name := range attentionPasses {
		if _, ok := unitsFor(l, name, headDim, capped); !ok {
			return false
		}
	}
	return true
}
