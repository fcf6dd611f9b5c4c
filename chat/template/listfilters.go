package template

import (
	"slices"
	"strconv"
	"strings"
)

// getter takes an attribute of an item, "a.b.0" one after the other; None is the item itself. A default stands for what is undefined.
func (r *run) getter(attribute, or any) func(item any) any {
	var path []any
	switch a := plain(attribute).(type) {
	case nil:
	case string:
		for _, part := range strings.Split(a, ".") {
			if n, err := strconv.ParseInt(part, 10, 64); err == nil && digit(part[0]) {
				path = append(path, n)
			} else {
				path = append(path, part)
			}
		}
	default:
		path = []any{a}
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

func mapped(r *run, a values, rest arguments) any {
	if !truth(a[0]) { // None too, which is nothing to go through elsewhere
		return &iterator{"generator", nil}
	}
	var do func(item any) any
	attribute, ok := rest.named.Get("attribute")
	switch {
	case ok && len(rest.list) == 0:
		or, _ := rest.named.Get("default")
		do = r.getter(attribute, or)
	case len(rest.list) == 0:
		r.fail("map requires a filter argument")
	default:
		filter := known(r, "filter", filters, rest.list[0])
		do = func(item any) any {
			return filter.run(r, r.str(rest.list[0]), arguments{append([]any{item}, rest.list[1:]...), rest.named})
		}
	}
	items := r.copied(a[0])
	for i, item := range items {
		items[i] = do(item)
	}
	return &iterator{"generator", items}
}

// selected keeps the items for which a test, of an attribute or of themselves, is as wanted.
func selected(name string, wanted, byAttribute bool) func(r *run, a values, rest arguments) any {
	return func(r *run, a values, rest arguments) any {
		if !truth(a[0]) {
			return &iterator{"generator", nil}
		}
		get := func(item any) any { return item }
		if byAttribute {
			if len(rest.list) == 0 {
				r.fail("%s: missing parameter for attribute name", name)
			}
			get, rest.list = r.getter(rest.list[0], nil), rest.list[1:]
		}
		is := truth
		if len(rest.list) > 0 {
			test := known(r, "test", tests, rest.list[0])
			is = func(item any) bool {
				return truth(test.run(r, r.str(rest.list[0]), arguments{append([]any{item}, rest.list[1:]...), rest.named}))
			}
		}
		var kept []any
		for _, item := range r.items(a[0]) {
			r.step(1)
			if is(get(item)) == wanted {
				r.made(16)
				kept = append(kept, item)
			}
		}
		return &iterator{"generator", kept}
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
		order := r.compare("<", x.key, y.key)
		switch {
		case order == unordered:
			return 0
		case reversed:
			return -order
		}
		return order
	})
	out := make([]any, len(all))
	for i, k := range all {
		out[i] = k.item
	}
	return out
}

func sorted(r *run, a values, _ arguments) any {
	keys := []func(any) any{}
	if s, ok := text(a[3]); ok {
		for _, part := range strings.Split(s, ",") {
			keys = append(keys, r.key(part, a[2]))
		}
	} else {
		keys = append(keys, r.key(a[3], a[2]))
	}
	return r.sortBy(r.items(a[0]), func(item any) any {
		all := make([]any, len(keys))
		for i, key := range keys {
			all[i] = key(item)
		}
		return all
	}, truth(a[1]))
}

func dictsort(r *run, a values, _ arguments) any {
	o, ok := mapping(r.defined(a[0]))
	if !ok {
		r.fail("dictsort: found '%s', wanted a dict", kind(a[0]))
	}
	place, ok := map[any]int64{"key": 0, "value": 1}[r.str(a[2])]
	if !ok {
		r.fail(`You can only sort by either "key" or "value"`)
	}
	return r.sortBy(r.pairs(o), r.key(place, a[1]), truth(a[3]))
}

func unique(r *run, a values, _ arguments) any {
	key, seen := r.key(a[2], a[1]), map[string]bool{}
	var kept []any
	for _, item := range r.items(a[0]) {
		hash := r.hashed(key(item))
		if !seen[hash] {
			r.made(64 + len(hash))
			seen[hash] = true
			kept = append(kept, item)
		}
	}
	return &iterator{"generator", kept}
}

func extreme(sign int) func(r *run, a values, _ arguments) any {
	return func(r *run, a values, _ arguments) any {
		key := r.key(a[2], a[1])
		var best, bestKey any = undefined{"No aggregated item, sequence was empty."}, nil
		for i, item := range r.items(a[0]) {
			if k := key(item); i == 0 || r.compare("<", k, bestKey) == sign {
				best, bestKey = item, k
			}
		}
		return best
	}
}

func sum(r *run, a values, _ arguments) any {
	get, total := r.getter(a[1], nil), a[2]
	if _, ok := text(total); ok {
		r.fail("sum() can't sum strings")
	}
	for _, item := range r.items(a[0]) {
		total = r.operate("+", total, get(item))
	}
	return total
}
