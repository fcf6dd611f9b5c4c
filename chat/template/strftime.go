package template

import (
	"fmt"
	"strings"
)

// strftime writes the time as C's function of that name does in its own language, English.
func (r *run) strftime(format string) string {
	var b strings.Builder
	r.strftimeTo(&b, format)
	return b.String()
}

// layouts are directives in Go's words.
var layouts = map[byte]string{
	'Y': "2006", 'y': "06", 'm': "01", 'B': "January", 'b': "Jan", 'h': "Jan", 'd': "02", 'e': "_2", 'H': "15", 'I': "03", 'M': "04", 'S': "05", 'p': "PM",
	'P': "pm", 'A': "Monday", 'a': "Mon", 'f': "000000", 'z': "", 'Z': "", 'j': "002", 'l': "3",
}

// combined are directives that stand for several.
var combined = map[byte]string{
	'F': "%Y-%m-%d", 'D': "%m/%d/%y", 'x': "%m/%d/%y", 'T': "%H:%M:%S", 'X': "%H:%M:%S", 'R': "%H:%M", 'r': "%I:%M:%S %p", 'c': "%a %b %e %H:%M:%S %Y",
}

func (r *run) strftimeTo(b *strings.Builder, format string) {
	for i := 0; i < len(format); i++ {
		r.step(1)
		if format[i] != '%' || i+1 == len(format) {
			r.put(b, format[i:i+1])
			continue
		}
		i++
		flag := byte(0)
		if strings.IndexByte("-_0^#", format[i]) >= 0 && i+1 < len(format) {
			flag = format[i]
			i++
		}
		r.put(b, flagged(flag, r.directive(format[i])))
	}
}

// flagged is a directive after %- (nothing in front), %_ (spaces in front), %0 (zeros in front), %^ (large letters).
func flagged(flag byte, s string) string {
	padding := 0
	for padding < len(s)-1 && (s[padding] == '0' || s[padding] == ' ') {
		padding++
	}
	switch flag {
	case '-':
		return s[padding:]
	case '^', '#':
		return strings.ToUpper(s)
	case '_':
		return strings.Repeat(" ", padding) + s[padding:]
	case '0':
		return strings.Repeat("0", padding) + s[padding:]
	}
	return s
}

func (r *run) directive(c byte) string {
	t := r.now
	if layout, ok := layouts[c]; ok {
		switch c {
		case 'f':
			return fmt.Sprintf("%06d", t.Nanosecond()/1000)
		case 'l':
			return fmt.Sprintf("%2s", t.Format(layout))
		}
		return t.Format(layout)
	}
	if parts, ok := combined[c]; ok {
		var b strings.Builder
		r.strftimeTo(&b, parts)
		return b.String()
	}
	year, week := t.ISOWeek()
	weekday := int(t.Weekday())
	switch c {
	case '%':
		return "%"
	case 'n':
		return "\n"
	case 't':
		return "\t"
	case 'C':
		return fmt.Sprintf("%02d", t.Year()/100)
	case 'G':
		return fmt.Sprintf("%04d", year)
	case 'V':
		return fmt.Sprintf("%02d", week)
	case 'u':
		return fmt.Sprint((weekday+6)%7 + 1)
	case 'w':
		return fmt.Sprint(weekday)
	case 'k':
		return fmt.Sprintf("%2d", t.Hour())
	case 's':
		return fmt.Sprint(t.Unix())
	case 'U':
		return fmt.Sprintf("%02d", (t.YearDay()+6-weekday)/7)
	case 'W':
		return fmt.Sprintf("%02d", (t.YearDay()+6-(weekday+6)%7)/7)
	}
	r.fail("strftime_now: found %%%c, wanted a directive such as %%d, %%b or %%Y", c)
	return ""
}
