package runfile

import (
	"fmt"
	"math"
	"reflect"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"gputrain/internal/suggest"
)

// resume says what becomes of a key's value when a run goes on.
type resume string

// fixed values stay: a run with another value is another run. Free ones may change, as they change neither what is trained nor what metrics
// record of it: they are no part of the name of a run's directory. Scheduled ones decide how long a run is and what its rates are, and may
// change with --reschedule. A value ByContent is not held to what it says but to what lies there, whose fingerprint is compared. A value of
// ByPlace is a directory: however it is spelt, it is the same.
const (
	fixed     resume = ""
	Free      resume = "free"
	Scheduled resume = "reschedule"
	ByContent resume = "content"
	ByPlace   resume = "directory"
)

// ResumeOf tells it of a key; what is no key of the run file, such as a parameter of an optimizer, is Fixed.
func ResumeOf(key string) resume {
	f, _ := find(key)
	return f.resume
}

// resumeOf reads the tag resume.
func resumeOf(key string, f reflect.StructField) resume {
	switch r := resume(f.Tag.Get("resume")); r {
	case fixed, Free, Scheduled, ByContent, ByPlace:
		return r
	default:
		panic(fmt.Sprintf("runfile: key %s: resume: found %q, wanted %s, %s, %s, %s or none", key, r, Free, Scheduled, ByContent, ByPlace))
	}
}

// mismatch is the error for a value that convert refuses. It names the innermost place that is at fault, in lists and their structs; key is that
// of its rule, at the same with the places in lists.
func mismatch(key, at string, node ast.Node, t reflect.Type) error {
	if _, own := reflect.New(t).Interface().(converter); !own {
		switch t.Kind() {
		case reflect.Pointer:
			if t.Elem().Kind() == reflect.Slice || t.Elem().Kind() == reflect.Struct {
				return mismatch(key, at, node, t.Elem())
			}
		case reflect.Slice:
			if err := mismatchItem(key, at, node, t.Elem()); err != nil {
				return err
			}
		case reflect.Map:
			if err := mismatchNamed(key, at, node, t.Elem()); err != nil {
				return err
			}
		case reflect.Struct:
			if err := mismatchField(key, at, node, t); err != nil {
				return err
			}
		}
	}
	return placedError{line(node), fmt.Errorf("%s: found %s, wanted %s", at, shown(node), wantedOf(key, node, t))}
}

// mismatchItem finds the item of a list, or the one that stands for a list.
func mismatchItem(key, at string, node ast.Node, t reflect.Type) error {
	list, ok := node.(*ast.SequenceNode)
	if !ok {
		if _, is := mapping(node); is && t.Kind() == reflect.Struct {
			return mismatch(key, at, node, t)
		}
		return nil
	}
	for i, item := range list.Values {
		if v, err := decode(item); err != nil || !converts(v, t) {
			return mismatch(key, fmt.Sprintf("%s[%d]", at, i), item, t)
		}
	}
	return nil
}

// mismatchNamed finds the value of a name.
func mismatchNamed(key, at string, node ast.Node, t reflect.Type) error {
	pairs, _ := mapping(node)
	for _, kv := range pairs {
		if v, err := decode(kv.Value); err != nil || !converts(v, t) {
			return mismatch(key+".", fmt.Sprintf("%s: %q", at, kv.Key.GetToken().Value), kv.Value, t)
		}
	}
	return nil
}

// mismatchField finds the field of a struct.
func mismatchField(key, at string, node ast.Node, t reflect.Type) error {
	pairs, ok := mapping(node)
	if !ok {
		return nil
	}
	types, names := map[string]reflect.Type{}, []string{}
	for i := range t.NumField() {
		name := keyOf(t.Field(i))
		types[name], names = t.Field(i).Type, append(names, name)
	}
	given := map[string]bool{}
	for _, kv := range pairs {
		name := kv.Key.GetToken().Value
		of, known := types[name]
		if !known {
			return placedError{line(kv.Key), fmt.Errorf("%s: unknown key %q, wanted %s%s", at, name, strings.Join(names, ", "), suggest.DidYouMean(name, names))}
		}
		given[name] = true
		if v, err := decode(kv.Value); err != nil || !converts(v, of) {
			return mismatch(key+"."+name, at+"."+name, kv.Value, of)
		}
	}
	for i, name := range names {
		if !given[name] && !isOptional(t.Field(i)) {
			return placedError{line(node), fmt.Errorf("%s: found %s, wanted %s too", at, shown(node), name)}
		}
	}
	return nil
}

func converts(v any, t reflect.Type) bool {
	_, ok := convert(v, t)
	return ok
}

// wantedOf says what a value of a type is, and why this one is none where that is not plain.
func wantedOf(key string, node ast.Node, t reflect.Type) string {
	wanted := kindName(t)
	if r, ok := rules[key].(form); ok {
		return r.wanted
	}
	v, err := decode(node)
	if err != nil {
		return wanted
	}
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	n, isWhole := integer(v)
	_, isBool := v.(bool)
	_, isFloat := v.(float64)
	_, padded := v.(paddedNumber)
	switch {
	case t.Kind() == reflect.String && (isWhole || isFloat || isBool || padded):
		return "text in quotes"
	case padded:
		return wanted + ", not begun with 0"
	case isWhole && (t.Kind() == reflect.Int || t.Kind() == reflect.Int64) && n > math.MaxInt32:
		return fmt.Sprintf("%s of at most %d", wanted, math.MaxInt32)
	case isWhole && (t.Kind() == reflect.Int || t.Kind() == reflect.Int64) && n < math.MinInt32:
		return fmt.Sprintf("%s of at least %d", wanted, math.MinInt32)
	case isWhole && t.Kind() == reflect.Uint64 && n > 0:
		return fmt.Sprintf("%s and at most %d", wanted, uint64(math.MaxUint64))
	}
	return wanted
}
