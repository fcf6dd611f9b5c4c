package template

import "encoding/json"

// tests are those after `is`.
var tests = map[string]builtin{
	"boolean":   is(func(v any) bool { _, ok := v.(bool); return ok }),
	"defined":   is(func(v any) bool { _, ok := v.(undefined); return !ok }),
	"undefined": is(func(v any) bool { _, ok := v.(undefined); return ok }),
	"even":      remainder(0),
	"odd":       remainder(1),
	"false":     is(func(v any) bool { return v == false }),
	"true":      is(func(v any) bool { return v == true }),
	"float":     is(func(v any) bool { _, ok := v.(float64); return ok }),
	"integer": is(func(v any) bool {
		switch v.(type) {
		case int64, json.Number:
			return true
		}
		return false
	}),
	"iterable": is(func(v any) bool {
		switch v.(type) {
		case *Object, view, *generator, undefined:
			return true
		}
		return listed(v)
	}),
	"sequence": is(func(v any) bool {
		switch v.(type) {
		case *Object, undefined:
			return true
		}
		return listed(v)
	}),
	"mapping": is(func(v any) bool { _, ok := mapping(v); return ok }),
	"none":    is(func(v any) bool { return v == nil }),
	"number":  is(func(v any) bool { _, large := v.(json.Number); return large || number(v) }),
	"string":  is(func(v any) bool { _, ok := text(v); return ok }),
	"in":      compared("in"),
}

func init() {
	for op, names := range map[string][]string{
		"==": {"eq", "equalto"}, "!=": {"ne"}, "<": {"lt", "lessthan"}, "<=": {"le"}, ">": {"gt", "greaterthan"}, ">=": {"ge"},
	} {
		for _, name := range append(names, op) {
			tests[name] = compared(op)
		}
	}
}

func is(is func(v any) bool) builtin {
	return takes("value", func(_ *run, a values) any { return is(a[0]) })
}

func compared(op string) builtin {
	return takes("a b", func(r *run, a values) any { return r.holds(op, a[0], a[1]) })
}

func remainder(wanted int64) builtin {
	return takes("value", func(r *run, a values) any {
		return r.equal(r.operate("%", a[0], int64(2)), wanted)
	})
}

// listed says whether a value is a text, list or tuple.
func listed(v any) bool {
	_, isText := text(v)
	_, isList := sequence(v)
	return isText || isList
}
