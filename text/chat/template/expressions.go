package template

import (
	"slices"
	"strings"
)

// An expression has a value. All but calls are closures, made as they are read (grammar.go).
type expression interface{ eval(r *run, s *scope) any }

type closure func(r *run, s *scope) any

func (c closure) eval(r *run, s *scope) any { return c(r, s) }

// call is one of a value, which a call block gives a caller.
type call struct {
	line     int
	function expression
	given    given
	caller   *macro
}

// eval is the value of an expression, which is a step.
func (r *run) eval(e expression, s *scope) any {
	r.step(1)
	return e.eval(r, s)
}

func (r *run) all(list []expression, s *scope) []any {
	r.made(16 * len(list))
	values := make([]any, len(list))
	for i, e := range list {
		values[i] = r.eval(e, s)
	}
	return values
}

func constant(value any) expression { return closure(func(*run, *scope) any { return value }) }

func variable(t token) expression {
	return closure(func(r *run, s *scope) any {
		r.line = t.line
		if value, ok := s.get(t.text); ok {
			return value
		}
		if g, ok := globals[t.text]; ok {
			return g
		}
		return undefined{"'" + t.text + "' is undefined"}
	})
}

// after is what is made of the value of an expression.
func after(line int, e expression, do func(r *run, of any) any) expression {
	return closure(func(r *run, s *scope) any {
		of := r.eval(e, s)
		r.line = line
		return do(r, of)
	})
}

func not(of expression) expression {
	return closure(func(r *run, s *scope) any { return !truth(r.eval(of, s)) })
}

// negative is a number behind a minus.
func negative(line int, of expression) expression {
	return after(line, of, func(r *run, v any) any {
		if !number(r.defined(v)) {
			r.fail("bad operand type for unary -: '%s'", kind(v))
		}
		return r.arithmetic("*", v, int64(-1))
	})
}

func binary(line int, op string, left, right expression) expression {
	return closure(func(r *run, s *scope) any {
		a := r.eval(left, s)
		if op == "and" && !truth(a) || op == "or" && truth(a) {
			return a
		}
		b := r.eval(right, s)
		r.line = line
		if op == "and" || op == "or" {
			return b
		}
		return r.operate(op, a, b)
	})
}

// of is a filter or test of an expression.
func (b builtin) of(name string, line int, e expression, g given) closure {
	return func(r *run, s *scope) any {
		of := r.eval(e, s)
		a := g.eval(r, s)
		r.line = line
		a.list = append([]any{of}, a.list...)
		return b(r, name, a)
	}
}

// bound is a part of a slice; nil where there is none.
func (r *run) bound(e expression, s *scope) *int64 {
	if e == nil {
		return nil
	}
	value := r.eval(e, s)
	if value == nil {
		return nil
	}
	n, ok := integer(r.defined(value))
	if !ok {
		r.fail("slice indices must be integers or None, found '%s'", kind(value))
	}
	return &n
}

// operate is an operator of two values.
func (r *run) operate(op string, a, b any) any {
	r.defined(a)
	r.defined(b)
	if number(a) && number(b) {
		return r.arithmetic(op, a, b)
	}
	if _, ok := integer(a); ok && op == "*" {
		a, b = b, a
	}
	s, left := text(a)
	_, right := text(b)
	x, listed := sequence(a)
	y, too := sequence(b)
	switch times, ok := integer(b); {
	case op == "*" && left && ok:
		return as(a, strings.Repeat(s, r.times(len(s), times)))
	case op == "+" && left && right:
		return r.added(a, b)
	case op == "+" && left:
		r.fail(`can only concatenate str (not "%s") to str`, kind(b))
	case op == "+" && listed && too && kind(a) == kind(b):
		r.made(16 * (len(x) + len(y)))
		return like(a, slices.Concat(x, y))
	}
	r.fail("unsupported operand type(s) for %s: '%s' and '%s'", op, kind(a), kind(b))
	return nil
}

func (r *run) holds(op string, a, b any) bool {
	switch op {
	case "==":
		return r.equal(a, b)
	case "!=":
		return !r.equal(a, b)
	case "in":
		return r.contains(b, a)
	case "not in":
		return !r.contains(b, a)
	case "<":
		return r.compare(op, a, b) < 0
	case "<=":
		return r.compare(op, a, b) <= 0
	case ">":
		return r.compare(op, a, b) > 0
	}
	return r.compare(op, a, b) >= 0
}

func (c *call) eval(r *run, s *scope) any {
	f := r.eval(c.function, s)
	a := c.given.eval(r, s)
	r.line = c.line
	if c.caller != nil {
		a.named.Set("caller", c.caller)
	}
	var value any
	switch f := r.defined(f).(type) {
	case function:
		value = f(r, a)
	case *macro:
		value = f.call(r, a)
	default:
		r.fail("'%s' object is not callable", kind(f))
	}
	r.line = c.line
	return value
}
