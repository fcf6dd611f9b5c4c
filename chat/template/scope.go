package template

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

// A target takes a value.
type target interface {
	assign(r *run, s *scope, value any)
}

type (
	nameTarget      string
	attributeTarget struct {
		line            int
		name, attribute string
	}
	targets struct {
		line int
		all  []target
	}
)

func (t nameTarget) assign(_ *run, s *scope, value any) { s.set(string(t), value) }

func (t attributeTarget) assign(r *run, s *scope, value any) {
	r.line = t.line
	of, _ := s.get(t.name)
	n, ok := of.(*namespace)
	if !ok {
		r.fail("cannot assign attribute %q of %q, which is no namespace", t.attribute, t.name)
	}
	r.made(64)
	n.Set(t.attribute, value)
}

func (t targets) assign(r *run, s *scope, value any) {
	r.line = t.line
	items := r.items(r.defined(value))
	if len(items) != len(t.all) {
		r.fail("found %d values to unpack, wanted %d", len(items), len(t.all))
	}
	for i, one := range t.all {
		one.assign(r, s, items[i])
	}
}
