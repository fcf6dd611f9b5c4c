package runfile

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"reflect"

	"gputrain/optim"
)

// A schema is a piece of JSON Schema, draft 2020-12.
type schema map[string]any

// Schema writes the JSON Schema of the run file, for editors. A file that is read without an error is one of it. Beyond it are: what keys say
// together (two of data.text, data.jsonl and data.mixture; a divisor), ranges of an optimizer's own parameters, the syntax of regular
// expressions, times and sizes that are too long, the order of intervals, numbers with zeros before them, anchors, and whether a file
// without optimizer.name has the parameters of the one that another file names.
func Schema(w io.Writer) error {
	out := sectionSchema(reflect.TypeFor[Run](), "")
	out["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	out["title"] = "run file of gputrain"
	optimizer := out["properties"].(schema)["optimizer"].(schema)
	if err := tellOptimizers(optimizer); err != nil {
		return err
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(out)
}

// sectionSchema is that of a group of keys, whose struct is t; prefix ends with a dot.
func sectionSchema(t reflect.Type, prefix string) schema {
	properties := schema{}
	for _, f := range keysOf(t) {
		key := prefix + keyOf(f)
		var s schema
		if f.Type.Kind() == reflect.Struct {
			s = sectionSchema(f.Type, key+".")
		} else {
			s = schemaOf(f.Type, key)
			if of, ok := find(key); ok {
				s["default"] = New().value(of)
			}
		}
		s["description"] = told(f.Tag.Get("doc"))
		properties[keyOf(f)] = s
	}
	return schema{"type": []string{"object", "null"}, "additionalProperties": false, "properties": properties}
}

// schemaOf is that of a type, as convert and fits take it, with the rules of a key.
func schemaOf(t reflect.Type, key string) schema {
	if own, ok := reflect.New(t).Interface().(converter); ok {
		return own.schema()
	}
	if t == reflect.TypeFor[optim.Mask]() {
		return schema{"anyOf": []schema{
			{"const": "matrices"},
			{"type": "array", "items": schema{"type": "string"}},
			{"type": "object", "additionalProperties": schema{"type": "boolean"}},
		}}
	}
	var s schema
	switch t.Kind() {
	case reflect.Map:
		s = schema{"type": []string{"object", "null"}}
		if t.Elem().Kind() != reflect.Interface { // tellOptimizers has those
			s["additionalProperties"] = schemaOf(t.Elem(), key+".")
		}
	case reflect.Int, reflect.Int64:
		s = schema{"type": "integer"}
		if _, own := find(key); own || t.Kind() == reflect.Int { // as convert takes it; an optimizer's own parameters may be larger
			s["minimum"], s["maximum"] = math.MinInt32, math.MaxInt32
		}
	case reflect.Uint64:
		s = schema{"type": "integer", "minimum": 0, "maximum": uint64(math.MaxUint64)}
	case reflect.Float64:
		s = schema{"type": "number"}
	case reflect.Bool:
		s = schema{"type": "boolean"}
	case reflect.String:
		s = schema{"type": "string"}
	case reflect.Pointer:
		return orNull(schemaOf(t.Elem(), key))
	case reflect.Slice:
		item := schemaOf(t.Elem(), key)
		return schema{"anyOf": []schema{{"type": "array", "items": item}, item, {"type": "null"}}}
	case reflect.Array:
		return schema{"type": "array", "items": schemaOf(t.Elem(), key), "minItems": t.Len(), "maxItems": t.Len()}
	case reflect.Struct:
		properties, required := schema{}, []string{}
		for i := range t.NumField() {
			f := t.Field(i)
			properties[keyOf(f)] = describe(schemaOf(f.Type, key+"."+keyOf(f)), f.Tag.Get("doc"))
			if !isOptional(f) {
				required = append(required, keyOf(f))
			}
		}
		return schema{"type": "object", "additionalProperties": false, "properties": properties, "required": required}
	default:
		panic(fmt.Sprintf("runfile: schema: key %s: found a %s, wanted a type that editors know", key, t))
	}
	if r, ok := rules[key]; ok {
		r.tell(s)
	}
	return s
}

func describe(s schema, doc string) schema {
	if doc != "" {
		s["description"] = doc
	}
	return s
}

// orNull takes null too.
func orNull(s schema) schema {
	if kind, ok := s["type"].(string); ok && s["enum"] == nil {
		s["type"] = []string{kind, "null"}
		return s
	}
	return schema{"anyOf": []schema{s, {"type": "null"}}}
}
