package template

import (
	"fmt"
	"math/big"
	"strconv"
)

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

// hash is equal for keys that are equal: 1, 1.0 and true are. Lists and objects have none.
func (r *run) hash(key any) (string, bool) {
	switch k := key.(type) {
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
