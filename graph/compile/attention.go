package compile

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"gputrain/gpu"
	"gputrain/graph"
	"gputrain/shaders"
)

func init() {
	Register(graph.Attention{}, Lowering{Lower: lowerAttention, Checks: attentionChecks})
	Register(graph.AttentionGrad{}, Lowering{Lower: lowerAttentionGrad})
}

var attentionChecks = []Check{
	{Name: "attention", Tolerance: 256, Build: func(g *graph.Graph) []*graph.Value {
		return checkedAttention(g, graph.Attention{Heads: 4, KVHeads: 4, HeadDim: 8, Packed: true, Causal: true}, 2, 70)
	}},
	{Name: "attention grouped", Tolerance: 256, Build: func(g *graph.Graph) []*graph.Value {
		return checkedAttention(g, graph.Attention{Heads: 4, KVHeads: 2, HeadDim: 6}, 2, 9)
	}},
	{Name: "attention capped, in a window", Tolerance: 256, Build: func(g *graph.Graph) []*graph.Value {
		return checkedAttention(g, graph.Attention{Heads: 4, KVHeads: 2, HeadDim: 8, Causal: true, Scale: 0.7, Cap: 2, Window: 9}, 2, 41)
	}},
	{Name: "attention with sinks", Tolerance: 256, Build: func(g *graph.Graph) []*graph.Value {
		return checkedAttention(g, graph.Attention{Heads: 4, KVHeads: 2, HeadDim: 8, Causal: true, Window: 9, Sinks: true}, 2, 41)
	}},
	{Name: "attention, heads of 64", Tolerance: 256, Build: func(g *graph.Graph) []*graph.Value {
		return checkedAttention(g, graph.Attention{Heads: 2, KVHeads: 2, HeadDim: 64, Packed: true, Causal: true}, 1, 70)
	}},
	// The twin rounds weights against the largest score of a row, a kernel against the largest so far: each is half a place of f16 off, 2^-11 of it.
	{Name: "attention f16", Tolerance: 1 << 13, Build: func(g *graph.Graph) []*graph.Value {
		return checkedAttention(g, graph.Attention{Heads: 4, KVHeads: 2, HeadDim: 8, Causal: true, F16: true}, 2, 70)
	}},
	{Name: "attention f16, heads of 64", Tolerance: 1 << 13, Build: func(g *graph.Graph) []*graph.Value {
		return checkedAttention(g, graph.Attention{Heads: 2, KVHeads: 2, HeadDim: 64, Packed: true, Causal: true, F16: true}, 1, 70)
	}},
}

// attentionParams is Params of attention.wgsl, attention_dq.wgsl and attention_dkv.wgsl, and of the tiled ones.
type attentionParams struct {
	T, Heads, Group, Count uint32
	QS, KS, VS, OS         uint32
	K0, V0, Head           uint32
	Scale                  float32
}

// limitedParams is Params where positions do not see all that is causal, or scores are capped.
type limitedParams struct {
	attentionParams
	Window uint32
	Cap    float32
}

// attentionKernel says how one of the three kernels is made and called for a node: forward, dq or dkv, each of which is written for software
// adapters and, tiled, for GPUs.
type attentionKernel struct {
	op    graph.Attention
	batch int
	t     int
	heads int // that invocations are counted by
	state int // vectors of HeadDim that a row keeps
	rows  int // positions, or keys, an invocation
	cpu   bool

	registers gpu.Registers
	memory    int // of a workgroup, in bytes
}

// quads is the number of vec4 that hold a head.
func (a attentionKernel) quads() int { return (a.op.HeadDim + 3) / 4 }

// scalar is whether heads do not consist of whole vec4.
func (a attentionKernel) scalar() bool { return a.op.HeadDim%4 != 0 }

// element is the WGSL type of the arrays' elements.
func (a attentionKernel) element() string {
	if a.scalar() {
		return "f32"
	}
	return "vec4<f32>"
}

// byHead is whether neighbouring invocations take different heads, and not blocks of one head. A software adapter runs a workgroup
// in step, until the longest of its invocations is done, and goes through the same heads faster when all lanes load from one: by a tenth
// on lavapipe.
func (a attentionKernel) byHead() bool {
	if !a.cpu {
		return false
	}
	count, blocks, heads, neighbours := a.batch*a.heads, (a.t+a.rows-1)/a.rows, 0, 0
	for i := range blocks {
		turns := a.t
		if a.op.Causal {
			turns = min((i+1)*a.rows, a.t, a.window()+a.rows)
		}
		heads += turns * int(tiles(count, a.width()))
		if (i+1)%a.width() == 0 || i == blocks-1 {
			neighbours += turns * count
		}
	}
	return 10*neighbours > 11*heads
}

// width is the number of invocations a workgroup: one SIMD group of a software adapter.
func (a attentionKernel) width() int {
	if a.cpu {
		return 8
	}
	return 64
}

// window is how many keys a position sees at most.
func (a attentionKernel) window() int {
	if a.op.Window > 0 {
		return min(a.op.Window, a.t)
	}
	return a.t
}

// flags are those of what an attention may have, and WGSL has text for only then.
func (a attentionKernel) flags() map[string]bool {
	local := a.window() < a.t || a.op.Documents
	return map[string]bool{"LIMITED": local || a.op.Cap > 0, "LOCAL": local, "DOCUMENTS": a.op.Documents, "CAPPED": a.op.Cap > 0}
}

// suffix tells kernels with limits from those without in profiles.
func (a attentionKernel) suffix() (suffix string) {
	flags := a.flags()
	for _, flag := range []string{"CAPPED", "LOCAL", "DOCUMENTS"} {
		if flags[flag] {
			suffix += "_" + strings.ToLower(flag)
		}
	}
	if a.op.F16 {
		suffix += "_f16"
	}
	return suffix
}

// uniform is Params as the flags have it.
func (a attentionKernel) uniform() any {
	if !a.flags()["LIMITED"] {
		return a.params()
	}
	return limitedParams{a.params(), uint32(a.window()), float32(a.op.Cap)}
}

// unit is how many numbers an element of the arrays has.
func (a attentionKernel) unit() int {
	if a.scalar() {
		return 1
	}
	return 4
}

// params are those of the node, with strides in the unit of the arrays.
func (a attentionKernel) params() attentionParams {
	unit := a.unit()
	q, kv, packed := a.op.Widths()
	p := attentionParams{
		T: uint32(a.t), Heads: uint32(a.op.Heads), Group: uint32(a.op.Heads / a.op.KVHeads),
		Count: uint32(a.batch * a.heads), QS: uint32(q / unit), KS: uint32(kv / unit), VS: uint32(kv / unit), OS: uint32(q / unit),
		Head: uint32(a.op.HeadDim / unit), Scale: float32(a.op.ScoreScale()),
	}
	if a.op.Packed {
		p.QS, p.KS, p.VS = uint32(packed/unit), uint32(packed/unit), uint32(packed/unit)
		p.K0, p.V0 = uint32(q/unit), uint32((q+kv)/unit)
	}
	return p
}

// grid covers every head and block of rows.
func (a attentionKernel) grid() gpu.Grid {
	blocks, count := (a.t+a.rows-1)/a.rows, a.batch*a.heads
	if a.byHead() {
		return gpu.Grid{X: tiles(count, a.width()), Y: uint32(blocks), Z: 1}
	}
	return gpu.Grid{X: tiles(blocks, a.width()), Y: uint32(count), Z: 1}
}

// variant has what the three kernels have in common.
func (a attentionKernel) variant(names map[string]string) shaders.Variant {
	return a.named(names, "BY_HEAD", a.byHead(), map[string]string{
		"QUADS": strconv.Itoa(a.quads()), "ROWS": strconv.Itoa(a.rows), "KEYS": strconv.Itoa(a.keys()), "WX": strconv.Itoa(a.width()), "ROUND_1": a.rounds("half1"),
	})
}

// rounds is the function of shared/half.wgsl that rounds what a product reads, none where it reads f32.
func (a attentionKernel) rounds(function string) string {
	if a.op.F16 {
		return function
	}
	return ""
}

// named has what all kernels have in common, one flag, and constants besides.
func (a attentionKernel) named(names map[string]string, flag string, on bool, constants map[string]string) shaders.Variant {
	constants["ELEMENT"], constants["HEAD_DIM"], constants["ROUND"] = a.element(), strconv.Itoa(a.op.HeadDim), a.rounds("half4")
	maps.Copy(constants, names)
	flags := a.flags()
	flags["PACKED"], flags["CAUSAL"], flags["SCALAR"], flags["F16"], flags[flag] = a.op.Packed, a.op.Causal, a.scalar(), a.op.F16, on
	return shaders.Variant{Constants: constants, Flags: flags}
}

// attentionLong is the positions from which on a kernel runs for so long that a slow compilation pays.
const attentionLong = 512

// kernelFor sets the heads and the rows an invocation: state is the number of vectors of HeadDim that a row keeps. A software
// adapter keeps them in its first-level cache, and the more rows share a load the better, but it compiles the unrolled code
// slowly: on lavapipe twice the rows took up to a third less time and three to four times the compilation. A GPU, which runs these kernels
// for heads that are too wide for tiles, wants many invocations.
func (a attentionKernel) kernelFor(heads, state int) attentionKernel {
	a.heads, a.state, a.rows = heads, state, 1
	most := 512
	if a.t >= attentionLong {
		most = 1024
	}
	if a.cpu {
		for a.rows < 8 && a.rows*2*state*a.op.HeadDim <= most && a.rows < a.t {
			a.rows *= 2
		}
	}
	return a
}

// keys is the number of keys, or positions, that rows meet at a time: enough to overlap, no more code than that. A software
// adapter writes all that a row adds up back to memory each time, which two at a time halve.
func (a attentionKernel) keys() int { return max(2, min(4, 512/(a.rows*a.op.HeadDim))) }

// arrays names the arrays that hold q, k and v, or their gradients, in the kernels.
func arrays(packed bool, names ...string) map[string]string {
	m := map[string]string{}
	for i, constant := range []string{"Q", "K", "V"} {
		m[constant] = []string{"q", "k", "v"}[i]
		if packed {
			m[constant] = "qkv"
		}
	}
	for _, name := range names {
		m[name] = map[string]string{"DQ": "dq", "DK": "dk", "DV": "dv"}[name]
		if packed {
			m[name] = "dqkv"
		}
	}
	return m
}

// spans are the spans of the first n values, each in one binding.
func (c *Compiler) spans(values []*graph.Value) []Span {
	out := make([]Span, len(values))
	for i, v := range values {
		out[i] = c.One(c.place(v), fmt.Sprintf("operand %d", i))
	}
	return out
}

// attend dispatches one of the three kernels.
func (c *Compiler) attend(name string, a attentionKernel, names map[string]string, bind ...Span) {
	if c.byUnits(name, a, names, bind) {
		return
	}
	if a.tiled() {
		k, grid := c.tiledKernel(name, a, names)
		c.Dispatch(k, grid, a.uniform(), bind...)
		return
	}
	k := c.kernel(name, fmt.Sprintf("_%dx%d", a.op.HeadDim, a.rows)+a.suffix(), a.variant(names))
	c.Dispatch(k, a.grid(), a.uniform(), bind...)
}

func lowerAttention(c *Compiler, n *graph.Node) {
	op := n.Op.(graph.Attention)
	shape := n.Inputs[0].Shape()
	if n.Outputs[0].Type().Elements() == 0 {
		return
	}
	results := c.rowOperands("result", n.Outputs...)
	if op.Sinks {
		results = []rowOperand{{tensor: c.workspace("o", n.Outputs[0].Shape()...), name: "o"}, {tensor: c.workspace("lse", n.Outputs[1].Shape()...), name: "lse"}}
	}
	operands := slices.Concat(c.rowOperands("operand", n.Inputs[:op.Operands()]...), results, c.seen(op, n))
	c.rowwise(operands, func(share func(int) int, spans []Span) {
		a := attentionKernel{op: op, batch: share(shape[0]), t: shape[1], cpu: c.limits.Software, registers: c.limits.Registers, memory: c.limits.WorkgroupBytes}
		c.attend("attention", a.kernelFor(op.Heads, 2), arrays(op.Packed), spans...)
	})
	if !op.Sinks {
		return
	}
	p, k := c.sinkKernel("", op.Heads, n.Outputs[0].Shape())
	p.Count *= p.Head
	out := c.spans(n.Outputs)
	c.Dispatch(k, c.Linear(int(p.Count)), p, c.One(results[0].tensor, "o"), c.One(results[1].tensor, "lse"), c.spans(n.Inputs[len(n.Inputs)-1:])[0], out[0], out[1])
}

func lowerAttentionGrad(c *Compiler, n *graph.Node) {
	op := graph.Attention(n.Op.(graph.AttentionGrad))
	shape := n.Inputs[0].Shape()
	if n.Outputs[0].Type().Elements() == 0 {
		return
	}
	results := c.rowOperands("result", n.Outputs...)
	operands := c.rowOperands("operand", slices.Concat(n.Inputs[:op.Operands()], n.Inputs[len(n.Inputs)-3:])...)
	delta := rowOperand{tensor: c.workspace("delta", shape[0], op.Heads, shape[1]), name: "delta"}
	c.rowwise(slices.Concat(operands, results, []rowOperand{delta}, c.seen(op, n)), func(share func(int) int, spans []Span) {
		a := attentionKernel{op: op, batch: share(shape[0]), t: shape[1], cpu: c.limits.Software, registers: c.limits.Registers, memory: c.limits.WorkgroupBytes}
		in, spans := spans[:len(operands)], spans[len(operands):]
		out, spans := spans[:len(results)], spans[len(results):]
		c.attendGrad(a, in, out, spans[0], spans[1:])
	})
}

// attendGrad dispatches the two kernels of the gradient.
func (c *Compiler) attendGrad(a attentionKernel, in, out []Span, delta Span, seen []Span) {
	op := a.op
	qkv, rest := in[:op.Operands()], in[op.Operands():]
	o, lse, dout := rest[0], rest[1], rest[2]
	bind := append(append([]Span{}, qkv...), o, lse, dout, out[0], delta)
	c.attend("attention_dq", a.kernelFor(op.Heads, 3), arrays(op.Packed, "DQ"), append(bind, seen...)...)

	bind = append(append([]Span{}, qkv...), lse, dout, delta)
	if op.Packed {
		bind = append(bind, out[0])
	} else {
		bind = append(bind, out[1], out[2])
	}
	c.attend("attention_dkv", a.kernelFor(op.KVHeads, 4), arrays(op.Packed, "DK", "DV"), append(bind, seen...)...)
}

// checkedAttention is the outputs and the gradients of attention over inputs of its own.
func checkedAttention(g *graph.Graph, op graph.Attention, batch, t int) []*graph.Value {
	q, kv, packed := op.Widths()
	in := []*graph.Value{g.Input("q", graph.F32(batch, t, q)), g.Input("k", graph.F32(batch, t, kv)), g.Input("v", graph.F32(batch, t, kv))}
	if op.Packed {
		in = []*graph.Value{g.Input("qkv", graph.F32(batch, t, packed))}
	}
	if op.Documents {
		in = append(in, checkedInts(g, "positions", batch, t))
	}
	if op.Sinks {
		sinks := g.Input("sinks", graph.F32(op.Heads))
		n := g.Append(op, append(in, sinks)...)
		grads, err := graph.Gradients(g, g.Sum(g.Mul(n.Outputs[0], g.Input("do", graph.F32(batch, t, q)))), append(in[:op.Operands():op.Operands()], sinks))
		if err != nil {
			return nil // the graph tells
		}
		return append(grads, n.Outputs...)
	}
	n := g.Append(op, in...)
	grad := g.Append(graph.AttentionGrad(op), append(in, n.Outputs[0], n.Outputs[1], g.Input("do", graph.F32(batch, t, q)))...)
	return append([]*graph.Value{n.Outputs[0], n.Outputs[1]}, grad.Outputs...)
}
