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
