package parquet

import (
	"errors"
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go"
)

// cursor goes through the values of a column in a row group.
type cursor struct {
	name string
	from parquet.ValueReader
	some [256]parquet.Value
	i, n int
}

// assembler puts the values of columns together again, by their levels: the definition level says how much of a value's path is there, and the
// repetition level which of the lists on it goes on. https://github.com/julienledem/redelm/wiki/The-striping-and-assembly-algorithms-from-the-Dremel-paper
type assembler struct {
	columns []*cursor
	out     []byte
	most    int   // bytes of a row
	err     error // the first; what is appended after it does not count
}

func (a *assembler) fail(err error) {
	if a.err == nil {
		a.err = err
	}
}

// peek is the next value of a column; nil: there is none.
func (a *assembler) peek(column int) *parquet.Value {
	c := a.columns[column]
	if c.i >= c.n {
		var err error
		c.i = 0
		if c.n, err = c.from.ReadValues(c.some[:]); c.n == 0 {
			if !errors.Is(err, io.EOF) {
				a.fail(fmt.Errorf("column %q: %w", c.name, err))
			}
			return nil
		}
	}
	return &c.some[c.i]
}

// must is peek, of a value that has to be there.
func (a *assembler) must(column int) *parquet.Value {
	if v := a.peek(column); v != nil {
		return v
	}
	a.fail(fmt.Errorf("column %q: ends before its last row", a.columns[column].name))
	return new(parquet.Value)
}

// there tells whether a node that may be absent is there.
func (a *assembler) there(n *node) bool {
	return a.must(n.first).DefinitionLevel() >= n.MaxDefinitionLevel()
}

// skip goes over a node that is not there: each leaf says so once.
func (a *assembler) skip(n *node) {
	for i := n.first; i < n.last; i++ {
		if a.must(i).DefinitionLevel() >= n.MaxDefinitionLevel() {
			a.fail(fmt.Errorf("column %q: has a value where the columns beside it have none", a.columns[i].name))
		}
		a.columns[i].i++
	}
}

// value appends what a node has. null: it is that, which is written too.
func (a *assembler) value(n *node) (null bool) {
	if n.Repeated() {
		a.array(n, func() { a.body(n) })
		return false
	}
	if n.Optional() && !a.there(n) {
		a.out = append(a.out, "null"...)
		a.skip(n)
		return true
	}
	from := len(a.out)
	a.body(n)
	return string(a.out[from:]) == "null"
}

// body appends a node that is there.
func (a *assembler) body(n *node) {
	switch n.shape {
	case list:
		element, itself := n.element()
		a.array(n.children[0], func() {
			if itself {
				a.body(element)
			} else {
				a.value(element)
			}
		})
	case table:
		a.table(n.children[0])
	case object:
		a.object(n)
	default:
		a.leaf(n)
	}
}

func (a *assembler) leaf(n *node) {
	v, c := a.must(n.first), a.columns[n.first]
	c.i++
	var err error
	if v.DefinitionLevel() < n.MaxDefinitionLevel() || v.IsNull() {
		err = errors.New("found null, wanted a value")
	} else {
		a.out, err = n.write(a.out, v)
	}
	if err != nil {
		a.fail(fmt.Errorf("column %q: %w", c.name, err))
	}
	if len(a.out) > a.most {
		a.fail(fmt.Errorf("longer than %d bytes as JSON", a.most))
	}
}

// object appends a struct, without the fields that are null.
func (a *assembler) object(n *node) {
	a.out = append(a.out, '{')
	begun := len(a.out)
	for _, child := range n.children {
		from := len(a.out)
		if from > begun {
			a.out = append(a.out, ", "...)
		}
		a.out = append(quoted(a.out, []byte(child.Name())), ": "...)
		if a.value(child) {
			a.out = a.out[:from]
		}
	}
	a.out = append(a.out, '}')
}

// repeat calls each for every time that a repeated node is there.
func (a *assembler) repeat(n *node, each func()) {
	if !a.there(n) {
		a.skip(n)
		return
	}
	for {
		each()
		v := a.peek(n.first)
		if a.err != nil || v == nil || v.RepetitionLevel() != n.MaxRepetitionLevel() {
			return
		}
		a.out = append(a.out, ", "...)
		if len(a.out) > a.most {
			a.fail(fmt.Errorf("longer than %d bytes as JSON", a.most))
		}
	}
}

func (a *assembler) array(n *node, each func()) {
	a.out = append(a.out, '[')
	a.repeat(n, each)
	a.out = append(a.out, ']')
}

// table appends a map; keys that are no text are written as text.
func (a *assembler) table(n *node) {
	a.out = append(a.out, '{')
	a.repeat(n, func() {
		from := len(a.out)
		a.value(n.children[0])
		if a.out[from] != '"' {
			a.out = quoted(a.out[:from:from], a.out[from:])
		}
		a.out = append(a.out, ": "...)
		a.value(n.children[1])
	})
	a.out = append(a.out, '}')
}
