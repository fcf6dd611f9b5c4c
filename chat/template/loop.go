package template

// forLoop is {% for %}.
type forLoop struct {
	line      int
	target    target
	over      expression
	filter    expression // nil: none
	body      []statement
	otherwise []statement
}

// A loop is what a template knows of one while it runs.
type loop struct {
	items []any
	at    int // of the item
}

func (l *forLoop) run(r *run, s *scope) jump {
	over := r.eval(l.over, s)
	r.line = l.line
	r.deeper()
	defer r.shallower()
	items := r.items(over)
	if l.filter != nil {
		var kept []any
		for _, one := range items {
			inner := s.inner()
			l.target.assign(r, inner, one)
			if truth(r.eval(l.filter, inner)) {
				r.made(16)
				kept = append(kept, one)
			}
		}
		items = kept
	}
	for i, one := range items {
		inner := s.inner()
		r.step(1)
		inner.set("loop", &loop{items, i})
		l.target.assign(r, inner, one)
		if r.block(l.body, inner) == breakLoop {
			break
		}
	}
	if len(items) == 0 {
		return r.block(l.otherwise, s.inner())
	}
	return onward
}

// attribute is loop.NAME.
func (l *loop) attribute(r *run, name string) any {
	at, length := int64(l.at), int64(len(l.items))
	switch name {
	case "index":
		return at + 1
	case "index0":
		return at
	case "revindex":
		return length - at
	case "revindex0":
		return length - at - 1
	case "first":
		return at == 0
	case "last":
		return at == length-1
	case "length":
		return length
	case "previtem":
		if at == 0 {
			return undefined{"there is no previous item"}
		}
		return l.items[at-1]
	case "nextitem":
		if at == length-1 {
			return undefined{"there is no next item"}
		}
		return l.items[at+1]
	}
	r.fail("%s", unknown("attribute", "loop."+name, []string{
		"loop.index", "loop.index0", "loop.revindex", "loop.revindex0", "loop.first", "loop.last", "loop.length", "loop.previtem", "loop.nextitem",
	}))
	return nil
}
