package runfile

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"reflect"
	"slices"

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
			s := schemaOf(f.Type, key+"."+keyOf(f))
			if doc := f.Tag.Get("doc"); doc != "" {
				s["description"] = doc
			}
			properties[keyOf(f)] = s
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

// orNull takes null too.
func orNull(s schema) schema {
	if kind, ok := s["type"].(string); ok && s["enum"] == nil {
		s["type"] = []string{kind, "null"}
		return s
	}
	return schema{"anyOf": []schema{s, {"type": "null"}}}
}

// tellOptimizers adds the optimizers' own parameters to the schema of the section optimizer, where they stand beside its keys or below
// parameters. A file that names an optimizer has those of that one; a file without a name may be laid over one that has it.
func tellOptimizers(section schema) error {
	keys := section["properties"].(schema)
	common := sortedKeys(keys)
	forms := map[string][]schema{}
	var branches []schema
	for _, name := range optim.Names() {
		d, err := optim.Describe(name)
		if err != nil {
			return err
		}
		all, beside, names := schema{}, schema{}, slices.Clone(common)
		for _, p := range d.Parameters {
			s := parameterSchema(reflect.TypeOf(p.Default))
			if !slices.ContainsFunc(forms[p.Name], func(other schema) bool { return reflect.DeepEqual(s, other) }) {
				forms[p.Name] = append(forms[p.Name], parameterSchema(reflect.TypeOf(p.Default)))
			}
			s["description"], s["default"] = p.Doc, p.Default
			all[p.Name] = s
			if !slices.Contains(common, p.Name) {
				beside[p.Name] = s
				names = append(names, p.Name)
			}
		}
		beside["parameters"] = schema{"type": []string{"object", "null"}, "additionalProperties": false, "properties": all}
		branches = append(branches, schema{
			"if":   schema{"type": "object", "required": []string{"name"}, "properties": schema{"name": schema{"const": name}}},
			"then": schema{"properties": beside, "propertyNames": schema{"enum": names}},
		})
	}
	all := schema{}
	for name, f := range forms {
		all[name] = schema{"anyOf": f}
		if !slices.Contains(common, name) {
			keys[name] = all[name]
		}
	}
	parameters := keys["parameters"].(schema)
	parameters["additionalProperties"], parameters["properties"] = false, all
	section["allOf"] = branches
	return nil
}

// parameterSchema is schemaOf of an optimizer's parameter, for which one value is no list.
func parameterSchema(t reflect.Type) schema {
	if t.Kind() == reflect.Slice {
		return schema{"type": []string{"array", "null"}, "items": schemaOf(t.Elem(), "")}
	}
	return schemaOf(t, "")
}
