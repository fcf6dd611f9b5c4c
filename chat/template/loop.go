package template

// forLoop is {% for %}.
type forLoop struct {
	line      int
	target    target
	over      expression
	filter    expression // nil: none
	recursive bool
	body      []statement
	otherwise []statement
}

// A loop is what a template knows of one while it runs.
type loop struct {
	of      *forLoop
	scope   *scope
	items   []any
	at      int // of the next item
	depth   int
	changed []any // nil: not asked yet
}

func (l *forLoop) run(r *run, s *scope) jump {
	over := r.eval(l.over, s)
	r.line = l.line
	return r.rounds(l, s, over, 0)
}

func (r *run) rounds(l *forLoop, s *scope, over any, depth int) jump {
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
	state := &loop{of: l, scope: s, items: items, depth: depth}
	rounds := 0
	for state.at < len(state.items) {
		inner := s.inner()
		one := state.items[state.at]
		state.at++
		rounds++
		r.step(1)
		inner.set("loop", state)
		l.target.assign(r, inner, one)
		if r.block(l.body, inner) == breakLoop {
			break
		}
	}
	if rounds == 0 {
		return r.block(l.otherwise, s.inner())
	}
	return onward
}

// again is loop(items) in a recursive loop.
func (l *loop) again(r *run, a arguments) any {
	if !l.of.recursive {
		r.fail("the loop must have the 'recursive' marker to be called")
	}
	if len(a.list) != 1 || a.named.Len() > 0 {
		r.fail("loop: found %d arguments, wanted the items", len(a.list)+a.named.Len())
	}
	return r.captured(func() { r.rounds(l.of, l.scope, a.list[0], l.depth+1) })
}

// attribute is loop.NAME.
func (l *loop) attribute(name string) any {
	index, length := int64(l.at), int64(len(l.items))
	switch name {
	case "index":
		return index
	case "index0":
		return index - 1
	case "revindex":
		return length - index + 1
	case "revindex0":
		return length - index
	case "first":
		return index == 1
	case "last":
		return index == length
	case "length":
		return length
	case "depth":
		return int64(l.depth + 1)
	case "depth0":
		return int64(l.depth)
	case "previtem":
		if index < 2 {
			return undefined{"there is no previous item"}
		}
		return l.items[index-2]
	case "nextitem":
		if index == length {
			return undefined{"there is no next item"}
		}
		return l.items[index]
	case "cycle":
		return &function{name: "cycle", call: func(r *run, a arguments) any {
			if len(a.list) == 0 {
				r.fail("no items for cycling given")
			}
			return a.list[(l.at-1)%len(a.list)]
		}}
	case "changed":
		return &function{name: "changed", call: func(r *run, a arguments) any {
			if l.changed != nil && r.equal(tuple(l.changed), tuple(a.list)) {
				return false
			}
			l.changed = append([]any{}, a.list...)
			return true
		}}
	}
	return undefined{"'loop' has no attribute '" + name + "'"}
}
