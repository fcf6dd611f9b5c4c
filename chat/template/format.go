package template

import (
	"math"
	"regexp"
	"strconv"
	"strings"
)

// spec is how a value is written, after % or a colon in braces.
type spec struct {
	fill      string
	align     byte // 0: as the kind of value has it
	sign      byte
	alternate bool
	comma     bool
	width     int
	precision int // -1: none
	verb      byte
}

var percentPattern = regexp.MustCompile(`^%(?:\(([^)]*)\))?([-+ #0]*)(\*|\d{1,9})?(?:\.(\d{1,9}))?[hlL]?(.)`)

// percent is of % values. Markup takes values as it takes what joins it.
func (r *run) percent(of, v any) any {
	format, _ := text(of)
	_, marked := of.(markup)
	all, several := v.(tuple)
	if !several {
		all = tuple{v}
	}
	used := 0
	next := func() any {
		if used == len(all) {
			r.fail("not enough arguments for format string")
		}
		used++
		return all[used-1]
	}
	var b strings.Builder
	byName := false
	for format != "" {
		r.step(1)
		at := strings.IndexByte(format, '%')
		if at < 0 {
			break
		}
		r.put(&b, format[:at])
		m := percentPattern.FindStringSubmatch(format[at:])
		if m == nil {
			r.fail("incomplete format")
		}
		format = format[at+len(m[0]):]
		if m[5] == "%" {
			r.put(&b, "%")
			continue
		}
		p := spec{fill: " ", align: '>', precision: -1, verb: m[5][0]}
		for _, flag := range []byte(m[2]) {
			switch flag {
			case '-':
				p.align = '<'
			case '0':
				p.fill = "0"
			case '#':
				p.alternate = true
			default:
				p.sign = max(p.sign, flag) // + wins over a space
			}
		}
		if p.align == '<' {
			p.fill = " "
		}
		if m[3] == "*" {
			p.width = values{next()}.int(r, 0)
		} else if m[3] != "" {
			p.width, _ = strconv.Atoi(m[3])
		}
		if m[4] != "" {
			p.precision, _ = strconv.Atoi(m[4])
		}
		var one any
		if strings.HasPrefix(m[0], "%(") {
			o, ok := mapping(v)
			if !ok {
				r.fail("format requires a mapping")
			}
			byName = true
			if one, ok = o.Get(m[1]); !ok {
				r.fail("the format wants the key %q, which is not there", m[1])
			}
		} else {
			one = next()
		}
		r.put(&b, r.verb(p, one, marked))
	}
	_, mapped := v.(*Object)
	_, listed := v.([]any) // which Python takes for a mapping too
	if used < len(all) && !byName && !mapped && !listed {
		r.fail("not all arguments converted during string formatting")
	}
	r.put(&b, format)
	return as(of, b.String())
}

// verb writes a value after %.
func (r *run) verb(p spec, v any, marked bool) string {
	switch p.verb {
	case 's', 'r', 'a':
		text := r.str(v)
		if p.verb != 's' {
			v, text = nil, r.repr(v)
		}
		if _, safe := v.(markup); marked && !safe {
			text = r.escape(text)
		}
		p.fill, p.verb = " ", 's'
		return r.formatted(p, text)
	case 'c':
		if marked {
			break
		}
		if n := integer(v); n != nil {
			v = string(rune(clamped(n)))
		}
		p.verb, p.fill = 's', " "
		return r.formatted(p, r.str(v))
	case 'i', 'u':
		p.verb = 'd'
	}
	if !number(r.defined(v)) || marked && strings.IndexByte("cxXo", p.verb) >= 0 {
		r.fail("%%%c format: a real number is required, not %s", p.verb, kind(v))
	}
	if f, ok := v.(float64); ok && strings.IndexByte("dxXo", p.verb) >= 0 {
		n, ok := whole(math.Trunc(f))
		if !ok || p.verb != 'd' {
			r.fail("%%%c format: an integer is required, not float", p.verb)
		}
		v = small(n)
	}
	if p.fill == "0" {
		p.align = '='
	}
	return r.formatted(p, v)
}

// formatted writes a value with a spec.
func (r *run) formatted(p spec, v any) string {
	text, isText := text(v)
	if isText {
		if p.verb != 's' && p.verb != 0 {
			r.fail("Unknown format code '%c' for object of type 'str'", p.verb)
		}
		if p.precision >= 0 {
			text = text[:place(text, p.precision)]
		}
		if p.align == 0 {
			p.align = '<'
		}
		return r.aligned(p, "", text)
	}
	if !number(v) {
		if p != (spec{fill: " ", precision: -1}) {
			r.fail("unsupported format string passed to %s.__format__", kind(v))
		}
		return r.str(v)
	}
	sign, digits := r.digits(p, v)
	if p.align == 0 {
		p.align = '>'
	}
	return r.aligned(p, sign, digits)
}

// digits are those of a number, and what stands before them.
func (r *run) digits(p spec, v any) (sign, text string) {
	precision := p.precision
	if precision > 1000 {
		r.fail("a format of %d digits, wanted at most 1000", precision)
	}
	if _, isBool := v.(bool); isBool && p.verb == 0 {
		return "", r.str(v)
	}
	n := integer(v)
	switch p.verb {
	case 0, 'd', 'n', 'x', 'X', 'o', 'b':
		if n == nil && p.verb == 0 {
			text = printFloat(v.(float64))
			if precision >= 0 {
				text = strconv.FormatFloat(v.(float64), 'g', max(precision, 1), 64)
			}
			break
		}
		if n == nil {
			r.fail("Unknown format code '%c' for object of type 'float'", p.verb)
		}
		base, other := map[byte]int{'x': 16, 'X': 16, 'o': 8, 'b': 2}[p.verb]
		if !other {
			base = 10
		}
		r.step(n.BitLen() / 8)
		text = n.Text(base)
		if p.verb == 'X' {
			text = strings.ToUpper(text)
		}
		if p.alternate && other {
			sign = "0" + string(p.verb)
		}
	case 'e', 'E', 'f', 'F', 'g', 'G', '%':
		f := r.float(v)
		if precision < 0 {
			precision = 6
		}
		verb := p.verb
		if verb == '%' {
			f, verb = f*100, 'f'
		}
		if verb == 'g' || verb == 'G' {
			precision = max(precision, 1)
		}
		text = strings.ToLower(strconv.FormatFloat(f, verb|0x20, precision, 64))
		if verb < 'a' {
			text = strings.ToUpper(text)
		}
		if p.verb == '%' {
			text += "%"
		}
	default:
		r.fail("Unknown format code '%c' for object of type '%s'", p.verb, kind(v))
	}
	if strings.HasPrefix(text, "-") {
		return "-" + sign, p.grouped(text[1:])
	}
	text = strings.TrimPrefix(text, "+")
	if p.sign == '+' || p.sign == ' ' {
		sign = string(p.sign) + sign
	}
	return sign, p.grouped(text)
}

// grouped puts commas between thousands.
func (p spec) grouped(digits string) string {
	if !p.comma {
		return digits
	}
	n := strings.IndexFunc(digits, func(c rune) bool { return c < '0' || c > '9' })
	if n < 0 {
		n = len(digits)
	}
	out := digits[n:]
	for ; n > 3; n -= 3 {
		out = "," + digits[n-3:n] + out
	}
	return digits[:n] + out
}

func (r *run) aligned(p spec, sign, text string) string {
	switch p.align {
	case '=':
		return sign + r.pad(text, p.width-len(sign), p.fill, 'r')
	case '<':
		return r.pad(sign+text, p.width, p.fill, 'l')
	case '^':
		more := p.width - r.length(sign+text)
		if more <= 0 {
			return sign + text
		}
		r.times(len(p.fill), int64(more))
		return strings.Repeat(p.fill, more/2) + sign + text + strings.Repeat(p.fill, more-more/2)
	}
	return r.pad(sign+text, p.width, p.fill, 'r')
}

var (
	fieldPattern = regexp.MustCompile(`^([^!:{}]*)(?:!([rsa]))?(?::([^{}]*))?\}`)
	specPattern  = regexp.MustCompile(`^(?:(.)?([<>=^]))?([-+ ])?(#)?(0)?(\d{1,9})?(,)?(?:\.(\d{1,9}))?([a-zA-Z%])?$`)
	stepPattern  = regexp.MustCompile(`^(?:\.(\w+)|\[([^\]]+)\])`)
)

// format is of.format(values). Markup escapes what it is given, however that is written.
func (r *run) format(of any, a arguments) any {
	format, ok := text(r.defined(of))
	if !ok {
		r.fail("descriptor 'format' requires a 'str', found '%s'", kind(of))
	}
	_, marked := of.(markup)
	var b strings.Builder
	auto := 0
	for format != "" {
		r.step(1)
		at := strings.IndexAny(format, "{}")
		if at < 0 {
			break
		}
		r.put(&b, format[:at])
		c := format[at]
		format = format[at+1:]
		if format != "" && format[0] == c {
			r.put(&b, format[:1])
			format = format[1:]
			continue
		}
		m := fieldPattern.FindStringSubmatch(format)
		if c == '}' || m == nil {
			r.fail("found a single %q in the format, wanted {name} or two of it", string(c))
		}
		format = format[len(m[0]):]
		v := r.field(m[1], a, &auto)
		switch m[2] {
		case "s":
			v = r.str(v)
		case "r", "a":
			v = r.repr(v)
		}
		_, safe := v.(markup)
		text := ""
		switch {
		case m[3] == "":
			text = r.str(v)
		case safe && marked:
			r.fail("Unsupported format specification for Markup.")
		default:
			text = r.formatted(r.spec(m[3]), v)
		}
		if marked && !safe {
			text = r.escape(text)
		}
		r.put(&b, text)
	}
	r.put(&b, format)
	return b.String()
}

func (r *run) spec(s string) spec {
	m := specPattern.FindStringSubmatch(s)
	if m == nil {
		r.fail("found the format %.40q, wanted one such as >8 or .2f", s)
	}
	p := spec{fill: " ", precision: -1, alternate: m[4] != "", comma: m[7] != ""}
	if m[2] != "" {
		p.align = m[2][0]
	}
	if m[5] != "" {
		p.fill = "0"
		if p.align == 0 {
			p.align = '='
		}
	}
	if m[1] != "" {
		p.fill = m[1]
	}
	if m[3] != "" {
		p.sign = m[3][0]
	}
	p.width, _ = strconv.Atoi(m[6])
	if m[8] != "" {
		p.precision, _ = strconv.Atoi(m[8])
	}
	if m[9] != "" {
		p.verb = m[9][0]
	}
	return p
}

// field is what the name in braces stands for.
func (r *run) field(name string, a arguments, auto *int) any {
	end := strings.IndexAny(name, ".[")
	if end < 0 {
		end = len(name)
	}
	first, rest := name[:end], name[end:]
	var v any
	place, err := strconv.Atoi(first)
	if first == "" {
		place, err = *auto, nil
		*auto++
	}
	switch {
	case err == nil && place < len(a.list):
		v = a.list[place]
	case err == nil:
		r.fail("Replacement index %d out of range for positional args tuple", place)
	default:
		there := false
		if v, there = a.named.Get(first); !there {
			r.fail("the format wants the argument %q, which is not there", first)
		}
	}
	for rest != "" {
		m := stepPattern.FindStringSubmatch(rest)
		switch {
		case m == nil:
			r.fail("found %.40q in the format, wanted .name or [key]", rest)
		case m[1] != "":
			v = r.attribute(v, m[1], false)
		default:
			var key any = m[2]
			if n, err := strconv.ParseInt(m[2], 10, 64); err == nil {
				key = n
			}
			v = r.item(v, key)
		}
		rest = rest[len(m[0]):]
	}
	return v
}
