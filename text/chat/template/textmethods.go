package template

import (
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/cases"
	"golang.org/x/text/language"
)

// textMethods are the methods of str that published templates call, and join.
var textMethods = map[string]builtin{
	"upper":      ofText("s", func(r *run, s string, _ values) any { return r.upper(s) }),
	"lower":      ofText("s", func(r *run, s string, _ values) any { return r.lower(s) }),
	"title":      ofText("s", func(r *run, s string, _ values) any { return r.title(s, func(c rune) bool { return !cased(c) }) }),
	"capitalize": ofText("s", func(r *run, s string, _ values) any { return r.capitalize(s) }),
	"strip":      ofText("s chars?", func(r *run, s string, a values) any { return strings.TrimFunc(s, r.among(a)) }),
	"lstrip":     ofText("s chars?", func(r *run, s string, a values) any { return strings.TrimLeftFunc(s, r.among(a)) }),
	"rstrip":     ofText("s chars?", func(r *run, s string, a values) any { return strings.TrimRightFunc(s, r.among(a)) }),
	"startswith": ofText("s prefix", func(r *run, s string, a values) any { return r.affix(s, a, strings.HasPrefix) }),
	"endswith":   ofText("s suffix", func(r *run, s string, a values) any { return r.affix(s, a, strings.HasSuffix) }),
	"split":      ofText("s sep? maxsplit?", split),
	"replace": ofText("s old new count?", func(r *run, s string, a values) any {
		with := a.text(r, 2)
		if _, marked := a[0].(markup); marked {
			with = r.escaped(a[2])
		}
		return r.replace(s, a.text(r, 1), with, a.count(r, 3))
	}),
	"join": ofText("s iterable", func(r *run, s string, a values) any {
		_, marked := a[0].(markup)
		var parts []string
		for i, item := range r.items(r.defined(a[1])) {
			part, ok := text(item)
			switch {
			case marked:
				part = r.escaped(item)
			case !ok:
				r.fail("sequence item %d: expected str instance, %s found", i, kind(item))
			}
			parts = append(parts, part)
		}
		return r.join(parts, s)
	}),
}

// ofText is a method of a text, or a filter of what str makes of a value, which costs a step for each few bytes of it.
// What it makes of a marked text is marked.
func ofText(names string, do func(r *run, s string, a values) any) builtin {
	return takes(names, func(r *run, a values) any {
		s := r.str(a[0])
		r.step(len(s) / 16)
		return as(a[0], do(r, s, a))
	})
}

func (r *run) upper(s string) string { return r.inCase(cases.Upper(language.Und), s) }
func (r *run) lower(s string) string { return r.inCase(cases.Lower(language.Und), s) }

func (r *run) inCase(c cases.Caser, s string) string {
	r.made(3 * len(s)) // one character may become three
	return c.String(s)
}

func (r *run) capitalize(s string) string {
	at := place(s, 1)
	return strings.ToTitle(s[:at]) + r.lower(s[at:])
}

// title makes the first letter of each word large, and all others small. A word begins behind some characters.
func (r *run) title(s string, behind func(rune) bool) string {
	r.made(2 * len(s))
	begins := true
	return strings.Map(func(c rune) rune {
		large := begins
		begins = behind(c)
		if large {
			return unicode.ToTitle(c)
		}
		return unicode.ToLower(c)
	}, s)
}

func cased(c rune) bool { return unicode.IsUpper(c) || unicode.IsLower(c) || unicode.IsTitle(c) }

// among is the characters that a method strips: those of an argument, or space.
func (r *run) among(a values) func(rune) bool {
	if a.none(1) {
		return space
	}
	set := map[rune]bool{}
	for _, c := range a.text(r, 1) {
		r.made(16)
		set[c] = true
	}
	return func(c rune) bool { return set[c] }
}

// affix says whether a text has one, or one of several.
func (r *run) affix(s string, a values, has func(s, part string) bool) any {
	several, ok := a[1].(tuple)
	if !ok {
		return has(s, a.text(r, 1))
	}
	return slices.ContainsFunc(several, func(one any) bool { return has(s, values{one}.text(r, 0)) })
}

func split(r *run, s string, a values) any {
	n := a.count(r, 2)
	var parts []string
	if a.none(1) {
		for s = strings.TrimLeftFunc(s, space); s != ""; n-- {
			end := strings.IndexFunc(s, space)
			if end < 0 || n == 0 {
				end = len(s)
			}
			parts, s = append(parts, s[:end]), strings.TrimLeftFunc(s[end:], space)
		}
	} else {
		by := a.text(r, 1)
		if by == "" {
			r.fail("empty separator")
		}
		if n >= 0 {
			n++
		}
		parts = strings.SplitN(s, by, n)
	}
	r.made(32 * len(parts))
	all := make([]any, len(parts))
	for i, p := range parts {
		all[i] = p
	}
	return all
}
