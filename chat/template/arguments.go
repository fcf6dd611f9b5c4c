package template

import (
	"fmt"
	"strconv"
	"strings"
)

// given is what stands in the parentheses of a call: values, *rest, name=value, **more.
type given struct {
	list, rest []expression
	names      []string
	named      []expression
	more       []expression
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
	name := func(key string, value any) {
		if _, twice := a.named.Get(key); twice {
			r.fail("got multiple values for keyword argument '%s'", key)
		}
		r.made(64 + len(key))
		a.named.Set(key, value)
	}
	for i, e := range g.named {
		name(g.names[i], r.eval(e, s))
	}
	for _, e := range g.more {
		o, ok := mapping(r.eval(e, s))
		if !ok {
			r.fail("found no dict after **, wanted one")
		}
		for i, key := range o.keys {
			word, ok := text(key)
			if !ok {
				r.fail("keywords must be strings, found '%s'", kind(key))
			}
			name(word, o.values[i])
		}
	}
	return a
}

// A builtin is a filter, test, method or function that takes arguments by place or name.
type builtin struct {
	takes []parameter
	rest  bool // any more, which come as they are
	do    func(r *run, a values, rest arguments) any
}

type parameter struct {
	name     string
	optional bool
	value    any // where it is not given
}

// values are arguments in the order of a builtin's parameters.
type values []any

// missing is the value of an argument that was not given and has no default.
type missing struct{}

// takes makes a builtin of a list of parameters: name, name=default, name? for one that may be missing, and * where any more may follow.
func takes(list string, do func(r *run, a values, rest arguments) any) *builtin {
	b := &builtin{do: do}
	for _, word := range strings.Fields(list) {
		if word == "*" {
			b.rest = true
			continue
		}
		name, value, optional := strings.Cut(word, "=")
		p := parameter{name: strings.TrimSuffix(name, "?"), optional: optional || strings.HasSuffix(name, "?"), value: missing{}}
		if optional {
			p.value = defaultOf(value)
		}
		b.takes = append(b.takes, p)
	}
	return b
}

func defaultOf(s string) any {
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return n
	}
	if f, ok := parseFloat(s); ok {
		return f
	}
	if value, ok := literals[s]; ok {
		return value
	}
	return strings.Trim(s, "'")
}

// run binds arguments to parameters and does what the builtin does.
func (b *builtin) run(r *run, called string, a arguments) any {
	bound, rest := make(values, len(b.takes)), arguments{named: &Object{}}
	if len(a.list) > len(b.takes) {
		if !b.rest {
			r.fail("%s: found %d arguments, wanted at most %d", called, len(a.list), len(b.takes))
		}
		a.list, rest.list = a.list[:len(b.takes)], a.list[len(b.takes):]
	}
	n := copy(bound, a.list)
	for i, key := range a.named.keys {
		place := -1
		for j, p := range b.takes {
			if p.name == key {
				place = j
			}
		}
		switch {
		case place < 0 && b.rest:
			rest.named.Set(fmt.Sprint(key), a.named.values[i])
		case place < 0:
			r.fail("%s: found the argument %q, which it does not take", called, key)
		case place < n:
			r.fail("%s: found the argument %q twice", called, key)
		default:
			bound[place] = a.named.values[i]
		}
	}
	for i := n; i < len(bound); i++ {
		p := b.takes[i]
		if _, there := a.named.Get(p.name); there {
			continue
		}
		if !p.optional {
			r.fail("%s: found no argument %q, wanted one", called, p.name)
		}
		bound[i] = p.value
	}
	return b.do(r, bound, rest)
}

// text is an argument that has to be a text.
func (a values) text(r *run, i int) string {
	s, ok := text(r.defined(a[i]))
	if !ok {
		r.fail("argument %d must be a str, found '%s'", i, kind(a[i]))
	}
	return s
}

// int is an argument that has to be an integer.
func (a values) int(r *run, i int) int {
	n := integer(r.defined(a[i]))
	if n == nil {
		r.fail("argument %d must be an int, found '%s'", i, kind(a[i]))
	}
	return clamped(n)
}

func (a values) missing(i int) bool {
	_, is := a[i].(missing)
	return is
}

// none says whether an argument is missing or None.
func (a values) none(i int) bool { return a.missing(i) || a[i] == nil }
