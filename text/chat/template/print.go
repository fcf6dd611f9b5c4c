package template

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// A style is how values are written: as Python's repr does, or as JSON.
type style struct {
	json       bool
	ascii      bool    // in JSON: nothing else
	indent     *string // nil: all in one line
	item, pair string  // between values, and behind a key
}

// str is what Python's str makes of a value.
func (r *run) str(v any) string {
	if s, ok := text(v); ok {
		return s
	}
	if _, ok := v.(undefined); ok {
		return ""
	}
	return r.repr(v)
}

// repr is what Python's repr makes of a value.
func (r *run) repr(v any) string { return r.inStyle(v, style{item: ", ", pair: ": "}) }

// tojson is Python's json.dumps(ensure_ascii=False), as transformers has it.
func tojson(r *run, a values) any {
	s := style{json: true, item: ", ", pair: ": ", ascii: truth(a[1])}
	if !a.none(2) {
		indent, ok := text(a[2])
		if !ok {
			indent = strings.Repeat(" ", r.times(1, a.int(r, 2)))
		}
		s.indent, s.item = &indent, ","
	}
	if !a.none(3) {
		both, ok := sequence(a[3])
		if !ok || len(both) != 2 {
			r.fail("tojson: separators: found '%s', wanted two texts", kind(a[3]))
		}
		s.item, s.pair = r.str(both[0]), r.str(both[1])
	}
	return r.inStyle(a[0], s)
}

func (r *run) inStyle(v any, s style) string {
	var b strings.Builder
	r.print(&b, v, s, "\n")
	return b.String()
}

func (r *run) put(b *strings.Builder, s string) {
	r.made(len(s))
	b.WriteString(s)
}

// named are values that JSON calls otherwise than Python.
var named = map[bool]map[any]string{
	false: {nil: "None", true: "True", false: "False", "inf": "inf", "-inf": "-inf", "nan": "nan"},
	true:  {nil: "null", true: "true", false: "false", "inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"},
}

func (r *run) print(b *strings.Builder, v any, s style, newline string) {
	r.deeper()
	defer r.shallower()
	r.step(1)
	switch v := v.(type) {
	case nil, bool:
		r.put(b, named[s.json][v])
	case int64:
		r.put(b, strconv.FormatInt(v, 10))
	case json.Number:
		r.put(b, string(v))
	case float64:
		f := printFloat(v)
		if name, ok := named[s.json][f]; ok {
			f = name
		}
		r.put(b, f)
	case string:
		r.quote(b, v, s)
	case markup:
		if s.json {
			r.quote(b, string(v), s)
			return
		}
		r.put(b, "Markup(")
		r.quote(b, string(v), s)
		r.put(b, ")")
	case *encoded:
		if s.json {
			r.print(b, v.object, s, newline)
			return
		}
		r.quote(b, v.text, s)
	case []any, tuple:
		list, begin, end := r.items(v), "[", "]"
		if _, is := v.(tuple); is && !s.json {
			begin, end = "(", ")"
			if len(list) == 1 {
				end = ",)"
			}
		}
		r.printAll(b, begin, end, len(list), s, newline, func(i int, newline string) { r.print(b, list[i], s, newline) })
	case *Object:
		r.printAll(b, "{", "}", v.Len(), s, newline, func(i int, newline string) {
			if key := v.keys[i]; s.json {
				r.quote(b, r.str(key), s)
			} else {
				r.print(b, key, s, newline)
			}
			r.put(b, s.pair)
			r.print(b, v.values[i], s, newline)
		})
	default:
		_, nothing := v.(undefined)
		switch {
		case s.json:
			r.fail("tojson: Object of type %s is not JSON serializable", kind(v))
		case !nothing: // Python writes an address, or what no model is to learn
			r.fail("found '%s', wanted a value that can be written", kind(v))
		}
		r.put(b, "Undefined")
	}
}

func (r *run) printAll(b *strings.Builder, begin, end string, n int, s style, newline string, part func(i int, newline string)) {
	r.put(b, begin)
	inner, outer := "", ""
	if s.indent != nil && n > 0 {
		r.made(len(newline) + len(*s.indent))
		inner, outer = newline+*s.indent, newline
	}
	for i := range n {
		if i > 0 {
			r.put(b, s.item)
		}
		r.put(b, inner)
		part(i, inner)
	}
	r.put(b, outer+end)
}

// shortEscapes are those of one letter, in Python and in JSON.
var shortEscapes = map[bool]map[rune]string{
	false: {'\\': `\\`, '\n': `\n`, '\r': `\r`, '\t': `\t`},
	true:  {'\\': `\\`, '\n': `\n`, '\r': `\r`, '\t': `\t`, '"': `\"`, '\f': `\f`, '\b': `\b`},
}

// quote writes a text: in JSON between double quotes, in Python between single ones, or between double ones where it
// has single ones alone.
func (r *run) quote(b *strings.Builder, s string, in style) {
	r.made(len(s))
	escapes, quote := shortEscapes[in.json], '"'
	if !in.json && (!strings.Contains(s, "'") || strings.Contains(s, `"`)) {
		quote = '\''
	}
	b.WriteRune(quote)
	for _, c := range s {
		escape, short := escapes[c]
		switch {
		case short:
			b.WriteString(escape)
		case in.json && (c < 0x20 || in.ascii && c > 0x7e && c < 0x10000):
			fmt.Fprintf(b, `\u%04x`, c)
		case in.json && in.ascii && c >= 0x10000:
			high, low := utf16.EncodeRune(c)
			fmt.Fprintf(b, `\u%04x\u%04x`, high, low)
		case in.json:
			b.WriteRune(c)
		case c == quote:
			b.WriteString(`\` + string(c))
		case c == ' ' || c > ' ' && c < 0x7f || c >= utf8.RuneSelf && unicode.IsPrint(c):
			b.WriteRune(c)
		case c < 0x100:
			fmt.Fprintf(b, `\x%02x`, c)
		case c < 0x10000:
			fmt.Fprintf(b, `\u%04x`, c)
		default:
			fmt.Fprintf(b, `\U%08x`, c)
		}
	}
	b.WriteRune(quote)
}
