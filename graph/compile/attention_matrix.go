package compile

import (
	"fmt"
	"maps"
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
}

// unitTiles are geometries, the best first: subgroups, and matrices of the unit's shape that a subgroup has of rows, and meets of columns.
var unitTiles = []unitTile{{4, 1, 2}, {4, 1, 1}}

type unitTile struct{ subgroups, down, across int }

// attentionPass is what sets the three kernels apart.
type attentionPass struct {
	operands int // of its rows
	sums     int // matrices of a row's width that it adds up
	scores   int // matrices of scores
	halves   int // of scores, in f16, that it keeps in workgroup memory at once
	byRow    bool
}

var attentionPasses = map[string]attentionPass{
	"attention":     {operands: 1, sums: 1, scores: 1, halves: 1, byRow: true},
	"attention_dq":  {operands: 2, sums: 1, scores: 2, halves: 1, byRow: true},
	"attention_dkv": {operands: 2, sums: 2, scores: 2, halves: 2},
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
	switch {
	case !p.byRow: // equal rows, of lse and of delta
		l.startPitch = l.ownPitch
		at += 2 * u.unit.M * l.startPitch
	default: // equal columns
		l.startPitch = u.unit.N/4 + 1
		at += p.operands * u.rows() * l.startPitch
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
	return u.down * (p.sums*headDim/u.unit.N*c + u.held*headDim/u.unit.K*a + p.scores*u.columns/u.unit.N*c)
}

// unitsFor is the geometry of a pass on an adapter, false where heads are not of whole matrices, or no geometry fits registers and workgroup memory.
func unitsFor(l gpu.Limits, name string, headDim int, capped bool) (attentionUnits, bool) {
	v, ok := units(l)
	if !ok || headDim%v.matrix.unit.N != 0 || headDim%v.matrix.unit.K != 0 {
		return attentionUnits{}, false
	}
	p := attentionPasses[name]
	most := 4 * l.Registers.OrLeast().Budget / 5
	for _, tile := range unitTiles {
		u := attentionUnits{unit: v.matrix.unit, lanes: v.matrix.lanes, subgroups: tile.subgroups, down: tile.down}
		u.columns = tile.across * max(u.unit.N, u.unit.K)
		if u.subgroups > l.Matrix.Subgroups || u.subgroups*u.lanes > l.Invocations || u.lanes%u.mine() != 0 || u.columns/8*u.mine()%u.lanes != 0 {
			continue
		}
		for u.held = p.operands; u.held >= 0; u.held-- {
			if u.registers(p, headDim, l.Registers) <= most && 16*u.layout(p, headDim, capped).end+16*u.rows() <= l.WorkgroupBytes {
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
	flags["PACKED"], flags["CAUSAL"], flags["FIRST_HELD"] = a.op.Packed, a.op.Causal, u.held > 0
	numbers := map[string]int{
		"HEAD_DIM": a.op.HeadDim, "EIGHTS": a.op.HeadDim / 8, "ROWS": u.rows(), "MINE": u.mine(), "COLUMNS": u.columns, "INVOCATIONS": u.subgroups * u.lanes,
		"DOWN": u.down, "ACROSS": u.columns / u.unit.N, "DEPTH": a.op.HeadDim / u.unit.K, "WIDE": a.op.HeadDim / u.unit.N, "STEPS": u.columns / u.unit.K,
		"PITCH": l.pitch, "OWN_PITCH": l.ownPitch, "FIRST": l.first, "START": l.start, "OWN": l.own, "TILE": l.end,
	}
	if p.operands > 1 {
		flags["SECOND_HELD"], numbers["SECOND"] = u.held > 1, l.second
	}
	if p.byRow {
		numbers["START_PITCH"] = l.startPitch
	} else {
		numbers["WEIGHTS"], numbers["DSCORES"] = l.weights, l.dscores
	}
	if p.scores == 1 {
		numbers["EIGHTHS"] = u.columns / 8 * u.mine() / u.lanes
	}
	variant := shaders.Variant{Flags: flags, Constants: maps.Clone(names)}
	variant.Constants["ELEMENT"] = a.element()
	for constant, n := range numbers {
		variant.Constants[constant] = strconv.Itoa(n)
	}
	u.unit.Specialise(u.lanes, variant)
	k := c.kernel(name+"_matrix", fmt.Sprintf("_%d_%s_%d", a.op.HeadDim, u.unit, u.lanes)+a.suffix(), variant)
	c.Dispatch(k, gpu.Grid{X: uint32(a.batch * a.heads), Y: tiles(a.t, u.rows()), Z: 1}, a.uniform(), bind...)
	return true
}
