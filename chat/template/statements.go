package template

import "strings"

// A statement writes text, and may end a round of a loop.
type statement interface {
	run(r *run, s *scope) jump
}

// jump is what goes on after a statement: the next one, or what a loop does after break or continue.
type jump string

const (
	onward     jump = ""
	breakLoop  jump = "break"
	nextOfLoop jump = "continue"
)

type (
	text   struct{ text string }
	output struct {
		line int
		what expression
	}
	condition struct {
		tests     []expression
		bodies    [][]statement
		otherwise []statement
	}
	assignment struct {
		line  int
		to    target
		value expression
	}
	blockAssignment struct {
		line    int
		to      target
		filters expression
		body    []statement
	}
	filterBlock struct {
		line    int
		filters expression
		body    []statement
	}
	with struct {
		targets []target
		values  []expression
		body    []statement
	}
	generation struct {
		line int
		body []statement
	}
)

func (r *run) block(body []statement, s *scope) jump {
	for _, one := range body {
		r.step(1)
		if j := one.run(r, s); j != onward {
			return j
		}
	}
	return onward
}

func (t *text) run(r *run, _ *scope) jump {
	r.write(t.text)
	return onward
}

func (o *output) run(r *run, s *scope) jump {
	value := r.eval(o.what, s)
	r.line = o.line
	r.write(r.str(value))
	return onward
}

func (j jump) run(*run, *scope) jump { return j }

func (c *condition) run(r *run, s *scope) jump {
	for i, test := range c.tests {
		if truth(r.eval(test, s)) {
			return r.block(c.bodies[i], s)
		}
	}
	return r.block(c.otherwise, s)
}

func (a *assignment) run(r *run, s *scope) jump {
	value := r.eval(a.value, s)
	r.line = a.line
	r.made(32)
	a.to.assign(r, s, value)
	return onward
}

func (a *blockAssignment) run(r *run, s *scope) jump {
	value := r.through(a.filters, a.body, s)
	r.line = a.line
	a.to.assign(r, s, value)
	return onward
}

func (f *filterBlock) run(r *run, s *scope) jump {
	value := r.through(f.filters, f.body, s)
	r.line = f.line
	r.write(r.str(value))
	return onward
}

// through is what a block writes, after some filters.
func (r *run) through(filters expression, body []statement, s *scope) any {
	written := r.captured(func() { r.block(body, s.inner()) })
	return r.eval(filters, &scope{around: s, values: map[string]any{heldName: written}})
}

func (w *with) run(r *run, s *scope) jump {
	inner := s.inner()
	for i, value := range r.all(w.values, s) {
		w.targets[i].assign(r, inner, value)
	}
	return r.block(w.body, inner)
}

func (g *generation) run(r *run, s *scope) jump {
	begin, here := r.written(), r.out.Len()
	r.block(g.body, s.inner())
	part := generated{line: g.line, begin: begin, end: r.written(), inside: len(r.outer) > 0}
	if part.inside {
		part.text = strings.Clone(r.out.String()[here:])
		r.made(len(part.text))
	}
	r.generated = append(r.generated, part)
	return onward
}
