package template

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"gputrain/internal/suggest"
)

// filters are those of Jinja that chat templates may need. Nothing is escaped on its own.
var filters map[string]*builtin

func init() { // map and select look filters up
	filters = map[string]*builtin{
		"abs":         takes("x", absolute),
		"attr":        takes("obj name", attributeFilter),
		"batch":       takes("value linecount fill_with=None", batches),
		"capitalize":  ofString("s", func(r *run, s string, _ values) any { return r.capitalize(s) }),
		"center":      ofString("value width=80", func(r *run, s string, a values) any { return r.pad(s, a.int(r, 1), " ", 'c') }),
		"default":     takes("value default_value='' boolean=False", defaulted),
		"dictsort":    takes("value case_sensitive=False by='key' reverse=False", dictsort),
		"escape":      takes("s", func(r *run, a values, _ arguments) any { return r.mark(string(r.escaped(a[0]))) }),
		"first":       takes("seq", first),
		"float":       takes("value default=0.0", floatFilter),
		"forceescape": takes("value", func(r *run, a values, _ arguments) any { return r.mark(r.escape(r.str(a[0]))) }),
		"format": takes("value *", func(r *run, a values, rest arguments) any {
			if rest.named.Len() > 0 {
				return r.percent(r.soft(a[0]), rest.named)
			}
			return r.percent(r.soft(a[0]), tuple(rest.list))
		}),
		"indent":     takes("s width=4 first=False blank=False", indent),
		"int":        takes("value default=0 base=10", intFilter),
		"items":      takes("value", itemsFilter),
		"join":       takes("value d='' attribute=None", join),
		"last":       takes("seq", last),
		"length":     takes("obj", length),
		"list":       takes("value", func(r *run, a values, _ arguments) any { return r.copied(a[0]) }),
		"lower":      ofString("s", func(r *run, s string, _ values) any { return r.lower(s) }),
		"map":        takes("value *", mapped),
		"max":        takes("value case_sensitive=False attribute=None", extreme(1)),
		"min":        takes("value case_sensitive=False attribute=None", extreme(-1)),
		"reject":     takes("value *", selected("reject", false, false)),
		"rejectattr": takes("value *", selected("rejectattr", false, true)),
		"replace":    takes("s old new count=None", replaceFilter),
		"reverse":    takes("value", reverse),
		"round":      takes("value precision=0 method='common'", round),
		"safe":       takes("value", func(r *run, a values, _ arguments) any { return r.mark(r.str(a[0])) }),
		"select":     takes("value *", selected("select", true, false)),
		"selectattr": takes("value *", selected("selectattr", true, true)),
		"slice":      takes("value slices fill_with=None", sliceFilter),
		"sort":       takes("value reverse=False case_sensitive=False attribute=None", sorted),
		"string":     takes("object", func(r *run, a values, _ arguments) any { return r.soft(a[0]) }),
		"sum":        takes("iterable attribute=None start=0", sum),
		"title":      takes("s", func(r *run, a values, _ arguments) any { return r.titleFilter(r.str(a[0])) }),
		"tojson":     takes("x ensure_ascii=False indent=None separators=None sort_keys=False", tojson),
		"trim":       ofString("value chars=None", func(r *run, s string, a values) any { return strings.TrimFunc(s, r.among(a)) }),
		"truncate":   ofString("s length=255 killwords=False end='...' leeway=None", truncate),
		"unique":     takes("value case_sensitive=False attribute=None", unique),
		"upper":      ofString("s", func(r *run, s string, _ values) any { return r.upper(s) }),
		"wordcount": ofString("s", func(_ *run, s string, _ values) any {
			return int64(len(strings.FieldsFunc(s, func(c rune) bool { return c != '_' && !unicode.IsLetter(c) && !unicode.IsNumber(c) })))
		}),
	}
	filters["count"], filters["d"], filters["e"] = filters["length"], filters["default"], filters["escape"]
}

// soft is what str makes of a value that is none.
func (r *run) soft(v any) any { return as(v, r.str(v)) }

// ofString is a filter of what str makes of a value.
func ofString(parameters string, do func(r *run, s string, a values) any) *builtin {
	return takes(parameters, func(r *run, a values, _ arguments) any {
		s := r.str(a[0])
		r.step(len(s) / 16)
		return as(a[0], do(r, s, a))
	})
}

// copied is a new list of the elements of a value.
func (r *run) copied(v any) []any {
	items := r.items(v)
	r.made(16 * len(items))
	return append([]any{}, items...)
}

func absolute(r *run, a values, _ arguments) any {
	if !number(r.defined(a[0])) {
		r.fail("bad operand type for abs(): '%s'", kind(a[0]))
	}
	if f, ok := a[0].(float64); ok {
		return math.Abs(f)
	}
	if r.compare("<", a[0], int64(0)) < 0 {
		return r.arithmetic("*", a[0], int64(-1))
	}
	return r.arithmetic("+", a[0], int64(0))
}

func attributeFilter(r *run, a values, _ arguments) any {
	name := r.str(a[1])
	if value, ok := r.own(r.defined(a[0]), name); ok {
		return value
	}
	return undefined{called(a[0]) + " has no attribute '" + name + "'"}
}

func batches(r *run, a values, _ arguments) any {
	n := a.int(r, 1)
	if n < 1 {
		r.fail("batch: found %d, wanted at least 1", n)
	}
	var all []any
	for part := range slices.Chunk(r.copied(a[0]), n) {
		part = slices.Clip(part)
		if a[2] != nil && len(part) < n {
			more := n - len(part)
			r.times(16, int64(more))
			part = append(part, slices.Repeat([]any{a[2]}, more)...)
		}
		all = append(all, part)
	}
	return &iterator{"generator", all}
}

func sliceFilter(r *run, a values, _ arguments) any {
	list, n := r.copied(a[0]), a.int(r, 1)
	if n < 1 {
		r.fail("slice: found %d, wanted at least 1", n)
	}
	r.times(32, int64(n))
	var all []any
	for i := range n {
		size := len(list) / (n - i)
		if len(list)%(n-i) > 0 {
			size++
		}
		part := slices.Clip(list[:size])
		list = list[size:]
		if a[2] != nil && len(all) > 0 && len(part) < len(all[0].([]any)) {
			part = append(part, a[2])
		}
		all = append(all, part)
	}
	return &iterator{"generator", all}
}

func defaulted(_ *run, a values, _ arguments) any {
	if _, ok := a[0].(undefined); ok || truth(a[2]) && !truth(a[0]) {
		return a[1]
	}
	return a[0]
}

var escapes = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&#34;", "'", "&#39;")

func (r *run) escape(s string) string {
	r.made(5 * len(s))
	return escapes.Replace(s)
}

func first(r *run, a values, _ arguments) any {
	if it, ok := a[0].(*iterator); ok && len(it.items) > 0 {
		one := it.items[0]
		it.items = it.items[1:]
		return one
	}
	if s, ok := text(a[0]); ok {
		a[0] = s[:place(s, 1)]
	}
	if items := r.items(a[0]); len(items) > 0 {
		return items[0]
	}
	return undefined{"No first item, sequence was empty."}
}

func last(r *run, a values, _ arguments) any {
	if it, ok := a[0].(*iterator); ok {
		r.fail("'%s' object is not reversible, wanted a list", it.name)
	}
	if items := r.items(a[0]); len(items) > 0 {
		return as(a[0], items[len(items)-1])
	}
	return undefined{"No last item, sequence was empty."}
}

func length(r *run, a values, _ arguments) any {
	switch v := plain(a[0]).(type) {
	case string:
		return int64(r.length(v))
	case *Object:
		return int64(v.Len())
	case view:
		return int64(len(v.items))
	case *loop:
		return int64(len(v.items))
	case undefined:
		return int64(0)
	}
	list, ok := sequence(a[0])
	if !ok {
		r.fail("object of type '%s' has no len()", kind(a[0]))
	}
	return int64(len(list))
}

func indent(r *run, a values, _ arguments) any {
	s, ok := text(r.defined(a[0]))
	if !ok {
		r.fail("indent: found '%s', wanted a text", kind(a[0]))
	}
	by, ok := text(a[1])
	if !ok {
		by = strings.Repeat(" ", r.times(1, int64(a.int(r, 1))))
	}
	r.made(len(s))
	all := lines(s+"\n", false)
	for i, line := range all {
		if i > 0 && (line != "" || truth(a[3])) {
			r.made(len(by) + len(line))
			all[i] = by + line
		}
	}
	made := r.join(all, "\n")
	if truth(a[2]) {
		made = by + made
	}
	return as(a[0], made)
}

func floatFilter(r *run, a values, _ arguments) any {
	switch v := plain(a[0]).(type) {
	case string:
		if f, ok := parseFloat(v); ok {
			return f
		}
	default:
		if number(v) {
			return r.float(v)
		}
		r.defined(v)
	}
	return a[1]
}

func intFilter(r *run, a values, _ arguments) any {
	v := r.defined(a[0])
	if s, ok := text(v); ok {
		if n, ok := parseInt(s, int64(a.int(r, 2))); ok {
			return n
		}
		f, ok := parseFloat(s)
		if !ok {
			return a[1]
		}
		v = f
	}
	if f, ok := v.(float64); ok {
		if n, ok := whole(math.Trunc(f)); ok {
			return small(n)
		}
		return a[1]
	}
	if n := integer(v); n != nil {
		return small(n)
	}
	return a[1]
}

func itemsFilter(r *run, a values, _ arguments) any {
	if _, ok := a[0].(undefined); ok {
		return &iterator{"generator", nil}
	}
	if o, ok := mapping(a[0]); ok {
		return &iterator{"generator", r.pairs(o)}
	}
	r.fail("Can only get item pairs from a mapping.")
	return nil
}

func join(r *run, a values, _ arguments) any {
	var parts []string
	get := r.getter(a[2], nil)
	for _, item := range r.items(a[0]) {
		parts = append(parts, r.str(get(item)))
	}
	return r.join(parts, r.str(a[1]))
}

func replaceFilter(r *run, a values, _ arguments) any {
	n := -1
	if a[3] != nil {
		n = a.int(r, 3)
	}
	return r.replace(r.str(a[0]), r.str(a[1]), r.str(a[2]), n)
}

func reverse(r *run, a values, _ arguments) any {
	if s, ok := text(a[0]); ok {
		all := r.characters(s)
		slices.Reverse(all)
		return as(a[0], string(all))
	}
	all := r.copied(a[0])
	slices.Reverse(all)
	return &iterator{"list_reverseiterator", all}
}

func round(r *run, a values, _ arguments) any {
	if !number(r.defined(a[0])) {
		r.fail("type %s doesn't define __round__ method", kind(a[0]))
	}
	precision := a.int(r, 1)
	if precision > 300 || precision < -300 {
		r.fail("round: found the precision %d, wanted -300 to 300", precision)
	}
	scale := math.Pow(10, float64(precision))
	switch a[2] {
	case "ceil":
		return math.Ceil(r.float(a[0])*scale) / scale
	case "floor":
		return math.Floor(r.float(a[0])*scale) / scale
	case "common":
	default:
		r.fail("method must be common, ceil or floor")
	}
	f, isFloat := a[0].(float64)
	switch {
	case !isFloat && precision >= 0:
		return r.arithmetic("+", a[0], int64(0))
	case !isFloat:
		n, _ := whole(math.RoundToEven(r.float(a[0])*scale) / scale)
		return small(n)
	case precision < 0:
		return math.RoundToEven(f*scale) / scale
	}
	f, _ = strconv.ParseFloat(strconv.FormatFloat(f, 'f', precision, 64), 64)
	return f
}

func (r *run) titleFilter(s string) string {
	r.made(2 * len(s))
	var b strings.Builder
	begins := true
	for _, c := range s {
		switch {
		case space(c) || strings.ContainsRune("-({[<", c):
			begins = true
			b.WriteRune(c)
		case begins:
			begins = false
			b.WriteString(r.upper(string(c)))
		default:
			b.WriteRune(unicode.ToLower(c))
		}
	}
	return b.String()
}

func truncate(r *run, s string, a values) any {
	length, leeway, end := a.int(r, 1), 5, a.text(r, 3)
	if a[4] != nil {
		leeway = a.int(r, 4)
	}
	if length < r.length(end) || leeway < 0 {
		r.fail("truncate: found the length %d and leeway %d, wanted at least %d and 0", length, leeway, r.length(end))
	}
	if r.length(s) <= length+leeway {
		return s
	}
	kept := s[:place(s, length-r.length(end))]
	if i := strings.LastIndexByte(kept, ' '); !truth(a[2]) && i >= 0 {
		kept = kept[:i]
	}
	return r.added(as(a[0], kept), a[3])
}

// known is a filter or test that map or select name.
func known(r *run, what string, all map[string]*builtin, name any) *builtin {
	s := r.str(name)
	b, ok := all[s]
	if !ok {
		r.fail("found the %s %q, wanted one that is known%s", what, s, suggest.DidYouMean(s, slices.Sorted(maps.Keys(all))))
	}
	return b
}
