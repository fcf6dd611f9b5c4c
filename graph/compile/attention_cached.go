package compile

import (
	"fmt"
	"strconv"

	"gputrain/buffers"
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
	// Two rows of one prompt, whose last token is taken in beside their first own ones, a row of another length, and an idle token between. Blocks
	// are in no order. Of 1040 positions, keys are parted. The last cache is in bf16.
	{Name: "attention with pages", Tolerance: 256, Given: checkedPages, Build: func(g *graph.Graph) (outputs []*graph.Value) {
		for i, op := range []graph.Attention{
			{Heads: 4, KVHeads: 2, HeadDim: 8},
			{Heads: 3, KVHeads: 3, HeadDim: 6, Packed: true},
			{Heads: 4, KVHeads: 2, HeadDim: 8, Window: 9, Cap: 2},
			{Heads: 4, KVHeads: 2, HeadDim: 8},
		} {
			name := fmt.Sprint(i)
			q, kv, packed := op.Widths()
			op.Causal = true
			in := []*graph.Value{checkedInput(g, "q"+name, 1, 5, q), checkedInput(g, "k"+name, 1, 5, kv), checkedInput(g, "v"+name, 1, 5, kv)}
			if op.Packed {
				in = []*graph.Value{checkedInput(g, "qkv"+name, 1, 5, packed)}
			}
			storage, wanted := buffers.F32, 2
			if i == 3 {
				storage, wanted = buffers.BF16, 1
			}
			cache := g.Input("cache"+name, graph.Type{Shape: []int{70, 16, 2 * kv}, DType: storage})
			places := []*graph.Value{cache, checkedInts(g, "table", 3, 65), checkedInts(g, "row", 1, 5), checkedInts(g, "positions", 1, 5)}
			outputs = append(outputs, g.Append(graph.CachedAttention(op), append(places, in...)...).Outputs[:wanted]...)
		}
		return outputs
	}},
}

// checkedPages has rows 0 and 2 share 64 blocks.
var checkedPages = func() map[string][]float64 {
	table := make([]float64, 3*65)
	for i := range 64 {
		table[i] = float64(27 * i % 67)
		table[2*65+i] = table[i]
		table[65+i] = 69
	}
	table[64], table[65], table[2*65+64] = 67, 68, 69
	return map[string][]float64{"table": table, "row": {0, 2, -1, 0, 1}, "positions": {1023, 1024, 0, 1024, 6}}
}()

// mergeParams is Params of attention_merge.wgsl.
type mergeParams struct{ Count, Quads, Parts, Dim uint32 }

// cachedKernel says how the kernels of one CachedAttention are made and called.
type cachedKernel struct {
	attentionKernel
	window  int // positions of a row
	entries int // Params.Window
	size    int // of a block; 0: a row's are one behind the other
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
	constants = map[string]int{"HEADS": a.together(), "WX": width, "KEYS": 1, "HANDED": width / 2 * a.quads()}
	if a.size > 0 {
		constants["LINES"] = (a.quads() + 3) / 4 // of 64 bytes, of a key
	}
	return "attention_cached", constants
}

// together is how many heads of a row that read the same keys one workgroup has. On a software adapter loads take most of the time, and many rows
// have workgroups enough; for one text a workgroup a head is best.
func (a cachedKernel) together() int {
	const most = 64 // quads of all heads: code is unrolled over them
	if !a.cpu || a.size == 0 {
		return 1
	}
	n := a.op.Heads / a.op.KVHeads
	for n > 1 && (a.op.Heads/a.op.KVHeads%n > 0 || n*a.quads() > most) {
		n--
	}
	return n
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
	cached, cache, places := n.Op.(graph.CachedAttention), n.Inputs[0], n.Inputs[1:2]
	op, paged, window := graph.Attention(cached), cached.Paged(len(n.Inputs)), cached.Span(n)
	if paged {
		places = n.Inputs[1:4]
	}
	positions, operands := places[len(places)-1], n.Inputs[1+len(places):]
	shape := positions.Shape()
	a := cachedKernel{
		attentionKernel: attentionKernel{op: op, batch: shape[0], t: shape[1], cpu: c.limits.Software, registers: c.limits.Registers, memory: c.limits.WorkgroupBytes},
		window:          window, entries: window,
	}
	checkIDs(c, positions, "position", a.window, false)
	if paged {
		a.entries, a.size = places[0].Shape()[1], cache.Shape()[1]
		checkIDs(c, places[0], "block", cache.Shape()[0], false)
		c.check(places[1], fmt.Sprintf("row below %d", places[0].Shape()[0]), func(src []int32) error { return knownRows(src, places[0].Shape()[0]) })
	} else {
		c.check(positions, fmt.Sprintf("distinct of %d", a.t), func(src []int32) error { return distinct(src, a.t) })
	}
	if !c.changedInPlace(cache) {
		c.fail("cache: want an Input that nothing else reads: it is changed in place")
		return
	}
	if n.Outputs[0].Type().Elements() == 0 {
		return
	}
	at, in, read := c.One(c.In(positions), "positions"), c.One(c.In(cache), "cache"), c.spans(operands)
	var pages []Span
	for i, v := range places[:len(places)-1] {
		pages = append(pages, c.One(c.In(v), []string{"blocks", "rows"}[i]))
	}
	c.appendToCache(a, at, read, pages, in)

	limited := a.local() < a.window || op.Cap > 0
	flags := map[string]bool{"SCALAR": a.scalar(), "PARTS": a.parts() > 1, "LIMITED": limited, "CAPPED": op.Cap > 0, "PAGED": paged}
	quads := a.quads()
	constants := map[string]string{"ELEMENT": a.element(), "HEAD_DIM": strconv.Itoa(op.HeadDim), "QUADS": strconv.Itoa(quads)}
	bind, suffix := append([]Span{at, read[0], in}, pages...), fmt.Sprintf("_%d", op.HeadDim)
	if paged {
		constants["SIZE"] = strconv.Itoa(a.size)
		suffix += "_paged"
	}
	name, divided := a.kernel()
	for constant, n := range divided {
		constants[constant] = strconv.Itoa(n)
	}
	p, grid := a.params(), gpu.Grid{X: uint32(op.Heads / a.together()), Y: uint32(a.batch * a.t), Z: uint32(a.parts())}
	plain := cachedParams{
		T: p.T, Window: uint32(a.entries), Heads: p.Heads, Group: p.Group, QS: p.QS, OS: p.OS, CS: 2 * a.rowOfKeys(), V0: a.rowOfKeys(),
		Head: p.Head, Part: uint32((a.local() + a.parts() - 1) / a.parts()), Scale: p.Scale,
	}
	params := any(plain)
	if limited {
		params = limitedCachedParams{plain, uint32(a.local()), float32(op.Cap)}
	}
	out := c.One(c.Out(n.Outputs[0]), "o")
	if a.parts() == 1 {
		k := c.kernel(name, suffix, shaders.Variant{Flags: flags, Constants: constants})
		c.Dispatch(k, grid, params, append(bind, out)...)
		return
	}
	constants["PARTS_COUNT"] = strconv.Itoa(a.parts())
	k := c.kernel(name, suffix+"_parts", shaders.Variant{Flags: flags, Constants: constants})
	joined := a.batch * a.t * op.Heads
	sums := c.One(c.workspace("sums", joined, a.parts(), 4*quads), "sums")
	stats := c.One(c.workspace("stats", joined, a.parts(), 2), "stats")
	c.Dispatch(k, grid, params, append(bind, sums, stats)...)
	k = c.kernel("attention_merge", "", shaders.Variant{})
	c.Dispatch(k, c.Linear(joined*quads), mergeParams{uint32(joined * quads), uint32(quads), uint32(a.parts()), uint32(op.HeadDim)}, sums, stats, out)
}

// NewCache makes the memory of an input of a graph that is a cache: where the device reads texels and its kernels move whole vec4s of f32, it is of these, so that
// no pass copies what it reads of it. Bytes of its type are bound, from its start on.
func NewCache(d *gpu.Device, label string, g *graph.Graph, cache *graph.Value) (*gpu.Buffer, error) {
	make := d.NewBuffer
	for _, n := range g.Nodes() {
		if op, ok := n.Op.(graph.CachedAttention); ok && n.Inputs[0] == cache && op.HeadDim%4 == 0 && !inBF16(cache) {
			make = d.NewTexels
		}
	}
	return make(label, Bytes(cache.Type()))
}

// changedInPlace is whether a cache is an input that one attention after the other has, and nothing else.
func (c *Compiler) changedInPlace(cache *graph.Value) bool {
	if len(c.readers[cache]) != 1 {
		return false
	}
	if _, after := cache.Node().Op.(graph.CachedAttention); after && cache.Index() == 1 {
		return c.changedInPlace(cache.Node().Inputs[0])
	}
	return c.inputOf(cache) != nil
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

// knownRows refuses what is no row, and not -1, of an idle token.
func knownRows(src []int32, rows int) error {
	for i, r := range src {
		if r < -1 || int(r) >= rows {
			return fmt.Errorf("row of token %d: %d, want -1 to %d", i, r, rows-1)
		}
	}
	return nil
}

// appendToCache puts the keys and values of the rows into the cache.
func (c *Compiler) appendToCache(a cachedKernel, positions Span, operands, pages []Span, cache Span) {
	p := a.params()
	names := arrays(a.op.Packed)
	constants, suffix := map[string]string{"ELEMENT": a.element(), "K": names["K"], "V": names["V"]}, ""
	if a.size > 0 {
		constants["SIZE"], suffix = strconv.Itoa(a.size), "_paged"
	}
	k := c.kernel("attention_append", suffix, shaders.Variant{Flags: map[string]bool{"PACKED": a.op.Packed, "PAGED": a.size > 0}, Constants: constants})
	count := a.batch * a.t * 2 * int(a.rowOfKeys())
	bind := append([]Span{positions}, operands...)
	if !a.op.Packed {
		bind = append([]Span{positions}, operands[1:]...)
	}
	c.Dispatch(k, c.Linear(count), appendParams{
		Count: uint32(count), T: p.T, Window: uint32(a.entries), Width: a.rowOfKeys(), KS: p.KS, VS: p.VS, K0: p.K0, V0: p.V0,
	}, append(append(bind, pages...), cache)...)
}

// rowOfKeys is the width of the keys of a position in the unit of the arrays.
func (a cachedKernel) rowOfKeys() uint32 { return uint32(a.op.KVHeads) * a.params().Head }
