package template

import (
	"math/big"
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

// held is what the block of a set or filter wrote.
type held struct{}

func (held) eval(_ *run, s *scope) any {
	written, _ := s.get(heldName)
	return written
}

// heldName is no name that a template can have.
const heldName = "the block"

// eval is the value of an expression, which is a step.
func (r *run) eval(e expression, s *scope) any {
	r.step(1)
	return e.eval(r, s)
}

func (r *run) all(list []expression, s *scope) []any {
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

func tupleOf(items []expression) expression {
	return closure(func(r *run, s *scope) any { return tuple(r.listed(items, s)) })
}

func (r *run) listed(items []expression, s *scope) []any {
	r.made(16 * len(items))
	return r.all(items, s)
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

func signed(sign token, of expression) expression {
	return closure(func(r *run, s *scope) any {
		value := r.defined(r.eval(of, s))
		r.line = sign.line
		if !number(value) {
			r.fail("bad operand type for unary %s: '%s'", sign.text, kind(value))
		}
		if sign.text == "-" {
			return r.arithmetic("*", value, int64(-1))
		}
		return r.arithmetic("+", value, int64(0))
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
func (b *builtin) of(name string, line int, e expression, g given) closure {
	return func(r *run, s *scope) any {
		of := r.eval(e, s)
		a := g.eval(r, s)
		r.line = line
		a.list = append([]any{of}, a.list...)
		return b.run(r, name, a)
	}
}

// bound is a part of a slice; nil where there is none.
func (r *run) bound(e expression, s *scope, line int) *int {
	if e == nil {
		return nil
	}
	value := r.eval(e, s)
	r.line = line
	if value == nil {
		return nil
	}
	n := integer(r.defined(value))
	if n == nil {
		r.fail("slice indices must be integers or None, found '%s'", kind(value))
	}
	bound := clamped(n)
	return &bound
}

// clamped is an integer, or one that is far beyond the end of anything.
func clamped(n *big.Int) int {
	const far = 1 << 40
	switch {
	case n.IsInt64() && n.Int64() > -far && n.Int64() < far:
		return int(n.Int64())
	case n.Sign() < 0:
		return -far
	}
	return far
}

// operate is an operator of two values.
func (r *run) operate(op string, a, b any) any {
	if _, ok := text(a); ok && op == "%" {
		return r.percent(a, b)
	}
	r.defined(a)
	r.defined(b)
	if number(a) && number(b) {
		return r.arithmetic(op, a, b)
	}
	switch op {
	case "+":
		if _, ok := text(a); ok {
			if _, ok := text(b); ok {
				return r.added(a, b)
			}
			r.fail(`can only concatenate str (not "%s") to str`, kind(b))
		}
		x, listed := sequence(a)
		y, too := sequence(b)
		if listed && too && kind(a) == kind(b) {
			r.made(16 * (len(x) + len(y)))
			return like(a, slices.Concat(x, y))
		}
	case "*":
		if integer(a) != nil {
			a, b = b, a
		}
		if by := integer(b); by != nil {
			if again, ok := r.repeat(a, int64(clamped(by))); ok {
				return again
			}
		}
	}
	r.fail("unsupported operand type(s) for %s: '%s' and '%s'", op, kind(a), kind(b))
	return nil
}

// like makes a list of a's kind.
func like(a any, items []any) any {
	if _, ok := a.(tuple); ok {
		return tuple(items)
	}
	return items
}

func (r *run) repeat(a any, by int64) (any, bool) {
	if s, ok := text(a); ok {
		return as(a, strings.Repeat(s, r.times(len(s), by))), true
	}
	list, ok := sequence(a)
	if !ok {
		return nil, false
	}
	return like(a, slices.Repeat(list, r.times(16*len(list), by))), true
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
	}
	order := r.compare(op, a, b)
	switch op {
	case "<":
		return order == -1
	case "<=":
		return order == -1 || order == 0
	case ">":
		return order == 1
	}
	return order == 1 || order == 0
}

func (c *call) eval(r *run, s *scope) any {
	f := r.eval(c.function, s)
	a := c.given.eval(r, s)
	r.line = c.line
	if c.caller != nil {
		a.named.Set("caller", c.caller)
	}
	value := r.call(f, a)
	r.line = c.line
	return value
}

// call calls a value.
func (r *run) call(f any, a arguments) any {
	switch f := r.defined(f).(type) {
	case *function:
		return f.call(r, a)
	case *macro:
		return f.call(r, a)
	case *loop:
		return f.again(r, a)
	}
	r.fail("'%s' object is not callable", kind(f))
	return nil
}
