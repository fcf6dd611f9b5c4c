package parquet

import (
	"fmt"
)

// assembler puts the values of columns together again, by their levels: the definition level says how much of a value's path is there, and the
// repetition level which of the lists on it goes on. https://github.com/julienledem/redelm/wiki/The-striping-and-assembly-algorithms-from-the-Dremel-paper
type assembler struct {
	columns []*cursor
	out     []byte
	most    int // bytes of a row
}

// row appends the next row.
func (a *assembler) row(root *node) error {
	a.out = a.out[:0]
	return a.body(root)
}

// value appends what a node has. empty: it is null, which is written too.
func (a *assembler) value(n *node) (empty bool, err error) {
	if n.repeated {
		return false, a.array(n, func() error { return a.body(n) })
	}
	if n.optional {
		there, err := a.there(n)
		if err != nil {
			return false, err
		}
		if !there {
			a.out = append(a.out, "null"...)
			return true, a.skip(n)
		}
	}
	from := len(a.out)
	err = a.body(n)
	return string(a.out[from:]) == "null", err
}

// there tells whether a node that may be absent is there.
func (a *assembler) there(n *node) (bool, error) {
	c := a.columns[n.first]
	v, err := c.peek()
	if err == nil && v == nil {
		err = fmt.Errorf("column %q: ends before its last row", c.name)
	}
	return err == nil && v.DefinitionLevel() >= n.def, err
}

// skip goes over a node that is not there: each leaf says so once.
func (a *assembler) skip(n *node) error {
	for _, c := range a.columns[n.first:n.last] {
		v, err := c.next()
		if err != nil {
			return err
		}
		if v.DefinitionLevel() >= n.def {
			return fmt.Errorf("column %q: has a value where the columns beside it have none", c.name)
		}
	}
	return nil
}

// body appends a node that is there.
func (a *assembler) body(n *node) error {
	switch n.shape {
	case list:
		element, itself := n.element()
		return a.array(n.children[0], func() error {
			if itself {
				return a.body(element)
			}
			_, err := a.value(element)
			return err
		})
	case table:
		return a.table(n.children[0])
	case object:
		return a.object(n)
	}
	c := a.columns[n.first]
	v, err := c.next()
	if err != nil {
		return err
	}
	if v.DefinitionLevel() < n.def || v.IsNull() {
		return fmt.Errorf("column %q: found null, wanted a value", c.name)
	}
	if a.out, err = n.write(a.out, v); err != nil {
		return fmt.Errorf("column %q: %w", c.name, err)
	}
	return a.bounded()
}

func (a *assembler) bounded() error {
	if len(a.out) > a.most {
		return fmt.Errorf("longer than %d bytes as JSON", a.most)
	}
	return nil
}

// object appends a struct, without the fields that are null.
func (a *assembler) object(n *node) error {
	a.out = append(a.out, '{')
	begun := len(a.out)
	for _, child := range n.children {
		from := len(a.out)
		if from > begun {
			a.out = append(a.out, ", "...)
		}
		a.out = append(quoted(a.out, []byte(child.name)), ": "...)
		empty, err := a.value(child)
		if err != nil {
			return err
		}
		if empty {
			a.out = a.out[:from]
		}
	}
	a.out = append(a.out, '}')
	return nil
}

// repeat calls each for every time that a repeated node is there.
func (a *assembler) repeat(n *node, each func() error) error {
	there, err := a.there(n)
	if err != nil {
		return err
	}
	if !there {
		return a.skip(n)
	}
	for first := true; ; first = false {
		if !first {
			a.out = append(a.out, ", "...)
		}
		if err := each(); err != nil {
			return err
		}
		if err := a.bounded(); err != nil {
			return err
		}
		v, err := a.columns[n.first].peek()
		if err != nil || v == nil || v.RepetitionLevel() != n.rep {
			return err
		}
	}
}

func (a *assembler) array(n *node, each func() error) error {
	a.out = append(a.out, '[')
	err := a.repeat(n, each)
	a.out = append(a.out, ']')
	return err
}

// table appends a map; keys that are no text are written as text.
func (a *assembler) table(n *node) error {
	a.out = append(a.out, '{')
	err := a.repeat(n, func() error {
		from := len(a.out)
		if _, err := a.value(n.children[0]); err != nil {
			return err
		}
		if a.out[from] != '"' {
			a.out = quoted(a.out[:from:from], a.out[from:])
		}
		a.out = append(a.out, ": "...)
		_, err := a.value(n.children[1])
		return err
	})
	a.out = append(a.out, '}')
	return err
}
