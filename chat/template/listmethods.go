package template

// objectMethods are those of dict that change nothing.
var objectMethods = map[string]*builtin{
	"get": takes("d key default=None", func(r *run, a values, _ arguments) any {
		hash, ok := r.hash(a[1])
		if !ok {
			r.fail("unhashable type: '%s'", kind(a[1]))
		}
		if value, there := a[0].(*Object).get(hash); there {
			return value
		}
		return a[2]
	}),
	"keys":   takes("d", func(_ *run, a values, _ arguments) any { return view{"dict_keys", a[0].(*Object).keys} }),
	"values": takes("d", func(_ *run, a values, _ arguments) any { return view{"dict_values", a[0].(*Object).values} }),
	"items":  takes("d", func(r *run, a values, _ arguments) any { return view{"dict_items", r.pairs(a[0].(*Object))} }),
	"copy":   takes("d", func(_ *run, a values, _ arguments) any { return a[0] }), // nothing changes either
}

// pairs are the keys of an object with their values.
func (r *run) pairs(o *Object) []any {
	r.made(64 * o.Len())
	all := make([]any, o.Len())
	for i, key := range o.keys {
		all[i] = tuple{key, o.values[i]}
	}
	return all
}

// listMethods are those of list and tuple that change nothing.
var listMethods = map[string]*builtin{
	"index": takes("l value", func(r *run, a values, _ arguments) any {
		list, _ := sequence(a[0])
		for i, item := range list {
			if r.equal(item, a[1]) {
				return int64(i)
			}
		}
		r.fail("%s is not in list", r.repr(a[1]))
		return nil
	}),
	"count": takes("l value", func(r *run, a values, _ arguments) any {
		n := int64(0)
		list, _ := sequence(a[0])
		for _, item := range list {
			if r.equal(item, a[1]) {
				n++
			}
		}
		return n
	}),
	"copy": takes("l", func(_ *run, a values, _ arguments) any { return a[0] }),
}
