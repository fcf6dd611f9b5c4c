package runfile

import (
	"fmt"
	"math"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"gputrain/optim"
)

// number matches the numbers of YAML 1.2 that the parser takes for text: with an exponent and no fraction, and whole ones that are large.
var number = regexp.MustCompile(`^[-+]?[0-9]+([eE][-+]?[0-9]+)?$`)

// A paddedNumber is one with zeros before it, which some readers of YAML take for octal and some for decimal. No field is of this type.
type paddedNumber string

var padded = regexp.MustCompile(`^[-+]?0[0-9_]+$`)

// decode is a node's value: text, a number, true or false, null, a list of such
// values, or whatever else stands there, for convert to refuse.
func decode(node ast.Node) (any, error) {
	switch n := node.(type) {
	case *ast.SequenceNode:
		list := make([]any, len(n.Values))
		for i, item := range n.Values {
			var err error
			if list[i], err = decode(item); err != nil {
				return nil, err
			}
		}
		return list, nil
	case *ast.MappingNode, *ast.MappingValueNode:
		pairs, _ := mapping(node)
		values := map[string]any{}
		for _, kv := range pairs {
			var err error
			if values[kv.Key.GetToken().Value], err = decode(kv.Value); err != nil {
				return nil, err
			}
		}
		return values, nil
	case *ast.IntegerNode:
		if padded.MatchString(n.Token.Value) {
			return paddedNumber(n.Token.Value), nil
		}
	case *ast.StringNode:
		if n.Token.Type != token.StringType || !number.MatchString(n.Value) {
			break
		}
		if padded.MatchString(n.Value) {
			return paddedNumber(n.Value), nil
		}
		if v, err := strconv.ParseFloat(n.Value, 64); err == nil {
			return v, nil
		}
		return n.Value, nil // beyond all numbers
	}
	var v any
	err := yaml.NodeToValue(node, &v)
	return v, err
}

// converter is a field with a form of its own.
type converter interface {
	take(v any) bool // as convert
	kind() string    // as kindName
	schema() schema  // as schemaOf
}

// convert turns a decoded YAML value into a field's type without losing
// anything: a fraction is no whole number and null is no value, except where
// the field is a pointer or a list. One value where a list is wanted is a list
// of one. Names with values have values of one type. A mapping has every key of its struct, but for those that are optional, and no other.
func convert(v any, t reflect.Type) (reflect.Value, bool) {
	out := reflect.New(t).Elem()
	if own, ok := out.Addr().Interface().(converter); ok {
		return out, own.take(v)
	}
	switch t.Kind() {
	case reflect.Int, reflect.Int64:
		n, ok := integer(v)
		if ok = ok && n >= math.MinInt32 && n <= math.MaxInt32; ok {
			out.SetInt(int64(n))
		}
		return out, ok
	case reflect.Uint64:
		if n, ok := v.(uint64); ok {
			out.SetUint(n)
			return out, true
		}
		n, ok := integer(v)
		if ok = ok && n >= 0 && n < 1<<64; ok {
			out.SetUint(uint64(n))
		}
		return out, ok
	case reflect.Float64:
		if f, ok := v.(float64); ok {
			out.SetFloat(f)
			return out, true
		}
		n, ok := integer(v)
		out.SetFloat(n)
		return out, ok
	case reflect.Bool:
		b, ok := v.(bool)
		out.SetBool(b)
		return out, ok
	case reflect.String:
		s, ok := v.(string)
		out.SetString(s)
		return out, ok
	case reflect.Pointer:
		if v == nil {
			return out, true
		}
		elem, ok := convert(v, t.Elem())
		out.Set(reflect.New(t.Elem()))
		out.Elem().Set(elem)
		return out, ok
	case reflect.Slice:
		list, ok := v.([]any)
		if !ok && v != nil {
			list = []any{v}
		}
		for _, item := range list {
			elem, ok := convert(item, t.Elem())
			if !ok {
				return out, false
			}
			out = reflect.Append(out, elem)
		}
		return out, true
	case reflect.Map:
		values, ok := v.(map[string]any)
		if len(values) > 0 {
			out.Set(reflect.MakeMap(t))
		}
		for name, value := range values {
			elem, ok := convert(value, t.Elem())
			if !ok {
				return out, false
			}
			out.SetMapIndex(reflect.ValueOf(name), elem)
		}
		return out, ok || v == nil
	case reflect.Struct:
		values, ok := v.(map[string]any)
		if !ok {
			return out, false
		}
		known := 0
		for i := range t.NumField() {
			value, given := values[keyOf(t.Field(i))]
			if !given && isOptional(t.Field(i)) {
				continue
			}
			field, ok := convert(value, t.Field(i).Type)
			if !given || !ok {
				return out, false
			}
			out.Field(i).Set(field)
			known++
		}
		return out, known == len(values)
	}
	return out, false
}

// keyOf is the name that a field of a struct has in the run file.
func keyOf(f reflect.StructField) string {
	if key := f.Tag.Get("yaml"); key != "" {
		return key
	}
	key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return key
}

// isOptional tells whether a mapping may leave out a field of its struct: those of an optimizer's parameters have defaults.
func isOptional(f reflect.StructField) bool {
	return f.Tag.Get("optional") == "true" || f.Tag.Get("yaml") == ""
}

// integer reads a whole number in any of the types the parser gives; 1e3 is
// one, 1.5 is not.
func integer(v any) (float64, bool) {
	switch n := v.(type) {
	case uint64:
		return float64(n), true
	case int64:
		return float64(n), true
	case int:
		return float64(n), true
	case float64:
		return n, n == math.Trunc(n)
	}
	return 0, false
}

func kindName(t reflect.Type) string {
	if own, ok := reflect.New(t).Interface().(converter); ok {
		return own.kind()
	}
	if t == reflect.TypeFor[optim.Mask]() {
		return `a list of patterns, paths with true or false, or "matrices"`
	}
	switch t.Kind() {
	case reflect.Int, reflect.Int64:
		return "a whole number"
	case reflect.Uint64:
		return "a whole number of 0 or more"
	case reflect.Float64:
		return "a number"
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "text"
	case reflect.Pointer:
		return kindName(t.Elem()) + " or null"
	case reflect.Slice:
		return "a list, each " + kindName(t.Elem())
	case reflect.Map:
		return "names, each with " + kindName(t.Elem())
	case reflect.Array:
		return fmt.Sprintf("a list of %d, each %s", t.Len(), kindName(t.Elem()))
	case reflect.Struct:
		var keys []string
		for i := range t.NumField() {
			key := keyOf(t.Field(i)) + ": " + kindName(t.Field(i).Type)
			if isOptional(t.Field(i)) {
				key = "[" + key + "]"
			}
			keys = append(keys, key)
		}
		return "{" + strings.Join(keys, ", ") + "}"
	default:
		return t.String()
	}
}
