package template

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"slices"
	"strings"

	"gputrain/internal/stranger"
)

// deepestJSON bounds what Decode takes, as encoding/json bounds what it reads.
const deepestJSON = 1000

// Decode reads JSON as a value for templates: objects keep the order of their keys, of a key that comes twice the last value counts. Half of a
// surrogate pair is a *SurrogateError.
func Decode(raw []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	value, err := decode(d, 0)
	if err == nil {
		if _, more := d.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("found more after the value, wanted its end")
		}
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = errors.New("ends in the middle of a value")
	}
	if err != nil {
		return nil, stranger.Told(raw, err)
	}
	if err := CheckSurrogates(raw); err != nil {
		return nil, err
	}
	return value, nil
}

func decode(d *json.Decoder, depth int) (any, error) {
	if depth > deepestJSON {
		return nil, fmt.Errorf("values are nested more than %d deep, wanted at most so many", deepestJSON)
	}
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch t := t.(type) {
	case json.Number:
		return decodeNumber(t.String())
	case json.Delim:
		if t == '[' {
			list := []any{}
			for d.More() {
				value, err := decode(d, depth+1)
				if err != nil {
					return nil, err
				}
				list = append(list, value)
			}
			_, err := d.Token()
			return list, err
		}
		o := &Object{}
		for d.More() {
			key, err := d.Token()
			if err != nil {
				return nil, err
			}
			value, err := decode(d, depth+1)
			if err != nil {
				return nil, err
			}
			o.Set(key.(string), value)
		}
		_, err := d.Token()
		return o, err
	}
	return t, nil // nil, bool or string
}

func decodeNumber(s string) (any, error) {
	if !strings.ContainsAny(s, ".eE") {
		if n, ok := parseInt(s, 10); ok {
			return n, nil
		}
		return nil, fmt.Errorf("found the number %.40s, wanted a shorter one", s)
	}
	f, ok := parseFloat(s)
	if !ok {
		return nil, fmt.Errorf("found the number %.40s, wanted one that a float can be", s)
	}
	return f, nil
}

// jsonStyle is how tojson writes.
type jsonStyle struct {
	indent     *string // nil: all in one line
	item, pair string
	sorted     bool
	plain      bool // ASCII alone
}

// tojson is Python's json.dumps(ensure_ascii=False), as transformers has it.
func tojson(r *run, a values, _ arguments) any {
	style := jsonStyle{item: ", ", pair: ": ", sorted: truth(a[4]), plain: truth(a[1])}
	if a[2] != nil {
		indent, ok := text(a[2])
		if !ok {
			indent = strings.Repeat(" ", r.times(1, int64(a.int(r, 2))))
		}
		style.indent, style.item = &indent, ","
	}
	if a[3] != nil {
		both, ok := sequence(a[3])
		if !ok || len(both) != 2 {
			r.fail("tojson: separators: found '%s', wanted two texts", kind(a[3]))
		}
		style.item, style.pair = r.str(both[0]), r.str(both[1])
	}
	var b strings.Builder
	r.json(&b, a[0], style, "\n")
	return b.String()
}

func (r *run) json(b *strings.Builder, v any, style jsonStyle, newline string) {
	r.deeper()
	defer r.shallower()
	r.step(1)
	switch v := v.(type) {
	case nil:
		r.put(b, "null")
	case bool:
		r.put(b, map[bool]string{true: "true", false: "false"}[v])
	case int64, *big.Int:
		r.print(b, v)
	case float64:
		r.put(b, jsonFloat(v))
	case string:
		r.jsonText(b, v, style.plain)
	case markup:
		r.jsonText(b, string(v), style.plain)
	case *encoded:
		r.json(b, v.object, style, newline)
	case []any:
		r.jsonParts(b, "[", "]", len(v), style, newline, func(i int, newline string) { r.json(b, v[i], style, newline) })
	case tuple:
		r.json(b, []any(v), style, newline)
	case *Object:
		order := make([]int, v.Len())
		for i := range order {
			order[i] = i
		}
		r.made(8 * len(order))
		if style.sorted {
			slices.SortStableFunc(order, func(i, j int) int { return r.compare("<", v.keys[i], v.keys[j]) })
		}
		r.jsonParts(b, "{", "}", v.Len(), style, newline, func(i int, newline string) {
			r.jsonText(b, r.jsonKey(v.keys[order[i]]), style.plain)
			r.put(b, style.pair)
			r.json(b, v.values[order[i]], style, newline)
		})
	default:
		r.fail("tojson: Object of type %s is not JSON serializable", kind(v))
	}
}

func (r *run) jsonParts(b *strings.Builder, begin, end string, n int, style jsonStyle, newline string, part func(i int, newline string)) {
	r.put(b, begin)
	inner := newline
	if style.indent != nil {
		r.made(len(newline) + len(*style.indent))
		inner += *style.indent
	}
	for i := range n {
		if i > 0 {
			r.put(b, style.item)
		}
		if style.indent != nil {
			r.put(b, inner)
		}
		part(i, inner)
	}
	if style.indent != nil && n > 0 {
		r.put(b, newline)
	}
	r.put(b, end)
}

func (r *run) jsonKey(key any) string {
	switch k := plain(key).(type) {
	case string:
		return k
	case nil:
		return "null"
	case bool:
		return map[bool]string{true: "true", false: "false"}[k]
	case float64:
		return jsonFloat(k)
	case int64, *big.Int:
		return r.repr(k)
	}
	r.fail("tojson: keys must be str, int, float, bool or None, not %s", kind(key))
	return ""
}

func jsonFloat(f float64) string {
	switch {
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	case math.IsNaN(f):
		return "NaN"
	}
	return printFloat(f)
}

var jsonEscapes = map[rune]string{'"': `\"`, '\\': `\\`, '\n': `\n`, '\r': `\r`, '\t': `\t`, '\f': `\f`, '\b': `\b`}

func (r *run) jsonText(b *strings.Builder, s string, plain bool) {
	r.made(len(s))
	b.WriteByte('"')
	for _, c := range s {
		escape, ok := jsonEscapes[c]
		switch {
		case ok:
			b.WriteString(escape)
		case c < 0x20, plain && c > 0x7e && c < 0x10000:
			fmt.Fprintf(b, `\u%04x`, c)
		case plain && c >= 0x10000:
			c -= 0x10000
			fmt.Fprintf(b, `\u%04x\u%04x`, 0xd800+c>>10, 0xdc00+c&0x3ff)
		default:
			b.WriteRune(c)
		}
	}
	b.WriteByte('"')
}
