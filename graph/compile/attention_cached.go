package compile

import (
	"fmt"
	"strconv"

	"gputrain/gpu"
	"gputrain/graph"
	"gputrain/shaders"
)

func init() {
	Register(graph.CachedAttention{}, Lowering{Lower: lowerCachedAttention, InPlace: map[int]int{1: 0}, Checks: cachedAttentionChecks})
}

// appendParams is Params of attention_append.wgsl.
type appendParams struct{ Count, T, Window, Width, KS, VS, K0, V0 uint32 }

// cachedParams is Params of attention_cached.wgsl.
type cachedParams struct {
	T, Window, Heads, Group uint32
	QS, OS, CS, V0, Head    uint32
	Part                    uint32
	Scale                   float32
}

// limitedCachedParams is Params where rows do not see all that came before, or scores are capped.
type limitedCachedParams struct {
	cachedParams
	Local uint32
	Cap   float32
}

var cachedAttentionChecks = []Check{
	{Name: "attention with a cache", Tolerance: 256, Below: 1030, Build: func(g *graph.Graph) []*graph.Value {
		one := func(name string, op graph.Attention, batch, window int) []*graph.Value { // a row a sequence, which may be anywhere
			q, kv, packed := op.Widths()
			op.Causal = true
			in := []*graph.Value{checkedInput(g, "q"+name, batch, 1, q), checkedInput(g, "k"+name, batch, 1, kv), checkedInput(g, "v"+name, batch, 1, kv)}
			if op.Packed {
				in = []*graph.Value{checkedInput(g, "qkv"+name, batch, 1, packed)}
			}
			cache := checkedInput(g, "cache"+name, batch, window, 2*kv)
			return g.Append(graph.CachedAttention(op), append([]*graph.Value{cache, checkedInts(g, "positions"+name, batch, 1)}, in...)...).Outputs
		}
		parted := one("parted", graph.Attention{Heads: 4, KVHeads: 2, HeadDim: 8}, 3, 1030)
		return append(parted, one("odd", graph.Attention{Heads: 3, KVHeads: 3, HeadDim: 6, Packed: true}, 100, 1030)...)
	}},
}

// mergeParams is Params of attention_merge.wgsl.
type mergeParams struct{ Count, Quads, Parts, Dim uint32 }

// cachedKernel says how the kernels of one CachedAttention are made and called.
type cachedKernel struct {
	attentionKernel
	window int
}

// kernel is the shader of the adapter, with the constants that its division of the work asks for. On a software adapter the invocations of a
// SIMD group, or as many as leave room for what they hand to one another, share a row's keys, and take one at a time, as nothing overlaps and
// unrolled code compiles slowly.
func (a cachedKernel) kernel() (name string, constants map[string]int) {
	if !a.cpu {
		own := (a.quads() + 63) / 64
		lanes := (a.quads() + own - 1) / own
		return "attention_cached_tiled", map[string]int{"OWN": own, "LANES": lanes, "TEAMS": 64 / lanes, "HANDED": 64 / lanes * a.quads()}
	}
	const handed = 512 // vec4s of workgroup memory, half of what every device has
	width := 8
	for width > 2 && width/2*a.quads() > handed {
		width /= 2
	}
	return "attention_cached", map[string]int{"WX": width, "KEYS": 1, "HANDED": width / 2 * a.quads()}
}

// parts is how many workgroups share the keys of a head of a row: more than one where heads and rows alone would not fill a GPU and the window
// is long enough to pay for joining them. It depends on the shape alone, so that a plan drawn without a device holds everywhere.
func (a cachedKernel) parts() int {
	const shortest, full = 512, 256
	groups := a.batch * a.t * a.op.Heads
	return max(1, min(a.local()/shortest, full/groups))
}

// local is how many keys a row sees at most.
func (a cachedKernel) local() int {
	if a.op.Window > 0 {
		return min(a.window, a.op.Window)
	}
	return a.window
}

func lowerCachedAttention(c *Compiler, n *graph.Node) {
	op, cache, positions := graph.Attention(n.Op.(graph.CachedAttention)), n.Inputs[0], n.Inputs[1]
	shape := positions.Shape()
	a := cachedKernel{attentionKernel{op: op, batch: shape[0], t: shape[1], cpu: c.limits.Software, registers: c.limits.Registers, memory: c.limits.WorkgroupBytes}, cache.Shape()[1]}
	checkIDs(c, positions, "position", a.window, false)
	c.check(positions, fmt.Sprintf("distinct of %d", a.t), func(src []int32) error { return distinct(src, a.t) })
	if c.inputOf(cache) == nil || len(c.readers[cache]) != 1 {
		c.fail("cache: want an Input that nothing else reads: it is changed in place")
		return
	}
	if n.Outputs[0].Type().Elements() == 0 {
		return
	}
	at, in, operands := c.One(c.In(positions), "positions"), c.One(c.In(cache), "cache"), c.spans(n.Inputs[2:])
	c.appendToCache(a, at, operands, in)

	limited := a.local() < a.window || op.Cap > 0
	flags := map[string]bool{"SCALAR": a.scalar(), "PARTS": a.parts() > 1, "LIMITED": limited, "CAPPED": op.Cap > 0}
	quads := a.quads()
	constants := map[string]string{"ELEMENT": a.element(), "HEAD_DIM": strconv.Itoa(op.HeadDim), "QUADS": strconv.Itoa(quads)}
	name, divided := a.kernel()
	for constant, n := range divided {
		constants[constant] = strconv.Itoa(n)
	}
	p, grid := a.params(), gpu.Grid{X: uint32(op.Heads), Y: uint32(a.batch * a.t), Z: uint32(a.parts())}
	plain := cachedParams{
		T: p.T, Window: uint32(a.window), Heads: p.Heads, Group: p.Group, QS: p.QS, OS: p.OS, CS: 2 * a.rowOfKeys(), V0: a.rowOfKeys(),
		Head: p.Head, Part: uint32((a.local() + a.parts() - 1) / a.parts()), Scale: p.Scale,
	}
	params := any(plain)
	if limited {
		params = limitedCachedParams{plain, uint32(a.local()), float32(op.Cap)}
	}
	out := c.One(c.Out(n.Outputs[0]), "o")
	if a.parts() == 1 {
		k := c.kernel(name, fmt.Sprintf("_%d", op.HeadDim), shaders.Variant{Flags: flags, Constants: constants})
		c.Dispatch(k, grid, params, at, operands[0], in, out)
		return
	}
	constants["PARTS_COUNT"] = strconv.Itoa(a.parts())
	k := c.kernel(name, fmt.Sprintf("_%d_parts", op.HeadDim), shaders.Variant{Flags: flags, Constants: constants})
	joined := a.batch * a.t * op.Heads
	sums := c.One(c.workspace("sums", joined, a.parts(), 4*quads), "sums")
	stats := c.One(c.workspace("stats", joined, a.parts(), 2), "stats")
	c.Dispatch(k, grid, params, at, operands[0], in, sums, stats)
	k = c.kernel("attention_merge", "", shaders.Variant{})
	c.Dispatch(k, c.Linear(joined*quads), mergeParams{uint32(joined * quads), uint32(quads), uint32(a.parts()), uint32(op.HeadDim)}, sums, stats, out)
}

// distinct refuses a position that a sequence of t rows has twice.
func distinct(positions []int32, t int) error {
	for first := 0; first < len(positions); first += t {
		seen := map[int32]bool{}
		for i, p := range positions[first : first+t] {
			if seen[p] {
				return fmt.Errorf("position of row %d of sequence %d: %d, want one that no other row has", i, first/t, p)
			}
			seen[p] = true
		}
	}
	return nil
}

// appendToCache puts the keys and values of the rows into the cache.
func (c *Compiler) appendToCache(a cachedKernel, positions Span, operands []Span, cache Span) {
	p := a.params()
	names := arrays(a.op.Packed)
	k := c.kernel("attention_append", "", shaders.Variant{
		Flags: map[string]bool{"PACKED": a.op.Packed}, Constants: map[string]string{"ELEMENT": a.element(), "K": names["K"], "V": names["V"]},
	})
	count := a.batch * a.t * 2 * int(a.rowOfKeys())
	bind := append([]Span{positions}, operands...)
	if !a.op.Packed {
		bind = append([]Span{positions}, operands[1:]...)
	}
	c.Dispatch(k, c.Linear(count), appendParams{
		Count: uint32(count), T: p.T, Window: uint32(a.window), Width: a.rowOfKeys(), KS: p.KS, VS: p.VS, K0: p.K0, V0: p.V0,
	}, append(bind, cache)...)
}

// rowOfKeys is the width of the keys of a position in the unit of the arrays.
func (a cachedKernel) rowOfKeys() uint32 { return uint32(a.op.KVHeads) * a.params().Head }
