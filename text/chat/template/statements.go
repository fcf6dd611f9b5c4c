package template

import "strings"

// A statement writes text, and may end a round of a loop.
type statement func(r *run, s *scope) jump

// jump is what goes on after a statement: the next one, or what a loop does after break or continue.
type jump string

const (
	onward     jump = ""
	breakLoop  jump = "break"
	nextOfLoop jump = "continue"
)

func (r *run) block(body []statement, s *scope) jump {
	for _, one := range body {
		r.step(1)
		if j := one(r, s); j != onward {
			return j
		}
	}
	return onward
}

// does is a statement that goes on to the next.
func does(do func(r *run, s *scope)) statement {
	return func(r *run, s *scope) jump {
		do(r, s)
		return onward
	}
}

func output(line int, what expression) statement {
	return does(func(r *run, s *scope) {
		value := r.eval(what, s)
		r.line = line
		r.write(r.str(value))
	})
}

func generation(line int, body []statement) statement {
	return does(func(r *run, s *scope) {
		begin, here := r.written(), r.out.Len()
		r.block(body, s.inner())
		part := generated{line: line, begin: begin, end: r.written(), inside: len(r.outer) > 0}
		if part.inside {
			part.text = strings.Clone(r.out.String()[here:])
			r.made(len(part.text))
		}
		r.generated = append(r.generated, part)
	})
}

// A loop is what a template knows of one while it runs.
type loop struct {
	items []any
	at    int // of the item
}

// filtered are the items of a loop for which a condition holds.
func (r *run) filtered(items []any, to target, condition expression, s *scope) (kept []any) {
	for _, one := range items {
		inner := s.inner()
		to.assign(r, inner, one)
		if truth(r.eval(condition, inner)) {
			r.made(16)
			kept = append(kept, one)
		}
	}
	return kept
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
