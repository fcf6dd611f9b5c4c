package template

import (
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/cases"
	"golang.org/x/text/language"
)

// textMethods are those of str.
var textMethods = map[string]*builtin{
	"upper":        ofText("s", func(r *run, s string, _ values) any { return r.upper(s) }),
	"lower":        ofText("s", func(r *run, s string, _ values) any { return r.lower(s) }),
	"casefold":     ofText("s", func(r *run, s string, _ values) any { return r.cased(cases.Fold(), s) }),
	"title":        ofText("s", func(r *run, s string, _ values) any { return r.title(s) }),
	"capitalize":   ofText("s", func(r *run, s string, _ values) any { return r.capitalize(s) }),
	"swapcase":     ofText("s", func(r *run, s string, _ values) any { return r.mapped(s, swapped) }),
	"strip":        ofText("s chars=None", func(r *run, s string, a values) any { return strings.TrimFunc(s, r.among(a)) }),
	"lstrip":       ofText("s chars=None", func(r *run, s string, a values) any { return strings.TrimLeftFunc(s, r.among(a)) }),
	"rstrip":       ofText("s chars=None", func(r *run, s string, a values) any { return strings.TrimRightFunc(s, r.among(a)) }),
	"removeprefix": ofText("s prefix", func(r *run, s string, a values) any { return strings.TrimPrefix(s, a.text(r, 1)) }),
	"removesuffix": ofText("s suffix", func(r *run, s string, a values) any { return strings.TrimSuffix(s, a.text(r, 1)) }),
	"startswith": ofText("s prefix start=None end=None", func(r *run, s string, a values) any {
		return r.affix(s, a, strings.HasPrefix)
	}),
	"endswith": ofText("s suffix start=None end=None", func(r *run, s string, a values) any {
		return r.affix(s, a, strings.HasSuffix)
	}),
	"replace": ofText("s old new count=-1", func(r *run, s string, a values) any { return r.replace(s, a.text(r, 1), a.text(r, 2), a.int(r, 3)) }),
	"split":   ofText("s sep=None maxsplit=-1", split),
	"rsplit":  ofText("s sep=None maxsplit=-1", splitRight),
	"splitlines": ofText("s keepends=False", func(r *run, s string, a values) any {
		return r.texts(lines(s, truth(a[1])))
	}),
	"partition": ofText("s sep", func(r *run, s string, a values) any {
		before, after, found := strings.Cut(s, a.text(r, 1))
		if !found {
			return tuple{s, "", ""}
		}
		return tuple{before, a[1], after}
	}),
	"rpartition": ofText("s sep", func(r *run, s string, a values) any {
		i := strings.LastIndex(s, a.text(r, 1))
		if i < 0 {
			return tuple{"", "", s}
		}
		return tuple{s[:i], a[1], s[i+len(a.text(r, 1)):]}
	}),
	"join": ofText("s iterable", func(r *run, s string, a values) any {
		var parts []string
		for i, item := range r.items(r.defined(a[1])) {
			part, ok := text(item)
			if !ok {
				r.fail("sequence item %d: expected str instance, %s found", i, kind(item))
			}
			parts = append(parts, part)
		}
		return r.join(parts, s)
	}),
	"find":   ofText("s sub start=None end=None", func(r *run, s string, a values) any { return r.where(s, a, strings.Index) }),
	"rfind":  ofText("s sub start=None end=None", func(r *run, s string, a values) any { return r.where(s, a, strings.LastIndex) }),
	"index":  ofText("s sub start=None end=None", func(r *run, s string, a values) any { return r.there(r.where(s, a, strings.Index)) }),
	"rindex": ofText("s sub start=None end=None", func(r *run, s string, a values) any { return r.there(r.where(s, a, strings.LastIndex)) }),
	"count": ofText("s sub start=None end=None", func(r *run, s string, a values) any {
		part, _ := r.part(s, a)
		return int64(strings.Count(part, a.text(r, 1)))
	}),
	"center":     ofText("s width fillchar?", func(r *run, s string, a values) any { return r.padded(s, a, 'c') }),
	"ljust":      ofText("s width fillchar?", func(r *run, s string, a values) any { return r.padded(s, a, 'l') }),
	"rjust":      ofText("s width fillchar?", func(r *run, s string, a values) any { return r.padded(s, a, 'r') }),
	"zfill":      ofText("s width", func(r *run, s string, a values) any { return r.zfill(s, a.int(r, 1)) }),
	"expandtabs": ofText("s tabsize=8", expandTabs),
	"isalpha":    ofCharacters(unicode.IsLetter),
	"isdigit":    ofCharacters(unicode.IsDigit),
	"isdecimal":  ofCharacters(unicode.IsDigit),
	"isnumeric":  ofCharacters(unicode.IsNumber),
	"isalnum":    ofCharacters(func(c rune) bool { return unicode.IsLetter(c) || unicode.IsNumber(c) }),
	"isspace":    ofCharacters(space),
	"isascii":    ofText("s", func(_ *run, s string, _ values) any { return ascii(s) }),
	"isupper":    ofText("s", func(_ *run, s string, _ values) any { return oneCase(s, unicode.IsUpper) }),
	"islower":    ofText("s", func(_ *run, s string, _ values) any { return oneCase(s, unicode.IsLower) }),
}

func init() { // a format looks attributes up, methods among them
	textMethods["format"] = takes("s *", func(r *run, a values, rest arguments) any { return r.format(a[0], rest) })
}

// ofText is a method of a text, which costs a step for each few bytes of it.
func ofText(parameters string, do func(r *run, s string, a values) any) *builtin {
	return takes(parameters, func(r *run, a values, _ arguments) any {
		s := a.text(r, 0)
		r.step(len(s) / 16)
		return do(r, s, a)
	})
}

func ofCharacters(is func(rune) bool) *builtin {
	return ofText("s", func(_ *run, s string, _ values) any {
		return s != "" && !strings.ContainsFunc(s, func(c rune) bool { return !is(c) })
	})
}

// oneCase says whether all letters that have a case have one, and there are some.
func oneCase(s string, is func(rune) bool) bool {
	some := false
	for _, c := range s {
		if unicode.IsUpper(c) || unicode.IsLower(c) || unicode.IsTitle(c) {
			if !is(c) {
				return false
			}
			some = true
		}
	}
	return some
}

func (r *run) mapped(s string, by func(rune) rune) string {
	r.made(len(s))
	return strings.Map(by, s)
}

func (r *run) cased(c cases.Caser, s string) string {
	r.made(3 * len(s)) // one character may become three
	return c.String(s)
}

func (r *run) upper(s string) string { return r.cased(cases.Upper(language.Und), s) }
func (r *run) lower(s string) string { return r.cased(cases.Lower(language.Und), s) }

func swapped(c rune) rune {
	if unicode.IsUpper(c) {
		return unicode.ToLower(c)
	}
	return unicode.ToUpper(c)
}

func (r *run) capitalize(s string) string {
	if s == "" {
		return ""
	}
	at := place(s, 1)
	return string(titled([]rune(s[:at])[0])) + r.lower(s[at:])
}

func titled(c rune) []rune {
	if c == 'ß' {
		return []rune("Ss")
	}
	return []rune{unicode.ToTitle(c)}
}

// title begins each run of letters with a large one.
func (r *run) title(s string) string {
	r.made(2 * len(s))
	var b strings.Builder
	inside := false
	for _, c := range s {
		if inside {
			b.WriteRune(unicode.ToLower(c))
		} else {
			b.WriteString(string(titled(c)))
		}
		inside = unicode.IsUpper(c) || unicode.IsLower(c) || unicode.IsTitle(c)
	}
	return b.String()
}

// among is the characters that a method strips: those of an argument, or space.
func (r *run) among(a values) func(rune) bool {
	if a.none(1) {
		return space
	}
	chars := a.text(r, 1)
	if len(chars) > 64 {
		set := map[rune]bool{}
		for _, c := range chars {
			set[c] = true
		}
		r.made(16 * len(chars))
		return func(c rune) bool { return set[c] }
	}
	return func(c rune) bool { return strings.ContainsRune(chars, c) }
}

// part is the text between the arguments start and end, and the character at which it begins.
func (r *run) part(s string, a values) (string, int) {
	if a.none(2) && a.none(3) {
		return s, 0
	}
	var bounds [3]*int
	for i := range 2 {
		if !a.none(2 + i) {
			n := a.int(r, 2+i)
			bounds[i] = &n
		}
	}
	begin, _ := limits(bounds, 1, r.length(s))
	return r.slice(s, bounds).(string), begin
}

func (r *run) affix(s string, a values, has func(s, part string) bool) any {
	part, _ := r.part(s, a)
	if several, ok := a[1].(tuple); ok {
		return slices.ContainsFunc(several, func(one any) bool { return has(part, values{one}.text(r, 0)) })
	}
	return has(part, a.text(r, 1))
}

// where is the character at which an argument is found, or -1.
func (r *run) where(s string, a values, index func(s, part string) int) any {
	part, begin := r.part(s, a)
	at := index(part, a.text(r, 1))
	if at < 0 {
		return int64(-1)
	}
	return int64(begin + r.length(part[:at]))
}

func (r *run) there(at any) any {
	if at == int64(-1) {
		r.fail("substring not found")
	}
	return at
}

func (r *run) texts(parts []string) any {
	r.made(32 * len(parts))
	all := make([]any, len(parts))
	for i, p := range parts {
		all[i] = p
	}
	return all
}

func split(r *run, s string, a values) any {
	n := a.int(r, 2)
	if !a.none(1) {
		by := a.text(r, 1)
		if by == "" {
			r.fail("empty separator")
		}
		if n >= 0 {
			n++
		}
		return r.texts(strings.SplitN(s, by, n))
	}
	var parts []string
	for s = strings.TrimLeftFunc(s, space); s != ""; n-- {
		end := strings.IndexFunc(s, space)
		if end < 0 || n == 0 {
			end = len(s)
		}
		parts, s = append(parts, s[:end]), strings.TrimLeftFunc(s[end:], space)
	}
	return r.texts(parts)
}

func splitRight(r *run, s string, a values) any {
	n := a.int(r, 2)
	var parts []string
	if !a.none(1) {
		by := a.text(r, 1)
		if by == "" {
			r.fail("empty separator")
		}
		for ; n != 0; n-- {
			i := strings.LastIndex(s, by)
			if i < 0 {
				break
			}
			parts, s = append(parts, s[i+len(by):]), s[:i]
		}
		parts = append(parts, s)
	} else {
		for s = strings.TrimRightFunc(s, space); s != ""; n-- {
			begin := strings.LastIndexFunc(s, space)
			if begin >= 0 && n != 0 {
				begin += len(string([]rune(s[begin:])[0]))
			} else {
				begin = 0
			}
			parts, s = append(parts, s[begin:]), strings.TrimRightFunc(s[:begin], space)
		}
	}
	slices.Reverse(parts)
	return r.texts(parts)
}

// lines cuts at whatever Python takes for the end of a line.
func lines(s string, keep bool) (all []string) {
	for s != "" {
		end := strings.IndexFunc(s, func(c rune) bool {
			return c >= '\n' && c <= '\r' || c >= 0x1c && c <= 0x1e || c == 0x85 || c == 0x2028 || c == 0x2029
		})
		if end < 0 {
			return append(all, s)
		}
		next := end + place(s[end:], 1)
		if strings.HasPrefix(s[end:], "\r\n") {
			next = end + 2
		}
		if keep {
			end = next
		}
		all, s = append(all, s[:end]), s[next:]
	}
	return all
}

func (r *run) padded(s string, a values, side byte) any {
	fill := " "
	if !a.missing(2) {
		fill = a.text(r, 2)
	}
	if r.length(fill) != 1 {
		r.fail("the fill character must be exactly one character long")
	}
	return r.pad(s, a.int(r, 1), fill, side)
}

func (r *run) pad(s string, width int, fill string, side byte) string {
	more := width - r.length(s)
	if more <= 0 {
		return s
	}
	r.times(len(fill), int64(more))
	r.made(len(s))
	left := map[byte]int{'l': 0, 'r': more, 'c': more/2 + more&width&1}[side]
	return strings.Repeat(fill, left) + s + strings.Repeat(fill, more-left)
}

func (r *run) zfill(s string, width int) string {
	if s != "" && (s[0] == '-' || s[0] == '+') {
		return s[:1] + r.pad(s[1:], width-1, "0", 'r')
	}
	return r.pad(s, width, "0", 'r')
}

func expandTabs(r *run, s string, a values) any {
	size, column := a.int(r, 1), 0
	var b strings.Builder
	for _, c := range s {
		switch {
		case c == '\t' && size > 0:
			n := size - column%size
			r.times(1, int64(n))
			b.WriteString(strings.Repeat(" ", n))
			column += n
		case c == '\t':
		default:
			b.WriteRune(c)
			column++
			if c == '\n' || c == '\r' {
				column = 0
			}
		}
	}
	r.made(len(s))
	return b.String()
}
