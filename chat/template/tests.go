package template

import "unicode"

// tests are those after `is`.
var tests map[string]*builtin

func init() { // the tests "filter" and "test" look names up
	of := func(is func(r *run, v any) bool) *builtin {
		return takes("value", func(r *run, a values, _ arguments) any { return is(r, a[0]) })
	}
	compared := func(op string) *builtin {
		return takes("a b", func(r *run, a values, _ arguments) any { return r.holds(op, a[0], a[1]) })
	}
	remainder := func(wanted int64) *builtin {
		return takes("value", func(r *run, a values, _ arguments) any {
			return r.equal(r.operate("%", a[0], int64(2)), wanted)
		})
	}
	tests = map[string]*builtin{
		"boolean": of(func(_ *run, v any) bool { _, ok := v.(bool); return ok }),
		"callable": of(func(_ *run, v any) bool {
			switch v.(type) {
			case *function, *macro, *loop, undefined:
				return true
			}
			return false
		}),
		"defined":   of(func(_ *run, v any) bool { _, ok := v.(undefined); return !ok }),
		"undefined": of(func(_ *run, v any) bool { _, ok := v.(undefined); return ok }),
		"divisibleby": takes("value num", func(r *run, a values, _ arguments) any {
			return r.equal(r.operate("%", a[0], a[1]), int64(0))
		}),
		"escaped": of(func(_ *run, v any) bool { _, ok := v.(markup); return ok }),
		"even":    remainder(0),
		"odd":     remainder(1),
		"false":   of(func(_ *run, v any) bool { return v == false }),
		"true":    of(func(_ *run, v any) bool { return v == true }),
		"filter":  of(func(_ *run, v any) bool { s, ok := text(v); return ok && filters[s] != nil }),
		"test":    of(func(_ *run, v any) bool { s, ok := text(v); return ok && tests[s] != nil }),
		"float":   of(func(_ *run, v any) bool { _, ok := v.(float64); return ok }),
		"integer": of(func(_ *run, v any) bool { _, is := v.(bool); return !is && integer(v) != nil }),
		"iterable": of(func(_ *run, v any) bool {
			switch plain(v).(type) {
			case string, []any, tuple, *Object, view, *iterator, *loop, undefined:
				return true
			}
			return false
		}),
		"lower":   of(func(r *run, v any) bool { return oneCase(r.str(v), unicode.IsLower) }),
		"upper":   of(func(r *run, v any) bool { return oneCase(r.str(v), unicode.IsUpper) }),
		"mapping": of(func(_ *run, v any) bool { _, ok := mapping(v); return ok }),
		"none":    of(func(_ *run, v any) bool { return v == nil }),
		"number":  of(func(_ *run, v any) bool { return number(v) }),
		"sameas":  takes("value other", func(_ *run, a values, _ arguments) any { return same(a[0], a[1]) }),
		"sequence": of(func(_ *run, v any) bool {
			switch plain(v).(type) {
			case string, []any, tuple, *Object, undefined:
				return true
			}
			return false
		}),
		"string": of(func(_ *run, v any) bool { _, ok := text(v); return ok }),
		"in":     compared("in"),
	}
	for op, names := range map[string][]string{
		"==": {"eq", "equalto", "=="}, "!=": {"ne", "!="}, "<": {"lt", "lessthan", "<"}, "<=": {"le", "<="}, ">": {"gt", "greaterthan", ">"}, ">=": {"ge", ">="},
	} {
		for _, name := range names {
			tests[name] = compared(op)
		}
	}
}
