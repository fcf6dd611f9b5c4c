package template

import (
	"fmt"
	"math/big"
	"strconv"
	"strings"
)

// attribute is of.NAME: what Python calls an attribute, else the element of that name. Of an encoded object the element comes first where nothing is
// called: a method of its text would be printed.
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
	return undefined{called(of) + " has no attribute '" + name + "'"}
}

// item is of[key]: the element, else the attribute of that name.
func (r *run) item(of, key any) any {
	r.defined(of)
	if o, ok := mapping(of); ok {
		if hash, ok := r.hash(key); ok {
			if value, ok := o.get(hash); ok {
				return value
			}
		}
	}
	if n := integer(key); n != nil {
		if value, ok := r.at(of, clamped(n)); ok {
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
func (r *run) at(of any, i int) (any, bool) {
	s, isText := text(of)
	list, listed := sequence(of)
	length := len(list)
	if isText {
		length = r.length(s)
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
	at := place(s, i)
	return as(of, s[at:at+place(s[at:], 1)]), true
}

// own is what Python calls an attribute of a value. Names with an underscore in front are nobody's, and neither are methods that change a value.
func (r *run) own(of any, name string) (any, bool) {
	if strings.HasPrefix(name, "_") {
		return nil, false
	}
	switch of := of.(type) {
	case *namespace:
		return of.Get(name)
	case *loop:
		return of.attribute(name), true
	case *macro:
		switch name {
		case "name":
			return of.of.name, true
		case "arguments":
			all := tuple{}
			for _, n := range of.of.names {
				all = append(all, n)
			}
			return all, true
		}
	case *function:
		if held, ok := of.held[name]; ok {
			return held, true
		}
	case *Object:
		if changes[name] {
			return undefined{"access to attribute '" + name + "' of 'dict' object is unsafe"}, true
		}
		if m, ok := objectMethods[name]; ok {
			return bound(of, name, m), true
		}
	case string:
		if m, ok := textMethods[name]; ok {
			return bound(of, name, m), true
		}
	case markup:
		if m, ok := textMethods[name]; ok {
			return markedMethod(of, name, m), true
		}
	case *encoded:
		if m, ok := textMethods[name]; ok {
			return bound(of.text, name, m), true
		}
		return r.own(of.object, name)
	case []any, tuple:
		if m, ok := listMethods[name]; ok {
			return bound(of, name, m), true
		}
	}
	return nil, false
}

// changes are methods of dicts that change one.
var changes = map[string]bool{"clear": true, "pop": true, "popitem": true, "setdefault": true, "update": true}

// bound is a method of a value.
func bound(of any, name string, m *builtin) *function {
	return &function{name: name, call: func(r *run, a arguments) any {
		a.list = append([]any{of}, a.list...)
		return m.run(r, name, a)
	}}
}

// slice is of[begin:end:step].
func (r *run) slice(of any, bounds [3]*int) any {
	r.defined(of)
	if s, ok := text(of); ok && (bounds[2] == nil || *bounds[2] == 1) {
		begin, end := limits(bounds, 1, r.length(s))
		if begin >= end {
			return as(of, "")
		}
		at := place(s, begin)
		return as(of, s[at:at+place(s[at:], end-begin)])
	}
	step := 1
	if bounds[2] != nil {
		if step = *bounds[2]; step == 0 {
			r.fail("slice step cannot be zero")
		}
	}
	if s, ok := text(of); ok {
		all := r.characters(s)
		begin, end := limits(bounds, step, len(all))
		return as(of, string(every(all, begin, end, step)))
	}
	list, ok := sequence(of)
	if !ok {
		return undefined{called(of) + " cannot be sliced"}
	}
	begin, end := limits(bounds, step, len(list))
	r.made(16 * max(0, (end-begin)/step))
	return like(of, every(list, begin, end, step))
}

func every[T any](all []T, begin, end, step int) []T {
	some := []T{}
	for i := begin; step > 0 && i < end || step < 0 && i > end; i += step {
		some = append(some, all[i])
	}
	return some
}

// limits are the first element of a slice and the one that is no more of it.
func limits(bounds [3]*int, step, length int) (begin, end int) {
	least, most := 0, length
	if step < 0 {
		least, most = -1, length-1
	}
	at := func(bound *int, or int) int {
		if bound == nil {
			return or
		}
		i := *bound
		if i < 0 {
			i += length
		}
		return min(max(i, least), most)
	}
	if step < 0 {
		return at(bounds[0], most), at(bounds[1], least)
	}
	return at(bounds[0], least), at(bounds[1], most)
}

// objectMethods are those of dict that change nothing.
var objectMethods = map[string]*builtin{
	"get": takes("d key default=None", func(r *run, a values, _ arguments) any {
		if value, there := a[0].(*Object).get(r.hashed(a[1])); there {
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

// An Object is an ordered map, a dict of Python. Its zero value is empty. What a template is given must not change while it runs.
type Object struct {
	keys, values []any
	places       map[string]int // by hash
}

// Set puts a value under a key: in its place if it is there, else at the end.
func (o *Object) Set(key string, value any) { o.set(key, "s"+key, value) }

func (o *Object) set(key any, hash string, value any) {
	if i, ok := o.places[hash]; ok {
		o.values[i] = value
		return
	}
	if o.places == nil {
		o.places = map[string]int{}
	}
	o.places[hash] = len(o.keys)
	o.keys, o.values = append(o.keys, key), append(o.values, value)
}

// Get is the value under a key.
func (o *Object) Get(key string) (any, bool) { return o.get("s" + key) }

func (o *Object) get(hash string) (any, bool) {
	if o == nil {
		return nil, false
	}
	i, ok := o.places[hash]
	if !ok {
		return nil, false
	}
	return o.values[i], true
}

// Len is the number of keys.
func (o *Object) Len() int { return len(o.keys) }

// Keys are the keys in order.
func (o *Object) Keys() []string {
	all := make([]string, len(o.keys))
	for i, k := range o.keys {
		all[i] = fmt.Sprint(k)
	}
	return all
}

// hashed is the hash of what has to have one.
func (r *run) hashed(key any) string {
	hash, ok := r.hash(key)
	if !ok {
		r.fail("unhashable type: '%s'", kind(key))
	}
	return hash
}

// hash is equal for keys that are equal: 1, 1.0 and true are. Lists and objects have none.
func (r *run) hash(key any) (string, bool) {
	switch k := plain(key).(type) {
	case string:
		return "s" + k, true
	case nil:
		return "none", true
	case bool, int64, *big.Int, float64:
		return "n" + hashNumber(k), true
	case tuple:
		all := "("
		for _, item := range k {
			one, ok := r.hash(item)
			if !ok {
				return "", false
			}
			all += strconv.Itoa(len(one)) + ":" + one
			r.made(len(all))
		}
		return all + ")", true
	case undefined:
		return "undefined", true
	}
	return "", false
}

func hashNumber(n any) string {
	if f, ok := n.(float64); ok {
		if i, ok := whole(f); ok {
			return i.String()
		}
		return strconv.FormatFloat(f, 'g', -1, 64)
	}
	return integer(n).String()
}
