package model

import (
	"slices"
	"strings"

	"gputrain/buffers/array"
	"gputrain/graph"
)

// referencePrefix begins the paths of a reference's parameters.
const referencePrefix = "reference."

// referred is a network with a reference: itself as it was, whose parameters it has besides. Without a loss that reads it the reference has no part in a graph.
type referred struct {
	Definition
	params []Param
}

// WithReference is def with the reference of its objective in the same graph: the network as training began. Its parameters are frozen copies of those of def, under a
// prefix; of a network with adapters it has copies of these alone, on the same base. ReferenceOf gives their values. Without, the reference of a network with
// adapters is that without them, and of any other what InputReference gives.
func WithReference(def Definition) (Definition, error) {
	if def == nil {
		return nil, errNone
	}
	r, trained := referred{Definition: def, params: slices.Clone(def.Params())}, copiedPaths(def)
	for _, p := range laidOut(def) {
		if trained[p.Path] {
			r.params = append(r.params, Param{Path: referencePrefix + p.Path, Shape: p.Shape, InOut: p.InOut, Table: p.Table, from: p.Path})
		}
	}
	sortParams(r.params)
	return r, nil
}

// copiedPaths are the parameters of def that a reference has copies of.
func copiedPaths(def Definition) map[string]bool {
	copied := map[string]bool{}
	for _, path := range AdapterParams(def) {
		copied[path] = true
	}
	if len(copied) > 0 {
		return copied
	}
	for _, p := range def.Params() {
		copied[p.Path] = !Consulted(p.Path)
	}
	return copied
}

// ReferenceOf are the parameters of def's reference, copies of those that training begins with; nil where it has none.
func ReferenceOf(def Definition, params []array.Host) (copies []array.Host) {
	for _, h := range params {
		h.Path = referencePrefix + h.Path
		if slices.ContainsFunc(def.Params(), func(p Param) bool { return p.Path == h.Path }) {
			copies = append(copies, h)
		}
	}
	return copies
}

// Refers tells whether def has a reference in it.
func Refers(def Definition) bool {
	switch m := def.(type) {
	case referred:
		return true
	case taught:
		return Refers(m.Definition)
	}
	return false
}

// Consulted tells whether a path is that of a parameter of a teacher or a reference, which is frozen and is no part of the network: no file of it has it.
func Consulted(path string) bool { return Teaches(path) || refersTo(path) }

func refersTo(path string) bool { return strings.HasPrefix(path, referencePrefix) }

// Params are those of the network and of its reference.
func (r referred) Params() []Param { return slices.Clone(r.params) }

// Build is that of the network, whose loss may read the reference.
func (r referred) Build(batch, seq int, o Options) (*Built, error) {
	o.referred = r.Definition
	built, err := r.Definition.Build(batch, seq, o)
	if err != nil {
		return nil, err
	}
	built.Params = nil
	for _, p := range r.params {
		built.Params = append(built.Params, built.Graph.Param(p.Path, p.Shape...))
	}
	return built, built.Graph.Err()
}

// WithDropout is for the network.
func (r referred) WithDropout(p float64) (Definition, error) {
	def, err := WithDropout(r.Definition, p)
	if err != nil {
		return nil, err
	}
	r.Definition = def
	return r, nil
}

// refers tells whether the graph has a reference in it.
func (b *Builder) refers() bool { return b.o.adapted != nil || b.o.referred != nil }

// reference is the loss of each label by the reference in the graph.
func (b *Builder) reference() (*graph.Value, error) {
	o := Options{tokenLosses: true, temperature: b.temperature(), into: b.Graph, Documents: b.o.Documents}
	def := b.o.referred
	if def != nil {
		o.prefix, o.prefixed = referencePrefix, copiedPaths(def)
	} else {
		def = b.o.adapted.Definition
	}
	built, err := def.Build(b.batch, b.seq, o)
	if err != nil {
		return nil, err
	}
	return built.tokenLosses, nil
}
