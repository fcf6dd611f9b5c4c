package runfile

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"gputrain/buffers/array"
	"gputrain/internal/suggest"
	"gputrain/model"
)

// A field is one key of the run file: its dotted name, what its tags say, and where its value lives in a Run.
type field struct {
	key    string // "train.steps"
	doc    string
	plain  any // the default as decode gives it; "": the zero value
	resume resume
	index  []int
	typ    reflect.Type
}

// fields lists every key that takes a value, in the order of the structs.
var fields = collect(reflect.TypeFor[Run](), "", nil)

func collect(t reflect.Type, prefix string, index []int) []field {
	var out []field
	for _, f := range keysOf(t) {
		key := prefix + keyOf(f)
		at := slices.Concat(index, f.Index)
		if f.Type.Kind() == reflect.Struct {
			out = append(out, collect(f.Type, key+".", at)...)
			continue
		}
		out = append(out, field{key: key, doc: f.Tag.Get("doc"), plain: plainDefault(key, f), resume: resumeOf(key, f), index: at, typ: f.Type})
	}
	return out
}

// keysOf lists the fields of a struct of the run file that are keys, in the order of the file.
func keysOf(t reflect.Type) (keys []reflect.StructField) {
	for i := range t.NumField() {
		f := t.Field(i)
		after := f.Tag.Get("after")
		switch key := f.Tag.Get("yaml"); {
		case f.Anonymous || key == ",inline":
			for _, in := range keysOf(f.Type) {
				in.Index = append([]int{i}, in.Index...)
				keys = append(keys, in)
			}
		case key == "-" || !f.IsExported():
		case after != "":
			at := slices.IndexFunc(keys, func(f reflect.StructField) bool { return keyOf(f) == after })
			keys = slices.Insert(keys, at+1, f)
		default:
			keys = append(keys, f)
		}
	}
	return keys
}

// told is what a tag says, with the families that there are by now, and the bases.
func told(doc string) string {
	var bases []string
	for _, d := range array.Bases {
		bases = append(bases, d.Format().Doc)
	}
	bases[len(bases)-1] = "or " + bases[len(bases)-1]
	return strings.NewReplacer("{families}", strings.Join(model.Kinds(), " or "), "{bases}", strings.Join(bases, "; ")).Replace(doc)
}

// plainDefault reads the tag default, which is text as it stands or YAML.
func plainDefault(key string, f reflect.StructField) any {
	text := f.Tag.Get("default")
	if text == "" || f.Type.Kind() == reflect.String {
		return text
	}
	file, err := parse([]byte(text))
	if err == nil {
		var v any
		if v, err = decode(file.Docs[0].Body); err == nil && converts(v, f.Type) {
			return v
		}
	}
	panic(fmt.Sprintf("runfile: key %s: default: found %q, wanted %s (%v)", key, text, kindName(f.Type), err))
}

// Default is the built-in run, a byte-level GPT-2 on the Go source: what the tags say.
func Default() Run {
	var r Run
	for _, f := range fields {
		if f.plain != "" {
			value, _ := convert(f.plain, f.typ) // as plainDefault has seen
			reflect.ValueOf(&r).Elem().FieldByIndex(f.index).Set(value)
		}
	}
	return r
}

func find(key string) (field, bool) {
	for _, f := range fields {
		if f.key == key {
			return f, true
		}
	}
	return field{}, false
}

// IsKey tells whether there is such a key.
func IsKey(key string) bool {
	_, ok := find(key)
	return ok
}

// isSection tells whether key names a group of keys, such as "train".
func isSection(key string) bool { return firstIn(key) != key }

// removed are keys of older programs, and what there is in their place.
var removed = map[string]string{
	"pipeline.recompute": "it is train.recompute now, layers for true and none for false",
	"train.frozen_dtype": "it is model.base now",
}

// unknownKey is the error for a key that does not exist, with the nearest one
// that does.
func unknownKey(key string) error {
	if now := removed[key]; now != "" {
		return fmt.Errorf("unknown key %q: %s", key, now)
	}
	var names, within []string
	for _, f := range fields {
		names = append(names, f.key)
		if strings.HasSuffix(f.key, "."+key) {
			within = append(within, strconv.Quote(f.key))
		}
		for i := range f.key {
			if group := f.key[:i]; f.key[i] == '.' && !slices.Contains(names, group) {
				names = append(names, group)
			}
		}
	}
	if len(within) > 0 {
		return fmt.Errorf("unknown key %q, did you mean %s?", key, strings.Join(within, " or "))
	}
	if near := suggest.DidYouMean(key, names); near != "" {
		return fmt.Errorf("unknown key %q%s", key, near)
	}
	return fmt.Errorf("unknown key %q (gputrain config template lists them all)", key)
}
