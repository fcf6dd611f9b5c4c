package template

import "fmt"

// An Object is an ordered map, a dict of Python, whose keys are texts; a template may make one with int64 too. Its zero
// value is empty. An object that a template is given must not change while it runs.
type Object struct {
	keys, values []any
	places       map[any]int
}

// Set puts a value under a key: in its place if it is there, else at the end.
func (o *Object) Set(key string, value any) { o.set(key, value) }

func (o *Object) set(key, value any) {
	if i, ok := o.places[key]; ok {
		o.values[i] = value
		return
	}
	if o.places == nil {
		o.places = map[any]int{}
	}
	o.places[key] = len(o.keys)
	o.keys, o.values = append(o.keys, key), append(o.values, value)
}

// Get is the value under a key.
func (o *Object) Get(key string) (any, bool) { return o.get(key) }

// get takes any value; one that is no key has nothing under it.
func (o *Object) get(key any) (any, bool) {
	switch key.(type) {
	case string, int64:
		if o == nil {
			return nil, false
		}
		if i, ok := o.places[key]; ok {
			return o.values[i], true
		}
	}
	return nil, false
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

// hashable is what Python takes for a key, though it may be none of ours.
func (r *run) hashable(key any) any {
	switch key.(type) {
	case []any, *Object:
		r.fail("unhashable type: '%s'", kind(key))
	}
	return plain(key)
}

// setItem puts a value under a key that a template made.
func (r *run) setItem(o *Object, key, value any) {
	switch k := r.hashable(key).(type) {
	case string:
		r.made(64 + len(k))
		o.set(k, value)
	case int64:
		r.made(64)
		o.set(k, value)
	default:
		r.fail("found '%s' for a key of a dict, wanted a str or int", kind(key))
	}
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

// objectMethods are the methods of dict that published templates call.
var objectMethods = map[string]builtin{
	"get": takes("d key default?", func(r *run, a values) any {
		if value, there := a[0].(*Object).get(r.hashable(a[1])); there {
			return value
		}
		return a.or(2, nil)
	}),
	"keys":   takes("d", func(_ *run, a values) any { return view{"dict_keys", a[0].(*Object).keys} }),
	"values": takes("d", func(_ *run, a values) any { return view{"dict_values", a[0].(*Object).values} }),
	"items":  takes("d", func(r *run, a values) any { return view{"dict_items", r.pairs(a[0].(*Object))} }),
}
