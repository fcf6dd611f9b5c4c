package model

import (
	"cmp"
	"fmt"
	"slices"

	"gputrain/buffers/array"
	"gputrain/graph"
)

// A Builder is the graph of a Definition under construction: it reads parameters as Options ask for, and makes the inputs and the ends that
// all networks have. N = batch*seq rows of activations.
type Builder struct {
	*graph.Graph
	def        Definition
	batch, seq int
	o          Options
	shapes     map[string][]int
	salt       uint32 // of the last dropout
	quantized  map[string]*graph.Value
	caches     []*graph.Value
	params     []Param
	kept       map[int]keysAndValues // of layers, which later ones may read
	routed     routed
}

// NewBuilder checks sizes and options against def. A network that cannot go on with sequences refuses Options.Window itself.
func NewBuilder(def Definition, batch, seq int, o Options) (*Builder, error) {
	switch {
	case !o.Loss && !o.Logits && !o.tokenLosses && o.ends == nil:
		return nil, fmt.Errorf("model: %s: build: %w", def.Kind(), errNothing)
	case batch < 1 || seq < 1:
		return nil, fmt.Errorf("model: %s: build: batch %d, sequence %d: want at least 1", def.Kind(), batch, seq)
	case seq > def.Context() && o.Paging == (Paging{}):
		return nil, fmt.Errorf("model: %s: build: sequence %d, want at most the context %d", def.Kind(), seq, def.Context())
	case o.Rows < 0 || o.Rows > 0 && !o.Logits:
		return nil, fmt.Errorf("model: %s: build: rows %d: want 0 or more, with logits", def.Kind(), o.Rows)
	case o.Window != 0 && (o.Loss || o.Training || o.Documents || o.Window < seq && o.Paging == (Paging{}) || o.Window > def.Context()):
		return nil, fmt.Errorf("model: %s: build: window %d: want %d to the context %d, for logits alone", def.Kind(), o.Window, seq, def.Context())
	}
	if err := o.Paging.check(batch, o.Window); err != nil {
		return nil, fmt.Errorf("model: %s: build: %w", def.Kind(), err)
	}
	if o.headed != nil && (o.Rows > 0 || o.Window > 0 || o.Documents || o.tokenLosses) {
		return nil, fmt.Errorf("model: %s: build: found single rows, a window or documents, wanted whole sequences: its head gives %s", def.Kind(), headRowOf(o.headed.head.Kind).says)
	}
	if err := o.Objective.check(def, batch, o); err != nil {
		return nil, err
	}
	params := def.Params()
	if o.headed != nil {
		params = o.headed.Params()
	}
	if o.adapted != nil {
		params = o.adapted.params
	}
	if !slices.IsSortedFunc(params, byPath) {
		return nil, fmt.Errorf("model: %s: build: parameters: found them out of order, want them sorted by path", def.Kind())
	}
	if o.into == nil {
		o.into = graph.New()
	}
	b := &Builder{Graph: o.into, def: def, batch: batch, seq: seq, o: o, shapes: map[string][]int{}, quantized: map[string]*graph.Value{}, params: params, kept: map[int]keysAndValues{}}
	for _, p := range params {
		b.shapes[p.Path] = p.Shape
	}
	return b, nil
}

// Read is the parameter at path, as the network reads it: a copy that is trained in its place, or quantized, once however often it is read, if that is
// asked for. The head of the logits is nil where the network has another: nothing reads it.
func (b *Builder) Read(path string) *graph.Value {
	if b.o.headed != nil && path == families[b.def.Kind()].Head {
		return nil
	}
	if a := b.o.adapted; a != nil && a.copies[path] != "" {
		return b.master(a.copies[path])
	}
	return b.original(path)
}

// original is the parameter at path, whether or not a copy is trained in its place.
func (b *Builder) original(path string) *graph.Value {
	q := b.o.quantized
	if q == nil || !q.paths[path] {
		return b.master(path)
	}
	if b.quantized[path] == nil {
		b.quantized[path] = b.Quantize(b.master(path), q.ops[path])
	}
	return b.quantized[path]
}

// master is the parameter at path; a path that the definition does not list is a bug of ours.
func (b *Builder) master(path string) *graph.Value {
	shape, ok := b.shapes[path]
	if !ok {
		panic(fmt.Sprintf("model: %s: no parameter %q", b.def.Kind(), path))
	}
	if b.o.prefixed == nil || b.o.prefixed[path] {
		path = b.o.prefix + path
	}
	return b.Param(path, shape...)
}

// Tokens are the rows of table for the input tokens, [batch, seq, width].
func (b *Builder) Tokens(table *graph.Value) *graph.Value {
	ids := b.Input(InputTokens, graph.Type{Shape: []int{b.batch, b.seq}, DType: array.I32})
	return b.Embedding(table, ids)
}

// positions are those of the tokens, where sequences go on or are made of documents.
func (b *Builder) positions() *graph.Value {
	return b.Input(InputPositions, graph.Type{Shape: []int{b.batch, b.seq}, DType: array.I32})
}

// attend is the causal attention of the operands of a, its sinks last where it has some, which goes on with a cache of its own where sequences do.
func (b *Builder) attend(a graph.Attention, operands ...*graph.Value) *graph.Value {
	o, _ := b.attendIn(nil, a, operands...)
	return o
}

// attendIn is attend with a cache that another attention has put these keys and values into, nil for one of its own, and the cache after it.
func (b *Builder) attendIn(cache *graph.Value, a graph.Attention, operands ...*graph.Value) (o, after *graph.Value) {
	a.Causal = true
	var sinks []*graph.Value
	if a.Sinks {
		last := len(operands) - 1
		operands, sinks = operands[:last:last], operands[last:]
	}
	if b.o.Documents {
		a.Documents = true
		operands = append(operands, b.positions())
	}
	if b.o.Window == 0 {
		return b.Append(a, append(operands, sinks...)...).Outputs[0], nil
	}
	blocks, size, storage, places := b.batch, b.o.Window, array.F32, []*graph.Value{b.positions()}
	if p := b.o.Paging; p != (Paging{}) {
		blocks, size = p.Blocks, p.Size
		table := b.Input(InputTable, graph.Type{Shape: []int{p.Rows, p.entries(b.o.Window)}, DType: array.I32})
		row := b.Input(InputRow, graph.Type{Shape: []int{b.batch, b.seq}, DType: array.I32})
		places = []*graph.Value{table, row, places[0]}
		if a.HeadDim%4 == 0 {
			storage = p.Storage
		}
	}
	if cache == nil || b.o.CachesApart {
		cache = b.Input(fmt.Sprintf("cache.%d", len(b.caches)), graph.Type{Shape: []int{blocks, size, 2 * a.KVHeads * a.HeadDim}, DType: storage})
		b.caches = append(b.caches, cache)
	}
	made := b.Append(graph.CachedAttention(a), slices.Concat([]*graph.Value{cache}, places, operands, sinks)...)
	return made.Outputs[0], made.Outputs[1]
}

// keysAndValues are those of a layer, and the cache where they are as the last that has read them leaves it; nil without one.
type keysAndValues struct{ key, value, cache *graph.Value }

// plainNorm is the RMS norm of x [.., D] without gains.
func (b *Builder) plainNorm(x *graph.Value, eps float64) *graph.Value {
	shape := x.Shape()
	return b.RMSNorm(x, b.BroadcastTo(b.Constant(1), shape[len(shape)-1]), eps)
}

// turn is the rotary embedding of x [batch, seq, heads*headDim] by r, x itself where that is nil.
func (b *Builder) turn(x *graph.Value, r *rotation, headDim int) *graph.Value {
	switch {
	case r == nil:
		return x
	case b.o.Window == 0 && !b.o.Documents:
		return b.Append(r.op(headDim, b.seq), x).Outputs[0]
	}
	window := cmp.Or(b.o.Window, b.seq)
	op := r.op(headDim, window)
	op.Window = window
	return b.Append(op, x, b.positions()).Outputs[0]
}

// flat makes rows [batch*seq, width] of x, sequences makes [batch, seq, width] of them.
func (b *Builder) flat(x *graph.Value, width int) *graph.Value {
	return b.Reshape(x, b.batch*b.seq, width)
}

func (b *Builder) sequences(x *graph.Value, width int) *graph.Value {
	return b.Reshape(x, b.batch, b.seq, width)
}

// Linear is x W^T, W [out, in], as torch.nn.Linear stores it.
func (b *Builder) Linear(x *graph.Value, path string) *graph.Value {
	return b.multiply(x, path, false)
}

// project is x W^T + bias.
func (b *Builder) project(x *graph.Value, p linear) *graph.Value {
	y := b.Linear(x, p.path+".weight")
	if p.bias {
		y = b.Add(y, b.Read(p.path+".bias"))
	}
	return y
}

// conv1d is x W + bias, W [in, out], as GPT-2 stores it.
func (b *Builder) conv1d(x *graph.Value, path string) *graph.Value {
	return b.Add(b.multiply(x, path+".weight", true), b.Read(path+".bias"))
}

// dropout is x in evaluation. Every call in a graph has a salt of its own.
func (b *Builder) dropout(x *graph.Value, p float64) *graph.Value {
	b.salt++
	if !b.o.Training || p == 0 {
		return x
	}
	key := b.Input(InputDropoutKey, graph.Type{Shape: []int{2}, DType: array.U32})
	return b.Dropout(x, key, p, b.salt)
}

// Finish puts the output head W [vocab, width] on x [N, width].
func (b *Builder) Finish(x, head *graph.Value) (*Built, error) {
	return b.finish(x, head, logitRule{})
}

// A logitRule is what becomes of a head's products: they are divided, then capped (see graph.HeadLoss). 0: they are not.
type logitRule struct{ divisor, cap float64 }

// finish is Finish with a rule.
func (b *Builder) finish(x, head *graph.Value, rule logitRule) (*Built, error) {
	if b.o.headed != nil {
		return b.finishHeaded(x)
	}
	limit := rule.cap
	if rule.divisor != 0 {
		x = b.Scale(x, 1/rule.divisor)
	}
	x, head = b.adaptHead(x, head)
	built := &Built{Graph: b.Graph}
	if b.o.ends != nil {
		*b.o.ends = headEnds{x, head, limit}
		return b.end(built)
	}
	row := b.o.Objective.Row()
	if b.o.tokenLosses || row.build != nil {
		b.eachLoss(built, x, head, limit, row.Entropy)
	}
	switch {
	case row.build != nil:
		if err := row.build(b, built, built.tokenLosses); err != nil {
			return nil, err
		}
	case row.head != nil:
		if err := row.head(b, built, x, head, limit); err != nil {
			return nil, err
		}
	case b.o.Loss:
		b.scaled(built, b.Append(graph.HeadLoss{Cap: limit}, x, head, b.labels()).Outputs[0])
	}
	if b.o.Logits {
		if b.o.Rows > 0 {
			x = b.Embedding(x, b.ints(InputRows, b.o.Rows))
		}
		built.Logits = b.MatMul(x, head, false, true)
		if limit > 0 {
			built.Logits = b.Scale(b.Apply("tanh", b.Scale(built.Logits, 1/limit)), limit)
		}
	}
	return b.end(built)
}

// eachLoss makes the loss of each label, of logits divided by the temperature: of what they are the product of, and their limit.
func (b *Builder) eachLoss(built *Built, x, head *graph.Value, limit float64, entropy bool) {
	if t := b.temperature(); t != 1 {
		x, limit = b.Scale(x, 1/t), limit/t
	}
	n := b.Append(graph.HeadLoss{Cap: limit, Each: true, Entropy: entropy}, x, head, b.labels())
	if built.tokenLosses = n.Outputs[0]; entropy {
		built.entropies = n.Outputs[2]
	}
}

// temperature is what logits are divided by in the loss of each label, those of the reference too.
func (b *Builder) temperature() float64 {
	return cmp.Or(b.o.temperature, b.o.Objective.Numbers[temperature], 1)
}

func (b *Builder) labels() *graph.Value { return b.ints(InputLabels, b.batch*b.seq) }

func (b *Builder) ints(name string, n int) *graph.Value {
	return b.Input(name, graph.Type{Shape: []int{n}, DType: array.I32})
}

func (b *Builder) scaled(built *Built, sum *graph.Value) {
	built.LossSum = sum
	built.Loss = b.Mul(sum, b.Input(InputLossScale, graph.Type{DType: array.F32}))
}

// tell makes Built.Sums of what a loss finds of each that counts.
func (b *Builder) tell(built *Built, counts *graph.Value, found ...*graph.Value) {
	for i, of := range found {
		found[i] = b.Reshape(b.Sum(b.Mul(of, counts)), 1)
	}
	built.Sums = b.Concat(0, found...)
}

// tellGreatest adds the greatest of each of found to Built.Sums: see Loss.Maxima. Where there is 0, not 1, it does not count.
func (b *Builder) tellGreatest(built *Built, there *graph.Value, found ...*graph.Value) {
	beyond := b.AddConst(b.Scale(there, -nothing), nothing)
	for _, of := range found {
		built.Sums = b.Concat(0, built.Sums, b.Reshape(b.Max(b.Add(of, beyond)), 1))
	}
}

func (b *Builder) end(built *Built) (*Built, error) {
	built.Caches = b.caches
	b.balance(built)
	for _, p := range b.params {
		built.Params = append(built.Params, b.master(p.Path))
	}
	if err := b.Err(); err != nil {
		return nil, fmt.Errorf("model: %s: build: batch %d, sequence %d: %w", b.def.Kind(), b.batch, b.seq, err)
	}
	return built, nil
}
