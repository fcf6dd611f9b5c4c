package template

import (
	"slices"
	"strings"
)

// given is what stands in the parentheses of a call: values, *rest, name=value.
type given struct {
	list, rest []expression
	names      []string
	named      []expression
}

// arguments are their values.
type arguments struct {
	list  []any
	named *Object
}

func (g *given) eval(r *run, s *scope) arguments {
	a := arguments{r.all(g.list, s), &Object{}}
	for _, e := range g.rest {
		more := r.items(r.eval(e, s))
		r.made(16 * len(more))
		a.list = append(a.list, more...)
	}
	for i, e := range g.named {
		a.named.Set(g.names[i], r.eval(e, s))
	}
	return a
}

// A builtin is a filter, test, method or function, which errors call by its name. A filter, test or method has its
// value as the first argument.
type builtin func(r *run, name string, a arguments) any

// values are arguments in the order of a builtin's names for them.
type values []any

// takes makes a builtin of the names of its arguments, which end in ? where one may be missing.
func takes(names string, do func(r *run, a values) any) builtin {
	all, least := strings.Fields(names), 0
	for i, name := range all {
		optional := false
		if all[i], optional = strings.CutSuffix(name, "?"); !optional {
			least = i + 1
		}
	}
	return func(r *run, called string, a arguments) any {
		if len(a.list) > len(all) {
			r.fail("%s: found %d arguments, wanted at most %d", called, len(a.list), len(all))
		}
		bound := slices.Repeat(values{missing{}}, len(all))
		copy(bound, a.list)
		for i, key := range a.named.Keys() {
			switch place := slices.Index(all, key); {
			case place < 0:
				r.fail("%s: found the argument %q, which it does not take", called, key)
			case place < len(a.list):
				r.fail("%s: found the argument %q twice", called, key)
			default:
				bound[place] = a.named.values[i]
			}
		}
		if i := slices.Index(bound[:least], any(missing{})); i >= 0 {
			r.fail("%s: found no argument %q, wanted one", called, all[i])
		}
		return do(r, bound)
	}
}

// or is an argument, or a value where it is missing.
func (a values) or(i int, value any) any {
	if _, is := a[i].(missing); is {
		return value
	}
	return a[i]
}

// none says whether an argument is missing or None.
func (a values) none(i int) bool { return a.or(i, nil) == nil }

// text is an argument that has to be a text.
func (a values) text(r *run, i int) string {
	s, ok := text(r.defined(a[i]))
	if !ok {
		r.fail("argument %d must be a str, found '%s'", i, kind(a[i]))
	}
	return s
}

// int is an argument that has to be an integer.
func (a values) int(r *run, i int) int64 {
	n, ok := integer(r.defined(a[i]))
	if !ok {
		r.fail("argument %d must be an int, found '%s'", i, kind(a[i]))
	}
	return n
}

// count is how many times something is done at most: an argument, or -1 for any number.
func (a values) count(r *run, i int) int {
	if a.none(i) {
		return -1
	}
	return int(max(-1, min(a.int(r, i), 1<<40)))
}
