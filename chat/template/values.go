package template

import (
	"cmp"
	"math/big"
)

// The values of templates are those of Python: nil is None, then bool, int64 and *big.Int, float64, string, []any and *Object, which callers
// give. A template makes the following ones.
type (
	// A tuple is a list that prints with parentheses, and may be a key.
	tuple []any
	// A view is what keys, values and items of an object are: no list, so it has no element 0.
	view struct {
		name  string
		items []any
	}
	// An iterator can be gone through once. It is true even if nothing is in it.
	iterator struct {
		name  string
		items []any
	}
	// A namespace has attributes that a template sets.
	namespace struct{ Object }
	// A function is called with what stands in the parentheses.
	function struct {
		name string
		call func(r *run, a arguments) any
		held map[string]any // attributes
	}
	// undefined is what a name or attribute that does not exist is.
	undefined struct{ says string }
)

// kind is what Python calls the type of a value.
func kind(v any) string {
	switch v := v.(type) {
	case nil:
		return "NoneType"
	case bool:
		return "bool"
	case int64, *big.Int:
		return "int"
	case float64:
		return "float"
	case string, *encoded:
		return "str"
	case markup:
		return "Markup"
	case []any:
		return "list"
	case tuple:
		return "tuple"
	case *Object:
		return "dict"
	case view:
		return v.name
	case *iterator:
		return v.name
	case *namespace:
		return "Namespace"
	case *function:
		return "function"
	case *macro:
		return "Macro"
	case *loop:
		return "LoopContext"
	case undefined:
		return "Undefined"
	}
	return "object"
}

// called is what messages call a value.
func called(v any) string {
	if v == nil {
		return "None"
	}
	return "'" + kind(v) + " object'"
}

// truth is Python's.
func truth(v any) bool {
	switch v := plain(v).(type) {
	case nil, undefined:
		return false
	case bool:
		return v
	case int64:
		return v != 0
	case *big.Int:
		return v.Sign() != 0
	case float64:
		return v != 0
	case string:
		return v != ""
	case []any:
		return len(v) > 0
	case tuple:
		return len(v) > 0
	case *Object:
		return v.Len() > 0
	case view:
		return len(v.items) > 0
	case *loop:
		return len(v.items) > 0
	}
	return true
}

// defined fails for an undefined value, with what it says.
func (r *run) defined(v any) any {
	if u, ok := v.(undefined); ok {
		r.fail("%s", u.says)
	}
	return v
}

// items are the elements of what can be gone through: of an object its keys, of a text its characters.
func (r *run) items(v any) []any {
	all, ok := r.elements(v)
	if !ok {
		r.fail("'%s' object is not iterable", kind(v))
	}
	return all
}

func (r *run) elements(v any) ([]any, bool) {
	switch v := v.(type) {
	case []any:
		return v, true
	case tuple:
		return v, true
	case *Object:
		return v.keys, true
	case *encoded:
		return v.object.keys, true
	case view:
		return v.items, true
	case *iterator:
		left := v.items
		v.items = nil
		return left, true
	case string, markup:
		s, _ := text(v)
		r.made(16 * len(s))
		all := make([]any, 0, len(s))
		for _, c := range s {
			all = append(all, string(c))
		}
		return all, true
	case *loop:
		left := v.items[v.at:]
		v.at = len(v.items)
		pairs := make([]any, len(left))
		for i, item := range left {
			pairs[i] = tuple{item, v}
		}
		r.made(32 * len(left))
		return pairs, true
	case undefined:
		return nil, true
	}
	return nil, false
}

// sequence is a list or a tuple.
func sequence(v any) ([]any, bool) {
	switch v := v.(type) {
	case []any:
		return v, true
	case tuple:
		return v, true
	}
	return nil, false
}

// equal is Python's ==.
func (r *run) equal(a, b any) bool {
	r.deeper()
	defer r.shallower()
	r.step(1)
	a, b = plain(a), plain(b)
	if number(a) && number(b) {
		c, ok := compareNumbers(a, b)
		return ok && c == 0
	}
	switch a := a.(type) {
	case nil:
		return b == nil
	case string:
		t, ok := b.(string)
		if ok && len(a) == len(t) {
			r.step(len(a) / 64)
		}
		return ok && a == t
	case []any:
		l, ok := b.([]any)
		return ok && r.equalItems(a, l)
	case tuple:
		l, ok := b.(tuple)
		return ok && r.equalItems(a, l)
	case *Object:
		o, ok := b.(*Object)
		if !ok || a.Len() != o.Len() {
			return false
		}
		for hash, i := range a.places {
			other, ok := o.get(hash)
			if !ok || !r.equal(a.values[i], other) {
				return false
			}
		}
		return true
	case undefined:
		_, ok := b.(undefined)
		return ok
	case view:
		v, ok := b.(view)
		return ok && r.equalItems(a.items, v.items)
	}
	return same(a, b)
}

func (r *run) equalItems(a, b []any) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !r.equal(a[i], b[i]) {
			return false
		}
	}
	return true
}

// same is Python's `is`, as far as it says anything.
func same(a, b any) bool {
	switch x := a.(type) {
	case []any:
		y, ok := b.([]any)
		return ok && len(x) == len(y) && (len(x) == 0 || &x[0] == &y[0])
	case tuple:
		y, ok := b.(tuple)
		return ok && len(x) == len(y) && (len(x) == 0 || &x[0] == &y[0])
	case view, undefined:
		return false
	}
	switch b.(type) {
	case []any, tuple, view, undefined:
		return false
	}
	return a == b
}

// compare orders two values, or fails.
func (r *run) compare(op string, a, b any) int {
	r.deeper()
	defer r.shallower()
	r.step(1)
	r.defined(a)
	r.defined(b)
	if number(a) && number(b) {
		c, ok := compareNumbers(a, b)
		if !ok {
			return unordered
		}
		return c
	}
	s, first := text(a)
	t, second := text(b)
	if first && second {
		r.step(min(len(s), len(t)) / 64)
		return cmp.Compare(s, t) // UTF-8 has the order of code points
	}
	x, listed := sequence(a)
	y, too := sequence(b)
	if !listed || !too || kind(a) != kind(b) {
		r.fail("'%s' not supported between instances of '%s' and '%s'", op, kind(a), kind(b))
	}
	for i := range min(len(x), len(y)) {
		if !r.equal(x[i], y[i]) {
			return r.compare(op, x[i], y[i])
		}
	}
	return cmp.Compare(len(x), len(y))
}

// unordered is how NaN compares.
const unordered = 2

// contains is Python's `in`.
func (r *run) contains(all, one any) bool {
	switch all := plain(all).(type) {
	case string:
		part, ok := text(one)
		if !ok {
			r.defined(one)
			r.fail("'in <string>' requires string as left operand, not %s", kind(one))
		}
		return r.find(all, part) >= 0
	case *Object:
		_, there := all.get(r.hashed(one))
		return there
	}
	list, ok := r.elements(all)
	if !ok {
		r.fail("argument of type '%s' is not iterable", kind(all))
	}
	for _, item := range list {
		if r.equal(item, one) {
			return true
		}
	}
	return false
}

// Kind is what a value is, as JSON has it.
func Kind(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "true or false"
	case string, markup, *encoded:
		return "a text"
	case []any:
		return "a list"
	case *Object:
		return "an object"
	}
	return "a number"
}
