package template

import (
	"math/big"
	"slices"
	"strings"
)

// An expression has a value.
type expression interface{ eval(r *run, s *scope) any }

type (
	constant struct{ value any }
	variable struct {
		line int
		name string
	}
	listing struct {
		line  int
		items []expression
		tuple bool
	}
	objectLiteral struct {
		line         int
		keys, values []expression
	}
	attribute struct {
		line int
		of   expression
		name string
	}
	item struct {
		line  int
		of    expression
		place expression
	}
	slicing struct {
		line              int
		begin, end, steps expression // nil: not given
	}
	ternary struct {
		line                  int
		test, then, otherwise expression
	}
	not struct {
		line int
		of   expression
	}
	sign struct {
		line     int
		operator string
		of       expression
	}
	binary struct {
		line        int
		operator    string
		left, right expression
	}
	concatenation struct{ parts []expression }
	comparison    struct {
		line      int
		first     expression
		operators []string
		operands  []expression
	}
	filtered struct {
		line   int
		of     expression
		name   string
		filter *builtin
		given  given
	}
	tested struct {
		line  int
		of    expression
		name  string
		test  *builtin
		given given
	}
	call struct {
		line     int
		function expression
		given    given
		caller   *macro // of a call block
	}
	// held is what the block of a set or filter wrote.
	held struct{}
)

// eval is the value of an expression, which is a step.
func (r *run) eval(e expression, s *scope) any {
	r.step(1)
	return e.eval(r, s)
}

func (c *constant) eval(*run, *scope) any { return c.value }

func (held) eval(_ *run, s *scope) any {
	written, _ := s.get(heldName)
	return written
}

// heldName is no name that a template can have.
const heldName = "the block"

func (v *variable) eval(r *run, s *scope) any {
	r.line = v.line
	if value, ok := s.get(v.name); ok {
		return value
	}
	if g, ok := globals[v.name]; ok {
		return g
	}
	return undefined{"'" + v.name + "' is undefined"}
}

func (r *run) all(list []expression, s *scope) []any {
	values := make([]any, len(list))
	for i, e := range list {
		values[i] = r.eval(e, s)
	}
	return values
}

func (l *listing) eval(r *run, s *scope) any {
	r.made(16 * len(l.items))
	all := r.all(l.items, s)
	if l.tuple {
		return tuple(all)
	}
	return all
}

func (o *objectLiteral) eval(r *run, s *scope) any {
	made := &Object{}
	for i := range o.keys {
		key, value := r.eval(o.keys[i], s), r.eval(o.values[i], s)
		r.line = o.line
		hash, ok := r.hash(key)
		if !ok {
			r.fail("unhashable type: '%s'", kind(key))
		}
		r.made(64 + len(hash))
		made.set(key, hash, value)
	}
	return made
}

func (a *attribute) eval(r *run, s *scope) any {
	of := r.eval(a.of, s)
	r.line = a.line
	return r.attribute(of, a.name)
}

func (i *item) eval(r *run, s *scope) any {
	of := r.eval(i.of, s)
	if cut, ok := i.place.(*slicing); ok {
		bounds := cut.bounds(r, s)
		r.line = i.line
		return r.slice(of, bounds)
	}
	place := r.eval(i.place, s)
	r.line = i.line
	return r.item(of, place)
}

func (c *slicing) eval(r *run, _ *scope) any {
	r.line = c.line
	r.fail("found a slice, wanted a value")
	return nil
}

func (c *slicing) bounds(r *run, s *scope) (bounds [3]*int) {
	for i, e := range []expression{c.begin, c.end, c.steps} {
		if e == nil {
			continue
		}
		value := r.eval(e, s)
		r.line = c.line
		if value == nil {
			continue
		}
		r.defined(value)
		n := integer(value)
		if n == nil {
			r.fail("slice indices must be integers or None, found '%s'", kind(value))
		}
		bound := clamped(n)
		bounds[i] = &bound
	}
	return bounds
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

func (t *ternary) eval(r *run, s *scope) any {
	switch {
	case truth(r.eval(t.test, s)):
		return r.eval(t.then, s)
	case t.otherwise != nil:
		return r.eval(t.otherwise, s)
	}
	return undefined{"the inline if-expression evaluated to false and no else section was defined"}
}

func (n *not) eval(r *run, s *scope) any { return !truth(r.eval(n.of, s)) }

func (g *sign) eval(r *run, s *scope) any {
	value := r.defined(r.eval(g.of, s))
	r.line = g.line
	if !number(value) {
		r.fail("bad operand type for unary %s: '%s'", g.operator, kind(value))
	}
	if g.operator == "-" {
		return r.arithmetic("*", value, int64(-1))
	}
	return r.arithmetic("+", value, int64(0))
}

func (b *binary) eval(r *run, s *scope) any {
	left := r.eval(b.left, s)
	switch {
	case b.operator == "and" && !truth(left), b.operator == "or" && truth(left):
		return left
	}
	right := r.eval(b.right, s)
	r.line = b.line
	if b.operator == "and" || b.operator == "or" {
		return right
	}
	return r.operate(b.operator, left, right)
}

// operate is an operator of two values.
func (r *run) operate(op string, a, b any) any {
	if text, ok := a.(string); ok && op == "%" {
		return r.percent(text, b)
	}
	r.defined(a)
	r.defined(b)
	if number(a) && number(b) {
		return r.arithmetic(op, a, b)
	}
	switch op {
	case "+":
		if s, ok := a.(string); ok {
			if t, ok := b.(string); ok {
				r.made(len(s) + len(t))
				return s + t
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
	if s, ok := a.(string); ok {
		return strings.Repeat(s, r.times(len(s), by)), true
	}
	list, ok := sequence(a)
	if !ok {
		return nil, false
	}
	return like(a, slices.Repeat(list, r.times(16*len(list), by))), true
}

func (c *concatenation) eval(r *run, s *scope) any {
	parts := make([]string, len(c.parts))
	for i, p := range c.parts {
		parts[i] = r.str(r.eval(p, s))
	}
	return r.join(parts, "")
}

func (c *comparison) eval(r *run, s *scope) any {
	left := r.eval(c.first, s)
	for i, op := range c.operators {
		right := r.eval(c.operands[i], s)
		r.line = c.line
		if !r.holds(op, left, right) {
			return false
		}
		left = right
	}
	return true
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

func (f *filtered) eval(r *run, s *scope) any {
	of := r.eval(f.of, s)
	a := f.given.eval(r, s)
	r.line = f.line
	a.list = append([]any{of}, a.list...)
	return f.filter.run(r, f.name, a)
}

func (t *tested) eval(r *run, s *scope) any {
	of := r.eval(t.of, s)
	a := t.given.eval(r, s)
	r.line = t.line
	a.list = append([]any{of}, a.list...)
	return truth(t.test.run(r, t.name, a))
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
