package optim

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"gputrain/internal/suggest"
)

// strict reads JSON over the values that into, a pointer to a struct, already has. A key that the struct does not have is an
// error with a suggestion.
func strict(data []byte, into any) error {
	if err := knownKeys(data, reflect.TypeOf(into).Elem(), ""); err != nil {
		return err
	}
	return json.Unmarshal(data, into)
}

// knownKeys compares the keys of JSON objects with the fields of structs, all the way down.
func knownKeys(data []byte, t reflect.Type, at string) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) {
		return nil // checks its own
	}
	switch t.Kind() {
	case reflect.Slice:
		var items []json.RawMessage
		if json.Unmarshal(data, &items) != nil {
			return nil // wrong types are json.Unmarshal's to report
		}
		for i, item := range items {
			if err := knownKeys(item, t.Elem(), fmt.Sprintf("%s[%d].", strings.TrimSuffix(at, "."), i)); err != nil {
				return err
			}
		}
	case reflect.Struct:
		var object map[string]json.RawMessage
		if json.Unmarshal(data, &object) != nil {
			return nil
		}
		fields := map[string]reflect.Type{}
		var known []string
		for _, f := range keys(t) {
			fields[f.key] = f.typ
			known = append(known, f.key)
		}
		for key, value := range object {
			field, ok := fields[key]
			if !ok {
				return fmt.Errorf("unknown key %q%s (known: %s)", at+key, suggest.DidYouMean(key, known), strings.Join(known, ", "))
			}
			if err := knownKeys(value, field, at+key+"."); err != nil {
				return err
			}
		}
	}
	return nil
}

// key is a field of a struct as JSON has it.
type key struct {
	key   string
	tag   reflect.StructTag
	typ   reflect.Type
	index []int
}

// keys lists the JSON keys of a struct in order, with the keys of an embedded struct where it stands.
func keys(t reflect.Type) []key {
	var out []key
	for _, f := range reflect.VisibleFields(t) {
		if f.Anonymous || !f.IsExported() {
			continue
		}
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		out = append(out, key{name, f.Tag, f.Type, f.Index})
	}
	return out
}
