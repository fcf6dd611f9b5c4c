package model

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"gputrain/buffers/array"
	"gputrain/buffers/safetensors"
	"gputrain/graph"
)

// experts is a feed-forward part of count gated ones, of which a router chooses some for each token.
type experts struct {
	count, chosen, width int
	balance              float64 // what the load-balancing loss counts; 0: nothing
	all                  bool    // weights are the softmax over all experts, not over the chosen
	router               string
	pieces               bool                 // files may have the matrices of experts one by one
	stacked              bool                 // those that are written have them in one
	shared               int                  // width of an expert that all tokens take, times a gate; 0: none
	clamped              *graph.ClampedSwiGLU // nil: the gate is the decoder's activation; else matrices are [E, inputs, outputs], with biases
}

// Paths of the matrices of all experts, below a layer: gate and up of each [E, 2 width, inputs], and down.
const (
	expertsGateUp = "mlp.experts.gate_up_proj"
	expertsDown   = "mlp.experts.down_proj"
)

// params are those of a layer.
func (e *experts) params(layer string, width int, std float64) []Param {
	router := Param{Path: layer + e.router + ".weight", Shape: []int{e.count, width}, Std: std}
	gateUp := Param{Path: layer + expertsGateUp, Shape: []int{e.count, 2 * e.width, width}, Std: std}
	down := Param{Path: layer + expertsDown, Shape: []int{e.count, width, e.width}, Std: std}
	if e.clamped != nil {
		gateUp.Shape, down.Shape = []int{e.count, width, 2 * e.width}, []int{e.count, e.width, width}
		return []Param{
			router, gateUp, down,
			{Path: layer + e.router + ".bias", Shape: []int{e.count}},
			{Path: gateUp.Path + "_bias", Shape: []int{e.count, 2 * e.width}, InOut: true},
			{Path: down.Path + "_bias", Shape: []int{e.count, width}, InOut: true},
		}
	}
	gateUp.stacked, down.stacked = e.stacked, e.stacked
	for i := range e.count {
		if !e.pieces {
			break
		}
		one := fmt.Sprintf("%smlp.experts.%d.", layer, i)
		gateUp.pieces = append(gateUp.pieces, piece{one + "gate_proj.weight", []int{e.width, width}}, piece{one + "up_proj.weight", []int{e.width, width}})
		down.pieces = append(down.pieces, piece{one + "down_proj.weight", []int{width, e.width}})
	}
	params := []Param{router, gateUp, down}
	if e.shared > 0 {
		for _, l := range e.shares(layer, width) {
			params = append(params, Param{Path: l.path + ".weight", Shape: []int{l.out, l.in}, Std: std})
		}
	}
	return params
}

// shares are the matrices of the expert that all tokens take: of the gate that it is multiplied by, its gate and up, and down.
func (e *experts) shares(layer string, width int) []linear {
	return []linear{
		{path: layer + "mlp.shared_expert_gate", out: 1, in: width},
		{path: layer + "mlp.shared_expert.gate_proj", out: e.shared, in: width},
		{path: layer + "mlp.shared_expert.up_proj", out: e.shared, in: width},
		{path: layer + "mlp.shared_expert.down_proj", out: width, in: e.shared},
	}
}

// build is what the chosen experts of each row of n give, weighted and added up.
func (e *experts) build(b *Builder, n *graph.Value, layer, activation string) *graph.Value {
	logits := b.project(n, linear{path: layer + e.router, bias: e.clamped != nil})
	route := b.Append(graph.Router{K: e.chosen, All: e.all}, logits)
	b.KeepF32(logits, route.Outputs[0]) // a choice hangs on them
	b.route(e, logits, route.Outputs[1])
	choices := b.batch * b.seq * e.chosen
	tile := graph.RaggedTile(choices, e.count)
	group := b.Append(graph.Group{Experts: e.count, Tile: tile}, route.Outputs[1])
	rows, slots, offsets := group.Outputs[0], group.Outputs[1], group.Outputs[2]
	ragged := graph.RaggedMatMul{TransW: e.clamped == nil, Tile: tile, Rows: choices}
	multiply := func(x *graph.Value, path string) *graph.Value {
		y := b.Append(ragged, x, b.Read(layer+path), offsets).Outputs[0]
		y = b.adaptExperts(e, y, x, layer+path, ragged, offsets)
		if e.clamped == nil {
			return y
		}
		bias, shape := b.Read(layer+path+"_bias"), y.Shape() // the product of a column of ones with it, as of matrices of one input
		if len(shape) != 2 {
			return y // the graph tells
		}
		ones := b.BroadcastTo(b.Constant(1), shape[0], 1)
		return b.Add(y, b.Append(ragged, ones, b.Reshape(bias, e.count, 1, shape[1]), offsets).Outputs[0])
	}
	gateUp := multiply(b.Append(graph.Spread{}, n, rows, slots).Outputs[0], expertsGateUp)
	var hidden *graph.Value
	if e.clamped != nil {
		hidden = b.Append(*e.clamped, gateUp).Outputs[0]
	} else {
		hidden = b.Mul(b.Apply(activation, b.Slice(gateUp, 1, 0, e.width)), b.Slice(gateUp, 1, e.width, e.width))
	}
	y := b.Append(graph.Combine{}, multiply(hidden, expertsDown), rows, slots, route.Outputs[0]).Outputs[0]
	if e.shared == 0 || len(n.Shape()) != 2 { // the graph tells
		return y
	}
	in := e.shares(layer, n.Shape()[1])
	one := b.project(b.Mul(b.Apply(activation, b.project(n, in[1])), b.project(n, in[2])), in[3])
	gate := b.MatMul(n, b.Read(in[0].path+".weight"), false, true) // of one output, which no adapter fits
	return b.Add(y, b.Mul(one, b.Apply("sigmoid", gate)))
}

// readQwen3MoE: Qwen3 with experts in place of the feed-forward part, in some layers or all.
func readQwen3MoE(c *ConfigReader) (Definition, error) {
	m := c.decoder("qwen3_moe", 10000, 1e-6, false, true)
	m.headNorms, m.activation = true, c.act("hidden_act", "silu")
	m.qkvBias = c.Flag("attention_bias", false)
	m.oBias = m.qkvBias
	window := c.optionalSize("sliding_window", 0)
	if !c.Flag("use_sliding_window", false) {
		window = 0
	}
	c.windows(&m, window, func(int) bool { return window > 0 })
	e := c.experts(0.001, "num_experts", "num_local_experts")
	e.router, e.pieces, e.all = "mlp.gate", true, !c.Flag("norm_topk_prob", false)
	e.width = c.Size("moe_intermediate_size")
	step, dense := c.optionalSize("decoder_sparse_step", 1), []int(nil)
	if c.has("mlp_only_layers") {
		if err := json.Unmarshal(c.fields["mlp_only_layers"], &dense); err != nil {
			c.wrong("mlp_only_layers", "a list of layers")
		}
	}
	for i := range m.layers {
		if !slices.Contains(dense, i) && (i+1)%step == 0 {
			m.layers[i].experts = e
		}
	}
	return c.finished(m, "max_window_layers")
}

// readGPTOSS: experts in every layer, with biases and a clamped gate; a sink in each head; a window in every other layer, from the first on.
func readGPTOSS(c *ConfigReader) (Definition, error) {
	c.absent("head_dim", "64")
	if !c.has("rope_parameters") {
		c.absent("rope_scaling", `{"rope_type": "yarn", "factor": 32, "original_max_position_embeddings": 4096, "truncate": false}`)
	}
	if !c.has("experts_per_token") {
		c.absent("num_experts_per_tok", "4")
	}
	m := c.decoder("gpt_oss", 150000, 1e-5, false, false)
	m.sinks, m.activation = true, c.act("hidden_act", "silu")
	m.qkvBias = c.Flag("attention_bias", true)
	m.oBias = m.qkvBias
	window := c.window(128)
	c.windows(&m, window, func(layer int) bool { return window > 0 && layer%2 == 0 })
	e := c.experts(0.9, "num_local_experts", "num_experts")
	e.width, e.router = m.intermediate, "mlp.router"
	e.clamped = &graph.ClampedSwiGLU{Limit: c.Number("swiglu_limit", 7, false), Alpha: c.Number("swiglu_alpha", 1.702, false)}
	for i := range m.layers {
		m.layers[i].experts = e
	}
	return c.finished(m, "initial_context_length")
}

// experts reads how many there are, by one of keys, and how many a token takes; balance is the coefficient of the load-balancing loss where a file has none.
func (c *ConfigReader) experts(balance float64, keys ...string) *experts {
	e := &experts{count: c.Size(keys...), chosen: c.Size("num_experts_per_tok", "experts_per_token")}
	if e.chosen > e.count {
		c.wrong("num_experts_per_tok", fmt.Sprintf("at most the %d experts that there are", e.count))
	}
	for _, key := range append(keys, "num_experts_per_tok", "experts_per_token") { // those that say the same again
		if want := map[bool]int{true: e.count, false: e.chosen}[slices.Contains(keys, key)]; c.has(key) && c.optionalSize(key, 0) != want {
			c.wrong(key, fmt.Sprintf("%d, as another key says", want))
		}
	}
	if coefficient := c.Number(balanceKey, balance, true); c.Flag(balancedKey, false) {
		e.balance = coefficient
	}
	return e
}

// ForToken says how many of the parameters a token takes, where that is not all: those of the experts that it takes, and all others; else it is "".
func ForToken(def Definition) string {
	idle := int64(0)
	m, _ := decoderOf(def)
	for _, l := range m.layers {
		if e := l.experts; e != nil {
			for _, p := range e.params("", m.width, 0) {
				if len(p.Shape) == 3 {
					idle += elements(p.Shape) / int64(e.count) * int64(e.count-e.chosen)
				}
			}
		}
	}
	if idle == 0 {
		return ""
	}
	return fmt.Sprintf(" (%d for a token)", Parameters(def)-idle)
}

// piece is a tensor of a file that is a part of a parameter.
type piece struct {
	path  string
	shape []int
}

// join puts tensors that are pieces of a parameter together, where files have no such tensor in one: in w, and by path in stored. What stands in the way is
// in the lines that it returns.
func (w weights) join(params []Param, stored map[string]string) (wrong []string) {
	for _, p := range params {
		var parts []array.Tensor
		var lacking []string
		for _, piece := range p.pieces {
			name, ok := stored[piece.path]
			if !ok {
				lacking = append(lacking, fmt.Sprintf("%q is missing", piece.path))
				continue
			}
			t := w[name]
			if parts = append(parts, t); !slices.Equal(t.Shape, piece.shape) && encoders[t.DType] != nil {
				wrong = append(wrong, fmt.Sprintf("%q: shape %v, want %v", name, t.Shape, piece.shape))
			}
			if encoders[t.DType] == nil {
				wrong = append(wrong, fmt.Sprintf("%q: dtype %s, want F32, BF16 or F16", name, t.DType))
			}
			if _, whole := stored[p.Path]; !whole {
				delete(stored, piece.path)
			}
		}
		if _, whole := stored[p.Path]; len(parts) == 0 || whole {
			continue
		}
		if wrong = append(wrong, lacking...); len(wrong) > 0 {
			stored[p.Path] = "" // is told of
			continue
		}
		w[p.Path], stored[p.Path] = p.joinedAs(parts), p.Path
	}
	return wrong
}

// readPieces reads tensors that lie one behind the other.
func readPieces(parts []array.Tensor) func(dst []float32, first int) error {
	return func(dst []float32, first int) error {
		var errs []error
		for _, t := range parts {
			n := int(elements(t.Shape))
			if first < n && len(dst) > 0 {
				size := min(len(dst), n-first)
				errs = append(errs, t.Copy(dst[:size], first))
				dst, first = dst[size:], n
			}
			first -= n
		}
		return errors.Join(errs...)
	}
}

// inPieces are the tensors of def as files have them that have the matrices of experts one by one; like, if not nil, are files, which may have them in one.
func inPieces(def Definition, tensors []safetensors.Tensor, like *Stored, read func(path string) ([]float32, error)) []safetensors.Tensor {
	var out []safetensors.Tensor
	params := def.Params()
	for i, t := range tensors {
		if i >= len(params) || len(params[i].pieces) == 0 || params[i].stacked || like != nil && !like.inPieces(params[i]) {
			out = append(out, t)
			continue
		}
		out = append(out, inFile(def, params[i], t.DType, read)...)
	}
	return out
}

// inFile are the tensors that files have in place of a parameter of def.
func inFile(def Definition, p Param, dtype string, read func(path string) ([]float32, error)) (out []safetensors.Tensor) {
	first, whole := 0, []float32(nil)
	nameOf := families[def.Kind()].nameIn(def)
	for j, piece := range p.pieces {
		at, n, name := first, int(elements(piece.shape)), nameOf(piece.path)
		if strings.HasPrefix(piece.path, peftPrefix) {
			name = families[def.Kind()].adapterName(def, piece.path)
		}
		first += n
		out = append(out, safetensors.Tensor{Name: name, DType: dtype, Shape: piece.shape, Data: func(w io.Writer) (err error) {
			if whole == nil {
				if whole, err = read(p.Path); err != nil {
					return err
				}
				if p.across {
					whole = acrossExperts(whole, p.Shape[0], p.Shape[1], p.Shape[2], true)
				}
			}
			data := whole[at : at+n]
			if j == len(p.pieces)-1 {
				whole = nil // they are written in this order
			}
			return WriteFloats(w, dtype, data)
		}})
	}
	return out
}

// inPieces tells whether the files have a parameter in pieces.
func (s *Stored) inPieces(p Param) bool { return s.joined[p.Path] }

// Joined are arrays by the names of tensors in files, as parameters of def: pieces are put together.
func Joined(def Definition, hosts []array.Host) []array.Host {
	at := map[string]int{}
	for i, h := range hosts {
		at[h.Path] = i
	}
	used := map[int]bool{}
	var out []array.Host
	for _, p := range def.Params() {
		whole := array.Host{Path: p.Path, Shape: p.Shape}
		for _, piece := range p.pieces {
			if i, ok := at[piece.path]; ok {
				whole.Data, used[i] = append(whole.Data, hosts[i].Data...), true
			}
		}
		if len(whole.Data) > 0 {
			if p.across {
				whole.Data = acrossExperts(whole.Data, p.Shape[0], p.Shape[1], p.Shape[2], false)
			}
			out = append(out, whole)
		}
	}
	for i, h := range hosts {
		if !used[i] {
			out = append(out, h)
		}
	}
	return out
}
