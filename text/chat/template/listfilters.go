package template

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"gputrain/internal/suggest"
)

// unknown says that a filter, test or the like is none of some.
func unknown(what, name string, known []string) string {
	slices.Sort(known)
	return "found the " + what + " " + strconv.Quote(name) + ", wanted one that is known" + suggest.DidYouMean(name, known)
}

// getter takes an attribute of an item, "a.b.0" one after the other; None is the item itself. A default stands for what
// is undefined.
func (r *run) getter(attribute, or any) func(item any) any {
	var path []any
	if s, ok := text(attribute); ok {
		for _, part := range strings.Split(s, ".") {
			if n, err := strconv.ParseUint(part, 10, 63); err == nil {
				path = append(path, int64(n))
			} else {
				path = append(path, part)
			}
		}
	} else if attribute != nil {
		path = []any{attribute}
	}
	return func(item any) any {
		r.step(1 + len(path))
		for _, part := range path {
			item = r.item(item, part)
			if _, ok := item.(undefined); ok && or != nil {
				item = or
			}
		}
		return item
	}
}

// key is getter, with letters made small unless case counts.
func (r *run) key(attribute, caseSensitive any) func(item any) any {
	get := r.getter(attribute, nil)
	return func(item any) any {
		item = get(item)
		if s, ok := text(item); ok && !truth(caseSensitive) {
			return r.lower(s)
		}
		return item
	}
}

// mapped makes something of each item: what a filter does, or an attribute.
func mapped(r *run, _ string, a arguments) any {
	of, rest := a.list[0], arguments{a.list[1:], a.named}
	if !truth(of) { // None too, which is nothing to go through elsewhere
		return &generator{}
	}
	attribute, _ := a.named.Get("attribute")
	or, _ := a.named.Get("default")
	do := r.getter(attribute, or)
	if len(rest.list) > 0 {
		do = r.by("filter", filters, rest)
	} else if attribute == nil {
		r.fail("map requires a filter argument")
	}
	items := r.copied(of)
	for i, item := range items {
		items[i] = do(item)
	}
	return &generator{items}
}

// by is what a filter or test that is named makes of an item.
func (r *run) by(what string, all map[string]builtin, a arguments) func(item any) any {
	name := r.str(a.list[0])
	do, ok := all[name]
	if !ok {
		r.fail("%s", unknown(what, name, slices.Collect(maps.Keys(all))))
	}
	return func(item any) any { return do(r, name, arguments{append([]any{item}, a.list[1:]...), a.named}) }
}

// selected keeps the items for which a test, of an attribute or of themselves, is as wanted.
func selected(wanted, byAttribute bool) builtin {
	return func(r *run, name string, a arguments) any {
		of, rest := a.list[0], arguments{a.list[1:], a.named}
		if !truth(of) {
			return &generator{}
		}
		get, is := func(item any) any { return item }, func(item any) any { return item }
		if byAttribute {
			if len(rest.list) == 0 {
				r.fail("%s: missing parameter for attribute name", name)
			}
			get, rest.list = r.getter(rest.list[0], nil), rest.list[1:]
		}
		if len(rest.list) > 0 {
			is = r.by("test", tests, rest)
		}
		var kept []any
		for _, item := range r.items(of) {
			r.step(1)
			if truth(is(get(item))) == wanted {
				r.made(16)
				kept = append(kept, item)
			}
		}
		return &generator{kept}
	}
}

// sortBy orders items by their keys; equal ones stay in order.
func (r *run) sortBy(items []any, key func(item any) any, reversed bool) []any {
	type keyed struct{ key, item any }
	r.made(48 * len(items))
	all := make([]keyed, len(items))
	for i, item := range items {
		all[i] = keyed{key(item), item}
	}
	slices.SortStableFunc(all, func(x, y keyed) int {
		switch {
		case r.equal(x.key, y.key): // as undefined ones are
			return 0
		case reversed:
			x, y = y, x
		}
		return r.compare("<", x.key, y.key)
	})
	out := make([]any, len(all))
	for i, k := range all {
		out[i] = k.item
	}
	return out
}

func sorted(r *run, a values) any {
	return r.sortBy(r.items(a[0]), r.key(a.or(3, nil), a[2]), truth(a[1]))
}

func dictsort(r *run, a values) any {
	o, ok := mapping(r.defined(a[0]))
	if !ok {
		r.fail("dictsort: found '%s', wanted a dict", kind(a[0]))
	}
	place, ok := map[string]int64{"key": 0, "value": 1}[r.str(a.or(2, "key"))]
	if !ok {
		r.fail(`You can only sort by either "key" or "value"`)
	}
	return r.sortBy(r.pairs(o), r.key(place, a[1]), truth(a[3]))
}

func unique(r *run, a values) any {
	key := r.key(a.or(2, nil), a[1])
	var seen, kept []any
	for _, item := range r.items(a[0]) {
		if k := r.hashable(key(item)); !r.contains(seen, k) {
			r.made(32)
			seen, kept = append(seen, k), append(kept, item)
		}
	}
	return &generator{kept}
}
