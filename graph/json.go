package graph

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"

	"gputrain/buffers/array"
	"gputrain/internal/suggest"
)

// operations are those that were registered, by kind.
var operations = map[string]Op{}

// Register makes operations known by their kinds, which is what UnmarshalJSON reads. It is called by init functions, in the file of the
// operation, here and in programs that bring operations of their own (see compile.Register for their kernels). A kind that is taken, and a
// pointer, are a panic.
func Register(ops ...Op) {
	for _, op := range ops {
		if _, taken := operations[op.Kind()]; taken || reflect.TypeOf(op).Kind() == reflect.Pointer {
			panic(fmt.Sprintf("graph: register: %T of kind %q: want a value, not a pointer, of a kind that is not taken", op, op.Kind()))
		}
		operations[op.Kind()] = op
	}
}

// jsonVersion is that of the JSON form.
const jsonVersion = 1

// jsonGraph is the JSON form. The position of a node in the list is its ID.
type jsonGraph struct {
	Version int               `json:"version"`
	Nodes   []json.RawMessage `json:"nodes"` // each a jsonNode
}

type jsonNode struct {
	Kind   string          `json:"kind"`
	Label  string          `json:"label,omitempty"`
	Attr   json.RawMessage `json:"attr,omitempty"`   // the fields of the operation
	Inputs [][2]int        `json:"inputs,omitempty"` // node, output
}

// MarshalJSON writes {"version":1,"nodes":[{"kind":"matmul","label":"h.0.mlp.c_fc","attr":{"trans_b":true},"inputs":[[0,0],[1,0]]}]}.
func (g *Graph) MarshalJSON() ([]byte, error) {
	if g.err != nil {
		return nil, g.err
	}
	out := jsonGraph{Version: jsonVersion, Nodes: []json.RawMessage{}}
	for _, n := range g.nodes {
		attr, err := json.Marshal(n.Op)
		if err != nil {
			return nil, fmt.Errorf("graph: %v: %w", n, err)
		}
		if string(attr) == "{}" {
			attr = nil
		}
		j := jsonNode{Kind: n.Op.Kind(), Label: n.Label, Attr: attr}
		for _, v := range n.Inputs {
			j.Inputs = append(j.Inputs, [2]int{v.node.ID, v.index})
		}
		node, err := json.Marshal(j)
		if err != nil {
			return nil, fmt.Errorf("graph: %v: %w", n, err)
		}
		out.Nodes = append(out.Nodes, node)
	}
	return json.Marshal(out)
}

// UnmarshalJSON builds the graph anew, with all checks of shapes. An unknown key, kind or attribute is an error.
func (g *Graph) UnmarshalJSON(data []byte) error {
	var in jsonGraph
	if err := decodeStrictly(data, &in); err != nil {
		return fmt.Errorf("graph: decode: %w", err)
	}
	if in.Version != jsonVersion {
		return fmt.Errorf("graph: decode: version %d, want %d", in.Version, jsonVersion)
	}
	built := New()
	for id, node := range in.Nodes {
		if err := built.decodeNode(node); err != nil {
			return fmt.Errorf("graph: decode: node %d: %w", id, err)
		}
	}
	*g = *built
	return nil
}

func (g *Graph) decodeNode(data []byte) error {
	var j jsonNode
	if err := decodeStrictly(data, &j); err != nil {
		return err
	}
	zero, ok := operations[j.Kind]
	if !ok {
		return fmt.Errorf("unknown kind %q%s", j.Kind, suggest.DidYouMean(j.Kind, slices.Sorted(maps.Keys(operations))))
	}
	op := reflect.New(reflect.TypeOf(zero))
	if j.Attr != nil {
		if err := decodeStrictly(j.Attr, op.Interface()); err != nil {
			return fmt.Errorf("%s: %w", j.Kind, err)
		}
	}
	inputs := make([]*Value, len(j.Inputs))
	for i, from := range j.Inputs {
		if from[0] < 0 || from[0] >= len(g.nodes) {
			return fmt.Errorf("%s: input %d is node %d, want an earlier one", j.Kind, i, from[0])
		}
		outputs := g.nodes[from[0]].Outputs
		if from[1] < 0 || from[1] >= len(outputs) {
			return fmt.Errorf("%s: input %d is output %d of node %d, which has %d", j.Kind, i, from[1], from[0], len(outputs))
		}
		inputs[i] = outputs[from[1]]
	}
	value := op.Elem().Interface().(Op)
	if err := g.checkNew(value); err != nil {
		return err
	}
	g.override = j.Label
	g.Append(value, inputs...)
	g.override = ""
	return g.err
}

// checkNew refuses a second input or parameter of one name.
func (g *Graph) checkNew(op Op) error {
	switch o := op.(type) {
	case Input:
		if g.inputs[o.Name] != nil {
			return fmt.Errorf("input %q appears twice", o.Name)
		}
	case Param:
		if g.params[o.Path] != nil {
			return fmt.Errorf("param %q appears twice", o.Path)
		}
	}
	return nil
}

// decodeStrictly decodes one JSON value into the struct that to points to. The keys are exactly its own.
func decodeStrictly(data []byte, to any) error {
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(data, &keys); err != nil {
		return err
	}
	known := []string{}
	for f := range reflect.TypeOf(to).Elem().Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		known = append(known, name)
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if !slices.Contains(known, key) {
			return fmt.Errorf("unknown key %q%s", key, suggest.DidYouMean(key, known))
		}
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(to); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the value")
	}
	return nil
}

// jsonType is the JSON form of Type: {"shape":[2,3],"dtype":"f32"}.
type jsonType struct {
	Shape []int  `json:"shape"`
	DType string `json:"dtype"`
}

// MarshalJSON writes the element type by name.
func (t Type) MarshalJSON() ([]byte, error) {
	return json.Marshal(jsonType{Shape: append([]int{}, t.Shape...), DType: t.DType.String()})
}

// UnmarshalJSON is the opposite of MarshalJSON.
func (t *Type) UnmarshalJSON(data []byte) error {
	var in jsonType
	if err := decodeStrictly(data, &in); err != nil {
		return err
	}
	d, err := array.ParseDType(in.DType)
	if err != nil {
		return err
	}
	*t = Type{Shape: in.Shape, DType: d}
	return nil
}
