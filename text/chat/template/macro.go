package template

import "slices"

// macroStatement is {% macro %}, or the block of a {% call %}.
type macroStatement struct {
	name     string
	names    []string
	defaults []expression // of the last parameters
	body     []statement
}

// A macro is one with the variables it sees.
type macro struct {
	of    *macroStatement
	scope *scope
}

// call runs a macro.
func (m *macro) call(r *run, a arguments) any {
	r.deeper()
	defer r.shallower()
	if len(a.list) > len(m.of.names) {
		r.fail("macro '%s' takes not more than %d argument(s)", m.of.name, len(m.of.names))
	}
	inner := m.scope.inner()
	for i, name := range a.named.Keys() {
		switch place := slices.Index(m.of.names, name); {
		case place >= 0 && place < len(a.list):
			r.fail("macro '%s' got two values for the argument '%s'", m.of.name, name)
		case place < 0 && name != "caller":
			r.fail("macro '%s' takes no keyword argument '%s'", m.of.name, name)
		}
		inner.set(name, a.named.values[i])
	}
	for i, name := range m.of.names {
		d := i - len(m.of.names) + len(m.of.defaults)
		_, given := a.named.Get(name)
		switch {
		case i < len(a.list):
			inner.set(name, a.list[i])
		case given:
		case d >= 0:
			inner.set(name, r.eval(m.of.defaults[d], inner))
		default:
			inner.set(name, undefined{"parameter '" + name + "' was not provided"})
		}
	}
	return r.captured(func() { r.block(m.of.body, inner) })
}

// A scope has the variables of a block; it reads those of the blocks around it.
type scope struct {
	around *scope
	values map[string]any
}

func (s *scope) get(name string) (any, bool) {
	for ; s != nil; s = s.around {
		if value, ok := s.values[name]; ok {
			return value, true
		}
	}
	return nil, false
}

func (s *scope) set(name string, value any) {
	if s.values == nil {
		s.values = map[string]any{}
	}
	s.values[name] = value
}

func (s *scope) inner() *scope { return &scope{around: s} }

// A target is the names that a value is given to.
type target struct {
	line int
	all  []destination
}

// A destination is a variable, or an attribute of a namespace.
type destination struct{ name, attribute string }

func (t target) assign(r *run, s *scope, value any) {
	r.line = t.line
	items := []any{value}
	if len(t.all) > 1 {
		items = r.items(r.defined(value))
	}
	if len(items) != len(t.all) {
		r.fail("found %d values to unpack, wanted %d", len(items), len(t.all))
	}
	for i, to := range t.all {
		if to.attribute == "" {
			s.set(to.name, items[i])
			continue
		}
		of, _ := s.get(to.name)
		n, ok := of.(*namespace)
		if !ok {
			r.fail("cannot assign attribute %q of %q, which is no namespace", to.attribute, to.name)
		}
		r.made(64)
		n.Set(to.attribute, items[i])
	}
}
