package template

import (
	"cmp"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
)

// The values of templates are those of Python: nil is None, then bool, int64, float64, string, []any and *Object, which
// callers give, and json.Number, an integer of more than 64 bits, which is written as it stands and not reckoned with.
// A template makes the following ones.
type (
	// A tuple is a list that prints with parentheses.
	tuple []any
	// A view is the keys, values or items of an object: no list, so it has no element 0.
	view struct {
		name  string
		items []any
	}
	// A generator can be gone through once. It is true even if nothing is in it.
	generator struct{ items []any }
	// A namespace has attributes that a template sets.
	namespace struct{ Object }
	// A function is called with what stands in the parentheses.
	function func(r *run, a arguments) any
	// undefined is the value of a name or attribute that does not exist.
	undefined struct{ says string }
	// missing is the value of an argument that was not given.
	missing struct{}
)

// kinds are Python's names for types.
var kinds = map[reflect.Type]string{
	nil:                            "NoneType",
	reflect.TypeFor[bool]():        "bool",
	reflect.TypeFor[int64]():       "int",
	reflect.TypeFor[json.Number](): "int of more than 64 bits",
	reflect.TypeFor[float64]():     "float",
	reflect.TypeFor[string]():      "str",
	reflect.TypeFor[*encoded]():    "str",
	reflect.TypeFor[markup]():      "Markup",
	reflect.TypeFor[[]any]():       "list",
	reflect.TypeFor[tuple]():       "tuple",
	reflect.TypeFor[*Object]():     "dict",
	reflect.TypeFor[*generator]():  "generator",
	reflect.TypeFor[*namespace]():  "Namespace",
	reflect.TypeFor[function]():    "function",
	reflect.TypeFor[*macro]():      "Macro",
	reflect.TypeFor[*loop]():       "LoopContext",
	reflect.TypeFor[undefined]():   "Undefined",
}

// kind is the type of a value.
func kind(v any) string {
	if v, ok := v.(view); ok {
		return v.name
	}
	return kinds[reflect.TypeOf(v)]
}

// called is how messages call a value.
func called(v any) string {
	if v == nil {
		return "None"
	}
	return "'" + kind(v) + " object'"
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

// truth is Python's.
func truth(v any) bool {
	switch v := plain(v).(type) {
	case nil, undefined, missing:
		return false
	case string:
		return v != ""
	case bool, int64, float64:
		return float(v) != 0
	}
	n, has := elements(v)
	return n > 0 || !has
}

// elements is the number of those that a list, tuple, object or view has.
func elements(v any) (n int, has bool) {
	switch v := v.(type) {
	case *Object:
		return v.Len(), true
	case view:
		return len(v.items), true
	}
	list, has := sequence(v)
	return len(list), has
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
	case *Object:
		return v.keys, true
	case *encoded:
		return v.object.keys, true
	case view:
		return v.items, true
	case *generator:
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
	case undefined:
		return nil, true
	}
	return sequence(v)
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

// like makes a list of a's kind.
func like(a any, items []any) any {
	if _, ok := a.(tuple); ok {
		return tuple(items)
	}
	return items
}

// equal is Python's ==.
func (r *run) equal(a, b any) bool {
	r.deeper()
	defer r.shallower()
	r.step(1)
	a, b = plain(a), plain(b)
	if number(a) && number(b) {
		return compareNumbers(a, b) == 0
	}
	switch a := a.(type) {
	case nil:
		return b == nil
	case json.Number:
		return a == b
	case string:
		t, ok := b.(string)
		if ok && len(a) == len(t) {
			r.step(len(a) / 64)
		}
		return ok && a == t
	case []any, tuple:
		x, _ := sequence(a)
		y, ok := sequence(b)
		return ok && kind(a) == kind(b) && slices.EqualFunc(x, y, r.equal)
	case *Object:
		o, ok := b.(*Object)
		if !ok || a.Len() != o.Len() {
			return false
		}
		for key, i := range a.places {
			other, ok := o.get(key)
			if !ok || !r.equal(a.values[i], other) {
				return false
			}
		}
		return true
	case undefined:
		_, ok := b.(undefined)
		return ok
	}
	return false
}

// compare orders two numbers or two texts, or fails.
func (r *run) compare(op string, a, b any) int {
	r.step(1)
	r.defined(a)
	r.defined(b)
	if number(a) && number(b) {
		return compareNumbers(a, b)
	}
	s, first := text(a)
	t, second := text(b)
	if !first || !second {
		r.fail("'%s' not supported between instances of '%s' and '%s'", op, kind(a), kind(b))
	}
	r.step(min(len(s), len(t)) / 64)
	return cmp.Compare(s, t) // UTF-8 has the order of code points
}

// contains is Python's `in`.
func (r *run) contains(all, one any) bool {
	switch all := plain(all).(type) {
	case string:
		part, ok := text(one)
		if !ok {
			r.defined(one)
			r.fail("'in <string>' requires string as left operand, not %s", kind(one))
		}
		r.step(len(all) / 64)
		return strings.Contains(all, part)
	case *Object:
		_, there := all.get(r.hashable(one))
		return there
	}
	list, ok := r.elements(all)
	if !ok {
		r.fail("argument of type '%s' is not iterable", kind(all))
	}
	return slices.ContainsFunc(list, func(item any) bool { return r.equal(item, one) })
}
