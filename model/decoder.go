package model

import (
	"cmp"
	"fmt"
	"maps"

	"gputrain/graph"
)

// decoder is a network of Llama's kind: layers of attention and of a gated feed-forward part, each part added to what it has read. What tells the
// families apart is said here; a family's reader fills it in from config.json.
type decoder struct {
	kind                  string
	layerSizes            // of layers that have none of their own
	width, vocab, context int
	layers                []decoderLayer
	eps, initStd          float64
	tied                  bool // the head is the embedding; else it is lm_head.weight

	attentionNorms, mlpNorms norms
	lastNorm                 string // before the head
	onePlus                  bool   // gains are stored less 1
	headNorms, wholeNorms    bool   // q and k are normed before they are turned: each head by itself, or all heads as one
	valueNorms               bool   // values are normed head by head, without gains
	attends                  attentionNames
	gated                    bool // q_proj has a gate behind the query of each head, whose sigmoid attention is multiplied by
	qkvBias, oBias, mlpBias  bool
	fusedQKV                 bool // q, k and v are one matrix
	sinks                    bool // each head has one more score, of no key
	mlp                      mlpNames
	activation               string  // of the gate
	scale, cap               float64 // of scores, see graph.Attention
	logits                   logitRule
	embeddingScale           float64 // 0: 1
	branchScale              float64 // what a part gives is multiplied by before it is added; 0: 1
	perLayer                 perLayer
	layerScalar              bool // what a layer gives is multiplied by a number of the file that is not trained

	dropout  float64 // the largest that config.json asks for; training with it is refused
	settings map[string]any
	read     bool     // settings are those of a file
	around   *wrapper // what the network is the text part of; nil: it stands alone
}

// decoderLayer is what the layers of one network differ in.
type decoderLayer struct {
	rotation *rotation // nil: no positions
	queries  *rotation // of queries; nil: as of keys
	window   int       // keys that a position sees, itself the last of them; 0: all before it
	mixer    mixer     // what the layer has in place of attention; nil: attention
	sizes    *layerSizes
	borrows  int      // how many layers before it the one is whose keys and values it reads; 0: it has its own
	kAsV     bool     // values are the keys before these are normed and turned
	experts  *experts // nil: one gated part
}

// layerSizes are those of a layer.
type layerSizes struct{ heads, kvHeads, headDim, intermediate int }

// at are the sizes of a layer.
func (m decoder) at(layer int) layerSizes {
	if own := m.layers[layer].sizes; own != nil {
		return *own
	}
	return m.layerSizes
}

// A mixer is the part of a layer that mixes tokens where that is no attention.
type mixer interface {
	// params are those of the layer whose paths begin so; layers of the decoder begin with matrices of its deviation.
	params(m decoder, layer string) []Param
	// mix takes normed rows [N, width] to what is added to the stream.
	mix(m decoder, b *Builder, n *graph.Value, layer string) *graph.Value
}

// attentionNames are the names of attention's output and of the norms of its queries and keys.
type attentionNames struct{ out, queryNorm, keyNorm string }

var llamaAttention = attentionNames{"self_attn.o_proj", "self_attn.q_norm", "self_attn.k_norm"}

// mlpNames are the names of the matrices of a gated feed-forward part.
type mlpNames struct {
	gate, up string // up: "" where gate is both, one behind the other
	down     string
}

var (
	llamaMLP = mlpNames{"mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"}
	fusedMLP = mlpNames{gate: "mlp.gate_up_proj", down: "mlp.down_proj"}
)

// norms are the names of those before a part of a layer and behind it; "" for none.
type norms struct{ before, behind string }

// llamaNorms are the names that most families have.
var llamaNorms = [2]norms{{before: "input_layernorm"}, {before: "post_attention_layernorm"}}

func (m decoder) Kind() string { return m.kind }
func (m decoder) Vocab() int   { return m.vocab }
func (m decoder) Context() int { return m.context }

func (m decoder) Settings() map[string]any { return maps.Clone(m.settings) }

// WithDropout takes only 0.
func (m decoder) WithDropout(p float64) (Definition, error) {
	if p > 0 {
		return nil, fmt.Errorf("model: %s: dropout: %v, want 0: it has none", m.kind, p)
	}
	if m.dropout > 0 {
		m.dropout, m.settings = 0, maps.Clone(m.settings)
		for _, key := range dropoutKeys {
			if _, ok := m.settings[key]; ok {
				m.settings[key] = 0.0
			}
		}
	}
	return m, nil
}

// dropoutKeys are those of config.json for what a decoder drops in training.
var dropoutKeys = []string{"attention_dropout", "resid_pdrop", "embd_pdrop"}

// linear is a matrix of a layer, with its bias.
type linear struct {
	path    string
	out, in int
	bias    bool
}

// projections of a layer are those of attention's inputs, its output, the feed-forward part's inputs and its output.
func (m decoder) projections(layer int) (qkv []linear, o linear, gateUp []linear, down linear) {
	l, of := fmt.Sprintf("model.layers.%d.", layer), m.at(layer)
	q, kv := of.heads*of.headDim, of.kvHeads*of.headDim
	rows := q
	if m.gated {
		rows = 2 * q
	}
	qkv = []linear{
		{l + "self_attn.q_proj", rows, m.width, m.qkvBias}, {l + "self_attn.k_proj", kv, m.width, m.qkvBias}, {l + "self_attn.v_proj", kv, m.width, m.qkvBias},
	}[:m.layers[layer].read()]
	gateUp = []linear{{l + m.mlp.gate, of.intermediate, m.width, m.mlpBias}, {l + m.mlp.up, of.intermediate, m.width, m.mlpBias}}
	if m.fusedQKV {
		qkv = []linear{{l + "self_attn.qkv_proj", q + 2*kv, m.width, m.qkvBias}}
	}
	if m.mlp.up == "" {
		gateUp = []linear{{l + m.mlp.gate, 2 * of.intermediate, m.width, m.mlpBias}}
	}
	return qkv, linear{l + m.attends.out, m.width, q, m.oBias}, gateUp, linear{l + m.mlp.down, m.width, of.intermediate, m.mlpBias}
}

// read is how many of queries, keys and values a layer makes of its input.
func (l decoderLayer) read() int {
	switch {
	case l.borrows > 0:
		return 1
	case l.kAsV:
		return 2
	}
	return 3
}

func (m decoder) Params() []Param {
	params := []Param{{Path: "model.embed_tokens.weight", Shape: []int{m.vocab, m.width}, Std: m.initStd}}
	gain := 1.0
	if m.onePlus {
		gain = 0
	}
	norm := func(path, name string, width int) {
		if name != "" {
			params = append(params, Param{Path: path + name + ".weight", Shape: []int{width}, Value: gain})
		}
	}
	for i := range m.layers {
		l, of := fmt.Sprintf("model.layers.%d.", i), m.at(i)
		for _, n := range []norms{m.attentionNorms, m.mlpNorms} {
			norm(l, n.before, m.width)
			norm(l, n.behind, m.width)
		}
		if m.sinks {
			params = append(params, Param{Path: l + "self_attn.sinks", Shape: []int{m.heads}, Std: m.initStd})
		}
		qkv, o, gateUp, down := m.projections(i)
		matrices := append(gateUp, down)
		if e := m.layers[i].experts; e != nil {
			matrices, params = nil, append(params, e.params(l, m.width, m.initStd)...)
		}
		switch mixer := m.layers[i].mixer; {
		case mixer != nil:
			params = append(params, mixer.params(m, l)...)
		default:
			matrices = append(append(matrices, qkv...), o)
			if m.headNorms {
				norm(l, m.attends.queryNorm, of.headDim)
				if m.layers[i].borrows == 0 {
					norm(l, m.attends.keyNorm, of.headDim)
				}
			}
			if m.wholeNorms {
				norm(l, m.attends.queryNorm, of.heads*of.headDim)
				norm(l, m.attends.keyNorm, of.kvHeads*of.headDim)
			}
		}
		params = append(params, m.matrices(matrices...)...)
	}
	norm("model.", m.lastNorm, m.width)
	if !m.tied {
		params = append(params, Param{Path: "lm_head.weight", Shape: []int{m.vocab, m.width}, Std: m.initStd})
	}
	return sortParams(append(params, m.perLayerParams()...))
}

// matrices are parameters of linear layers.
func (m decoder) matrices(of ...linear) (params []Param) {
	for _, p := range of {
		params = append(params, Param{Path: p.path + ".weight", Shape: []int{p.out, p.in}, Std: m.initStd})
		if p.bias {
			params = append(params, Param{Path: p.path + ".bias", Shape: []int{p.out}})
		}
	}
	return params
}

func (m decoder) Build(batch, seq int, o Options) (*Built, error) {
	b, err := NewBuilder(m, batch, seq, o)
	if err != nil {
		return nil, err
	}
	if o.Training && m.dropout > 0 {
		return nil, errAttentionDropout(m, m.dropout)
	}
	embedding := b.Read("model.embed_tokens.weight")
	tokens := b.Tokens(embedding)
	if m.embeddingScale != 0 {
		tokens = b.Scale(tokens, m.embeddingScale)
	}
	x := b.flat(tokens, m.width)
	beside := m.besideLayers(b, x)
	for i := range m.layers {
		x = m.endLayer(b, m.block(b, x, i), beside, i)
	}
	x = m.norm(b, x, "model."+m.lastNorm)
	if m.tied {
		return b.finish(x, embedding, m.logits)
	}
	return b.finish(x, b.Read("lm_head.weight"), m.logits)
}

// block adds attention and the feed-forward part to x [N, width].
func (m decoder) block(b *Builder, x *graph.Value, layer int) *graph.Value {
	l := fmt.Sprintf("model.layers.%d.", layer)
	part := func(names norms, of func(n *graph.Value) *graph.Value) {
		n := x
		if names.before != "" {
			n = m.norm(b, x, l+names.before)
		}
		y := of(n)
		if names.behind != "" {
			y = m.norm(b, y, l+names.behind)
		}
		if m.branchScale != 0 {
			y = b.Scale(y, m.branchScale)
		}
		x = b.Add(x, y)
	}
	part(m.attentionNorms, func(n *graph.Value) *graph.Value {
		if mixer := m.layers[layer].mixer; mixer != nil {
			return mixer.mix(m, b, n, l)
		}
		return m.attention(b, n, layer)
	})
	part(m.mlpNorms, func(n *graph.Value) *graph.Value { return m.feedForward(b, n, layer) })
	return x
}

func (m decoder) attention(b *Builder, n *graph.Value, layer int) *graph.Value {
	l, of, at := fmt.Sprintf("model.layers.%d.", layer), m.at(layer), m.layers[layer]
	qkv, o, _, _ := m.projections(layer)
	q, kv := of.heads*of.headDim, of.kvHeads*of.headDim
	read := m.reader(b, n, qkv, []int{q, kv, kv}[:at.read()])
	turned := func(y *graph.Value, width int, norm string, by *rotation) *graph.Value {
		switch {
		case m.headNorms:
			y = b.Reshape(m.norm(b, b.Reshape(y, b.batch*b.seq*width/of.headDim, of.headDim), l+norm), b.batch*b.seq, width)
		case m.wholeNorms:
			y = m.norm(b, y, l+norm)
		}
		return b.turn(b.sequences(y, width), by, of.headDim)
	}
	y := read(0)
	var gate *graph.Value
	if m.gated {
		heads := b.Reshape(y, b.batch*b.seq*of.heads, 2*of.headDim)
		part := func(first int) *graph.Value { return b.Reshape(b.Slice(heads, 1, first, of.headDim), b.batch*b.seq, q) }
		y, gate = part(0), b.Apply("sigmoid", part(of.headDim))
	}
	query := turned(y, q, m.attends.queryNorm, cmp.Or(at.queries, at.rotation))
	has := b.kept[layer-at.borrows]
	if at.borrows == 0 {
		k := read(1)
		has.key = turned(k, kv, m.attends.keyNorm, at.rotation)
		if !at.kAsV {
			k = read(2)
		}
		if m.valueNorms {
			k = b.Reshape(b.plainNorm(b.Reshape(k, b.batch*b.seq*of.kvHeads, of.headDim), m.eps), b.batch*b.seq, kv)
		}
		has.value = b.sequences(k, kv)
	}
	a := graph.Attention{Heads: of.heads, KVHeads: of.kvHeads, HeadDim: of.headDim, Scale: m.scale, Cap: m.cap, Window: at.window, Sinks: m.sinks}
	operands := []*graph.Value{query, has.key, has.value}
	if m.sinks {
		operands = append(operands, b.Read(l+"self_attn.sinks"))
	}
	y, has.cache = b.attendIn(has.cache, a, operands...)
	b.kept[layer-at.borrows] = has
	if y = b.flat(y, q); gate != nil {
		y = b.Mul(y, gate)
	}
	return b.project(y, o)
}

func (m decoder) feedForward(b *Builder, n *graph.Value, layer int) *graph.Value {
	if e := m.layers[layer].experts; e != nil {
		return e.build(b, n, fmt.Sprintf("model.layers.%d.", layer), m.activation)
	}
	_, _, gateUp, down := m.projections(layer)
	width := m.at(layer).intermediate
	read := m.reader(b, n, gateUp, []int{width, width})
	gate := b.Apply(m.activation, read(0))
	return b.project(b.Mul(gate, read(1)), down)
}

// reader gives the products of n with matrices, or its parts of given widths where one matrix has them all.
func (m decoder) reader(b *Builder, n *graph.Value, matrices []linear, widths []int) func(i int) *graph.Value {
	if len(matrices) == len(widths) {
		return func(i int) *graph.Value { return b.project(n, matrices[i]) }
	}
	whole := b.project(n, matrices[0])
	return func(i int) *graph.Value {
		first := 0
		for _, w := range widths[:i] {
			first += w
		}
		return b.Slice(whole, 1, first, widths[i])
	}
}

func (m decoder) norm(b *Builder, x *graph.Value, path string) *graph.Value {
	gain := b.Read(path + ".weight")
	if m.onePlus {
		gain = b.AddConst(gain, 1)
	}
	return b.RMSNorm(x, gain, m.eps)
}
