package parquet

import (
	"fmt"
	"strings"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/deprecated"
)

// shape is what a node is in JSON.
type shape int

const (
	leaf   shape = iota // a value
	object              // a struct
	list                // the LIST of a repeated node
	table               // a MAP of a repeated node of keys and values
)

// node is a column, or what has columns below it.
type node struct {
	*parquet.Column
	shape       shape
	children    []*node
	first, last int // the leaves below it are [first, last)
	write       writer
}

// nodeOf makes a tree of nodes.
func (f *file) nodeOf(c *parquet.Column) (*node, error) {
	n := &node{Column: c, first: len(f.leaves)}
	if c.Leaf() {
		n.write, f.leaves = writerOf(c.Type()), append(f.leaves, strings.Join(c.Path(), "."))
		n.last = len(f.leaves)
		return n, nil
	}
	n.shape = object
	for _, child := range c.Columns() {
		below, err := f.nodeOf(child)
		if err != nil {
			return nil, err
		}
		n.children = append(n.children, below)
	}
	if n.last = len(f.leaves); n.last == n.first {
		return nil, fmt.Errorf("column %q: a struct without fields, wanted one or more", c.Name())
	}
	switch only := n.children[0]; {
	case len(n.children) > 1 || !only.Repeated():
	case annotated(c, deprecated.List):
		n.shape = list
	case annotated(c, deprecated.Map) && only.shape == object && len(only.children) == 2 && only.children[0].shape == leaf:
		n.shape = table
	}
	return n, nil
}

// annotated tells whether a group is said to be a list or a map: the library gives the older annotation for both that there are.
func annotated(c *parquet.Column, as deprecated.ConvertedType) bool {
	converted := c.Type().ConvertedType()
	return converted != nil && *converted == as
}

// element is the node of a list's elements, which older writers made without one of its own.
// https://github.com/apache/parquet-format/blob/master/LogicalTypes.md#backward-compatibility-rules
func (n *node) element() (of *node, itself bool) {
	repeated := n.children[0]
	if repeated.shape != object || len(repeated.children) > 1 || repeated.Name() == "array" || repeated.Name() == n.Name()+"_tuple" {
		return repeated, true
	}
	return repeated.children[0], false
}
