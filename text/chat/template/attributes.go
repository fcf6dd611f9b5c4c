package template

import (
	"maps"
	"slices"
	"strings"

	"gputrain/internal/suggest"
)

// attribute is of.NAME: what Python calls an attribute, else the element of that name. Of an encoded object the element
// comes first where nothing is called: a method of its text would be printed.
func (r *run) attribute(of any, name string, method bool) any {
	r.defined(of)
	o, _ := mapping(of)
	value, there := o.Get(name)
	if _, ok := of.(*encoded); ok && there && !method {
		return value
	}
	if value, ok := r.own(of, name); ok {
		return value
	}
	if there {
		return value
	}
	says := called(of) + " has no attribute '" + name + "'"
	if _, ok := text(of); ok {
		says += suggest.DidYouMean(name, slices.Sorted(maps.Keys(textMethods)))
	}
	return undefined{says}
}

// item is of[key]: the element, else the attribute of that name.
func (r *run) item(of, key any) any {
	r.defined(of)
	if o, ok := mapping(of); ok {
		if value, ok := o.get(plain(key)); ok {
			return value
		}
	}
	if i, ok := integer(key); ok {
		if value, ok := r.at(of, i); ok {
			return value
		}
	}
	if name, ok := text(key); ok {
		if value, ok := r.own(of, name); ok {
			return value
		}
	}
	if _, ok := key.(undefined); ok {
		return undefined{called(of) + " has no element that is undefined"}
	}
	return undefined{called(of) + " has no element " + r.repr(key)}
}

// at is the element of a text or list, counted from its end where the number is negative.
func (r *run) at(of any, i int64) (any, bool) {
	s, isText := text(of)
	list, listed := sequence(of)
	length := int64(len(list))
	if isText {
		length = int64(r.length(s))
	}
	if i < 0 {
		i += length
	}
	switch {
	case i < 0 || i >= length:
		return nil, false
	case listed:
		return list[i], true
	}
	at := place(s, int(i))
	return as(of, s[at:at+place(s[at:], 1)]), true
}

// own is what Python calls an attribute of a value. Names with an underscore in front are nobody's.
func (r *run) own(of any, name string) (any, bool) {
	if strings.HasPrefix(name, "_") {
		return nil, false
	}
	methods, self := textMethods, of
	switch of := of.(type) {
	case *namespace:
		return of.Get(name)
	case *loop:
		return of.attribute(r, name), true
	case *Object:
		methods = objectMethods
	case *encoded:
		if self = of.text; textMethods[name] == nil {
			methods, self = objectMethods, of.object
		}
	case string, markup:
	default:
		return nil, false
	}
	m, ok := methods[name]
	return function(func(r *run, a arguments) any {
		a.list = append([]any{self}, a.list...)
		return m(r, name, a)
	}), ok
}

// slice is of[begin:end:step].
func (r *run) slice(of any, bounds [3]*int64) any {
	step := int64(1)
	if bounds[2] != nil {
		step = *bounds[2]
	}
	if step == 0 {
		r.fail("slice step cannot be zero")
	}
	if s, ok := text(r.defined(of)); ok {
		r.made(4 * len(s))
		return as(of, string(every([]rune(s), bounds, step)))
	}
	list, ok := sequence(of)
	if !ok {
		return undefined{called(of) + " cannot be sliced"}
	}
	r.made(16 * len(list))
	return like(of, every(list, bounds, step))
}

// every is the elements of a slice.
func every[T any](all []T, bounds [3]*int64, step int64) []T {
	least, most := int64(0), int64(len(all))
	if step < 0 {
		least, most = -1, most-1
	}
	at := func(bound *int64, or int64) int64 {
		if bound == nil {
			return or
		}
		i := *bound
		if i < 0 {
			i += int64(len(all))
		}
		return min(max(i, least), most)
	}
	some := []T{}
	if step < 0 {
		for i, end := at(bounds[0], most), at(bounds[1], least); i > end; i += max(step, -most-1) {
			some = append(some, all[i])
		}
		return some
	}
	for i, end := at(bounds[0], least), at(bounds[1], most); i < end; i += min(step, most) {
		some = append(some, all[i])
	}
	return some
}
