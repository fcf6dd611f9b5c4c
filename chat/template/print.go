package template

import (
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

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
func (r *run) repr(v any) string {
	var b strings.Builder
	r.print(&b, v)
	return b.String()
}

func (r *run) put(b *strings.Builder, s string) {
	r.made(len(s))
	b.WriteString(s)
}

func (r *run) print(b *strings.Builder, v any) {
	r.deeper()
	defer r.shallower()
	r.step(1)
	switch v := v.(type) {
	case nil:
		r.put(b, "None")
	case bool:
		r.put(b, map[bool]string{true: "True", false: "False"}[v])
	case int64:
		r.put(b, strconv.FormatInt(v, 10))
	case *big.Int:
		r.step(v.BitLen() / 8)
		r.put(b, v.String())
	case float64:
		r.put(b, printFloat(v))
	case string:
		r.quote(b, v)
	case *encoded:
		r.quote(b, v.text)
	case markup:
		r.put(b, "Markup(")
		r.quote(b, string(v))
		r.put(b, ")")
	case []any:
		r.put(b, "[")
		r.printItems(b, v)
		r.put(b, "]")
	case tuple:
		r.put(b, "(")
		r.printItems(b, v)
		if len(v) == 1 {
			r.put(b, ",")
		}
		r.put(b, ")")
	case *Object:
		r.printObject(b, v)
	case view:
		r.put(b, v.name+"([")
		r.printItems(b, v.items)
		r.put(b, "])")
	case *namespace:
		r.put(b, "<Namespace ")
		r.printObject(b, &v.Object)
		r.put(b, ">")
	case *macro:
		r.put(b, "<Macro "+v.of.name+">")
	case undefined:
		r.put(b, "Undefined")
	default:
		r.put(b, fmt.Sprintf("<%s>", kind(v)))
	}
}

func (r *run) printItems(b *strings.Builder, items []any) {
	for i, item := range items {
		if i > 0 {
			r.put(b, ", ")
		}
		r.print(b, item)
	}
}

func (r *run) printObject(b *strings.Builder, o *Object) {
	r.put(b, "{")
	for i, key := range o.keys {
		if i > 0 {
			r.put(b, ", ")
		}
		r.print(b, key)
		r.put(b, ": ")
		r.print(b, o.values[i])
	}
	r.put(b, "}")
}

// quote writes a text as Python does: between single quotes, or between double ones where it has single ones alone.
func (r *run) quote(b *strings.Builder, s string) {
	r.made(len(s))
	quote := '\''
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		quote = '"'
	}
	b.WriteRune(quote)
	for _, c := range s {
		switch {
		case c == quote || c == '\\':
			b.WriteByte('\\')
			b.WriteRune(c)
		case c == '\n':
			b.WriteString(`\n`)
		case c == '\r':
			b.WriteString(`\r`)
		case c == '\t':
			b.WriteString(`\t`)
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
