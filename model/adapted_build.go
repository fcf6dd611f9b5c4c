package model

import (
	"slices"
	"strings"

	"gputrain/graph"
)

// multiply is x W^T for W [out, in] at path, or x W for one that is [in, out], with its adapter.
func (b *Builder) multiply(x *graph.Value, path string, conv bool) *graph.Value {
	if b.o.linear != nil {
		b.o.linear(path, conv)
	}
	w := b.Read(path)
	y := b.MatMul(x, w, false, !conv)
	if a := b.adapterOf(func(a adapter) bool {
		return a.weight == path && a.conv == conv && a.module == families[b.def.Kind()].module(path)
	}); a != nil {
		return b.adapt(x, y, w, a)
	}
	return y
}

// adapterOf is the adapter of which is true; nil for none.
func (b *Builder) adapterOf(which func(a adapter) bool) *adapter {
	if b.o.adapted == nil {
		return nil
	}
	i := slices.IndexFunc(b.o.adapted.modules, which)
	if i < 0 {
		return nil
	}
	return &b.o.adapted.modules[i]
}

// low is scale A x, [N, rank].
func (b *Builder) low(x *graph.Value, a *adapter) *graph.Value {
	return b.Scale(b.MatMul(x, b.master(a.a()), false, true), a.scale)
}

// adapt is y = W x with the adapter of W: y + scale B (A d(x)), where d is dropout.
//
// With magnitudes m, and n the lengths of the rows of V = W + scale B A, it is (m/n) V x: y + (m/n - 1) W d(x) + (m/n) scale B (A d(x)), as PEFT has it.
func (b *Builder) adapt(x, y, w *graph.Value, a *adapter) *graph.Value {
	l := b.o.adapted.lora
	kept := b.dropout(x, l.Dropout)
	update := b.MatMul(b.low(kept, a), b.master(a.b()), false, true)
	if !l.DoRA {
		return b.Add(y, update)
	}
	stretch := b.stretch(w, a)
	if kept == x {
		return b.Mul(b.Add(y, update), stretch)
	}
	dropped := b.MatMul(kept, w, false, !a.conv)
	return b.Add(b.Sub(y, dropped), b.Mul(b.Add(dropped, update), stretch))
}

// stretch is m/n [out]. Nothing is V whole: n^2 = |W_i|^2 + 2 scale B_i (A W_i) + scale^2 B_i (A A^T) B_i. It is a constant in the backward pass.
func (b *Builder) stretch(w *graph.Value, a *adapter) *graph.Value {
	down, up := b.master(a.a()), b.master(a.b())
	axis := 1
	if a.conv {
		axis = 0
	}
	products := b.Add(b.Scale(b.MatMul(w, down, a.conv, true), 2*a.scale), b.Scale(b.MatMul(up, b.MatMul(down, down, false, true), false, false), a.scale*a.scale))
	square := b.Add(b.Sum(b.Apply("square", w), axis), b.Sum(b.Mul(up, products), 1))
	return b.Div(b.master(a.magnitude()), b.StopGradient(b.Apply("sqrt", square)))
}

// adaptHead is what the logits are the product of, x [N, width] and head W [vocab, width], where the head has an adapter or a copy of its own. An adapter
// stands beside both: x with scale A x behind it, and W with B.
func (b *Builder) adaptHead(x, head *graph.Value) (*graph.Value, *graph.Value) {
	path := strings.TrimPrefix(paramOf(head), b.o.prefix)
	if b.o.head != nil {
		b.o.head(path)
	}
	m := b.o.adapted
	if m == nil {
		return x, head
	}
	family := families[b.def.Kind()]
	for original, copied := range m.copies {
		if copied == path {
			path = original
		}
	}
	switch {
	case m.untied != "":
		head = b.master(m.untied)
	case path != family.Head: // a tied head stays what it was, whatever takes the embedding's place
		head = b.original(path)
	}
	a := b.adapterOf(func(a adapter) bool { return a.module == family.module(family.Head) })
	if a == nil {
		return x, head
	}
	wide := b.Concat(1, head, b.master(a.b()))
	if m.lora.DoRA {
		wide = b.Mul(wide, b.Reshape(b.stretch(head, a), a.out, 1))
	}
	return b.Concat(1, x, b.low(b.dropout(x, m.lora.Dropout), a)), wide
}

// paramOf is the path of the parameter that v is, quantized or not.
func paramOf(v *graph.Value) string {
	if v.Node() == nil {
		return "" // the graph tells
	}
	switch op := v.Node().Op.(type) {
	case graph.Param:
		return op.Path
	case graph.Quantize:
		return paramOf(v.Node().Inputs[0])
	}
	return ""
}
