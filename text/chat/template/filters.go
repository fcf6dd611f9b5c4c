package template

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// filters are those of Jinja that published templates use, and few beside them. Nothing is escaped on its own.
var filters map[string]builtin

func init() { // map looks filters up
	filters = map[string]builtin{
		"capitalize": textMethods["capitalize"],
		"default":    takes("value default_value? boolean?", defaulted),
		"dictsort":   takes("value case_sensitive? by? reverse?", dictsort),
		"first":      takes("seq", first),
		"float":      takes("value default?", floatFilter),
		"indent":     takes("s width? first? blank?", indent),
		"int":        takes("value default?", intFilter),
		"items":      takes("value", itemsFilter),
		"join":       takes("value d? attribute?", join),
		"last":       takes("seq", last),
		"length":     takes("obj", length),
		"list":       takes("value", func(r *run, a values) any { return r.copied(a[0]) }),
		"lower":      textMethods["lower"],
		"map":        mapped,
		"reject":     selected(false, false),
		"rejectattr": selected(false, true),
		"replace": takes("s old new count?", func(r *run, a values) any {
			return r.replace(r.str(a[0]), r.str(a[1]), r.str(a[2]), a.count(r, 3))
		}),
		"reverse":    takes("value", reverse),
		"safe":       takes("value", safe),
		"select":     selected(true, false),
		"selectattr": selected(true, true),
		"sort":       takes("value reverse? case_sensitive? attribute?", sorted),
		"string":     ofText("object", func(_ *run, s string, _ values) any { return s }),
		"title":      takes("s", func(r *run, a values) any { return r.title(r.str(a[0]), beforeWord) }),
		"tojson":     takes("x ensure_ascii? indent? separators?", tojson),
		"trim":       textMethods["strip"],
		"unique":     takes("value case_sensitive? attribute?", unique),
		"upper":      textMethods["upper"],
	}
	filters["count"], filters["d"] = filters["length"], filters["default"]
}

// beforeWord says whether the filter title takes what follows for a word.
func beforeWord(c rune) bool { return space(c) || strings.ContainsRune("-({[<", c) }

func safe(r *run, a values) any {
	s := r.str(a[0])
	if r.earlier {
		return s
	}
	return markup(s)
}

// copied is a new list of the elements of a value.
func (r *run) copied(v any) []any {
	items := r.items(v)
	r.made(16 * len(items))
	return append([]any{}, items...)
}

func defaulted(_ *run, a values) any {
	if _, ok := a[0].(undefined); ok || truth(a[2]) && !truth(a[0]) {
		return a.or(1, "")
	}
	return a[0]
}

func first(r *run, a values) any {
	if g, ok := a[0].(*generator); ok && len(g.items) > 0 {
		one := g.items[0]
		g.items = g.items[1:]
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

func last(r *run, a values) any {
	if _, ok := a[0].(*generator); ok {
		r.fail("'generator' object is not reversible, wanted a list")
	}
	if items := r.items(a[0]); len(items) > 0 {
		return as(a[0], items[len(items)-1])
	}
	return undefined{"No last item, sequence was empty."}
}

func length(r *run, a values) any {
	if s, ok := text(a[0]); ok {
		return int64(r.length(s))
	}
	n, has := elements(a[0])
	if _, nothing := a[0].(undefined); !has && !nothing {
		r.fail("object of type '%s' has no len()", kind(a[0]))
	}
	return int64(n)
}

func indent(r *run, a values) any {
	s, by := a.text(r, 0), "    "
	if width, ok := text(a[1]); ok {
		by = width
	} else if !a.none(1) {
		by = strings.Repeat(" ", r.times(1, a.int(r, 1)))
	}
	r.made(len(s))
	all := lines(s + "\n")
	for i, line := range all {
		if i == 0 && truth(a[2]) || i > 0 && (line != "" || truth(a[3])) {
			r.made(len(by) + len(line))
			all[i] = by + line
		}
	}
	return as(a[0], r.join(all, "\n"))
}

func floatFilter(r *run, a values) any {
	s, isText := text(r.defined(a[0]))
	if f, ok := parseFloat(s); isText && ok {
		return f
	}
	if number(a[0]) {
		return float(a[0])
	}
	return a.or(1, 0.0)
}

func intFilter(r *run, a values) any {
	v := r.defined(a[0])
	if s, ok := text(v); ok {
		if n, err := strconv.ParseInt(trimSpace(s), 10, 64); err == nil {
			return n
		}
		if v, ok = parseFloat(s); !ok {
			return a.or(1, int64(0))
		}
	}
	if n, ok := integer(v); ok {
		return n
	}
	f, ok := v.(float64)
	switch f = math.Trunc(f); {
	case !ok || math.IsInf(f, 0) || math.IsNaN(f):
		return a.or(1, int64(0))
	case f < -1<<63 || f >= 1<<63:
		r.fail("int: found %s, wanted an integer of at most 64 bits", printFloat(f))
	}
	return int64(f)
}

func itemsFilter(r *run, a values) any {
	if _, ok := a[0].(undefined); ok {
		return &generator{}
	}
	o, ok := mapping(a[0])
	if !ok {
		r.fail("Can only get item pairs from a mapping.")
	}
	return &generator{r.pairs(o)}
}

func join(r *run, a values) any {
	var parts []string
	get := r.getter(a.or(2, nil), nil)
	for _, item := range r.items(a[0]) {
		parts = append(parts, r.str(get(item)))
	}
	return r.join(parts, r.str(a.or(1, "")))
}

func reverse(r *run, a values) any {
	if _, ok := text(a[0]); ok {
		back := int64(-1)
		return r.slice(a[0], [3]*int64{2: &back})
	}
	all := r.copied(a[0])
	slices.Reverse(all)
	return &generator{all}
}
