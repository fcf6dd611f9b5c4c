package template

import (
	"regexp"
	"strings"
)

// The kinds of tokens.
const (
	tokenText     = "text"
	tokenOpen     = "{{"
	tokenClose    = "}}"
	tokenBegin    = "{%"
	tokenEnd      = "%}"
	tokenName     = "name"
	tokenString   = "string"
	tokenInteger  = "integer"
	tokenFloat    = "float"
	tokenOperator = "operator"
	tokenLast     = "end of the template"
)

// A token is a piece of a template.
type token struct {
	kind, text string
	line       int
}

// lexer cuts a template into tokens.
type lexer struct {
	name   string
	source string
	at     int
	line   int
	fresh  bool // what came last ended a line
	tokens []token
}

func (l *lexer) fail(format string, args ...any) {
	(&run{template: &Template{name: l.name}, line: l.line}).fail(format, args...)
}

var newlines = strings.NewReplacer("\r\n", "\n", "\r", "\n")

// lex is all tokens of a template. Its last newline is none of it.
func lex(name, source string) []token {
	l := &lexer{name: name, source: strings.TrimSuffix(newlines.Replace(source), "\n"), line: 1, fresh: true}
	for l.at < len(l.source) {
		l.next()
	}
	l.add(tokenLast, "")
	return l.tokens
}

func (l *lexer) add(kind, text string) { l.tokens = append(l.tokens, token{kind, text, l.line}) }

// skip goes on, and counts lines.
func (l *lexer) skip(n int) {
	l.line += strings.Count(l.source[l.at:l.at+n], "\n")
	l.at += n
	l.fresh = n > 0 && l.source[l.at-1] == '\n'
}

func (l *lexer) rest() string { return l.source[l.at:] }

var (
	rawBegin = regexp.MustCompile(`^\{%[-+]?[\s\x0b]*raw[\s\x0b]*(-%\}|%\})`)
	rawEnd   = regexp.MustCompile(`\{%[-+]?[\s\x0b]*endraw[\s\x0b]*([-+]?%\})`)
)

// next reads the text before a tag, and the tag.
func (l *lexer) next() {
	rest := l.rest()
	at := nextTag(rest)
	if at < 0 {
		l.add(tokenText, rest)
		l.skip(len(rest))
		return
	}
	tag := rest[at : at+2]
	if m := rawBegin.FindStringSubmatch(rest[at:]); m != nil {
		l.text(rest[:at], rest[at+2], true)
		l.skip(at + len(m[0]))
		if m[1][0] == '-' {
			l.skipSpace()
		}
		l.raw()
		return
	}
	sign := byte(' ')
	if at+2 < len(rest) {
		sign = rest[at+2]
	}
	l.text(rest[:at], sign, tag != tokenOpen)
	n := at + 2
	if sign == '-' || sign == '+' {
		n++
	}
	l.skip(n)
	switch tag {
	case "{#":
		end := strings.Index(l.rest(), "#}")
		if end < 0 {
			l.fail("a comment is not closed, wanted #}")
		}
		before := byte(' ')
		if end > 0 {
			before = l.rest()[end-1]
		}
		l.skip(end + 2)
		l.trim(before)
	case tokenOpen:
		l.add(tokenOpen, tag)
		l.expression(tokenClose)
	default:
		l.add(tokenBegin, tag)
		l.expression(tokenEnd)
	}
}

func nextTag(s string) int {
	for at := 0; ; at++ {
		i := strings.IndexByte(s[at:], '{')
		if at += i; i < 0 || at+1 >= len(s) {
			return -1
		}
		if c := s[at+1]; c == '{' || c == '%' || c == '#' {
			return at
		}
	}
}

// text adds what stands before a tag: without the spaces before it where its sign says so, and without those that alone begin its line where it is a
// statement or comment.
func (l *lexer) text(s string, sign byte, strip bool) {
	switch {
	case sign == '-':
		s = strings.TrimRightFunc(s, space)
	case sign != '+' && strip:
		if begin := strings.LastIndexByte(s, '\n') + 1; (begin > 0 || l.fresh) && trimSpace(s[begin:]) == "" {
			s = s[:begin]
		}
	}
	if s != "" {
		l.add(tokenText, s)
	}
}

// trim leaves out what follows a statement or comment: all space, or one newline.
func (l *lexer) trim(sign byte) {
	switch {
	case sign == '-':
		l.skipSpace()
	case sign != '+' && strings.HasPrefix(l.rest(), "\n"):
		l.skip(1)
	}
}

func (l *lexer) skipSpace() {
	if n := len(l.rest()) - len(strings.TrimLeftFunc(l.rest(), space)); n > 0 {
		l.skip(n)
	}
}

func (l *lexer) raw() {
	m := rawEnd.FindStringSubmatchIndex(l.rest())
	if m == nil {
		l.fail("{%% raw %%} is not closed, wanted {%% endraw %%}")
	}
	s, tag, sign := l.rest()[:m[0]], l.rest()[m[0]:m[1]], l.rest()[m[2]]
	l.text(s, tag[2], true)
	l.skip(m[1])
	l.trim(sign)
}

var (
	floatPattern   = regexp.MustCompile(`^(\d+_)*\d+((\.(\d+_)*\d+)?[eE][+\-]?(\d+_)*\d+|\.(\d+_)*\d+)`)
	integerPattern = regexp.MustCompile(`^(0[bB](_?[01])+|0[oO](_?[0-7])+|0[xX](_?[0-9a-fA-F])+|[1-9](_?\d)*|0(_?0)*)`)
	namePattern    = regexp.MustCompile(`^[\pL\pN_\pM]+`)
)

// operators, the longer ones first.
var operators = []string{
	"//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[", "]", "(", ")", "{", "}", ">", "<", "=", ".", ":", "|", ",", ";",
}

var closers = map[string]string{"(": ")", "[": "]", "{": "}"}

// expression reads up to the end of a tag.
func (l *lexer) expression(end string) {
	var open []string
	for {
		l.skipSpace()
		rest := l.rest()
		if rest == "" {
			l.fail("%s is not closed, wanted %s", map[string]string{tokenClose: tokenOpen, tokenEnd: tokenBegin}[end], end)
		}
		if len(open) == 0 && l.closed(end) {
			return
		}
		if m := floatPattern.FindString(rest); m != "" && !l.afterDot() {
			l.take(tokenFloat, m)
		} else if m := integerPattern.FindString(rest); m != "" {
			l.take(tokenInteger, m)
		} else if m := namePattern.FindString(rest); m != "" {
			l.take(tokenName, m)
		} else if rest[0] == '"' || rest[0] == '\'' {
			l.literal()
		} else {
			op := ""
			for _, o := range operators {
				if strings.HasPrefix(rest, o) {
					op = o
					break
				}
			}
			switch {
			case op == "":
				l.fail("found %.20q, wanted an expression", rest)
			case closers[op] != "":
				open = append(open, closers[op])
			case op == ")" || op == "]" || op == "}":
				if len(open) == 0 || open[len(open)-1] != op {
					l.fail("found %q, which nothing opens", op)
				}
				open = open[:len(open)-1]
			}
			l.take(tokenOperator, op)
		}
	}
}

func (l *lexer) afterDot() bool { return l.at > 0 && l.source[l.at-1] == '.' }

func (l *lexer) take(kind, text string) {
	l.add(kind, text)
	l.skip(len(text))
}

// closed reads the end of a tag.
func (l *lexer) closed(end string) bool {
	rest, sign := l.rest(), byte(' ')
	if rest[0] == '-' || rest[0] == '+' && end == tokenEnd {
		rest, sign = rest[1:], rest[0]
	}
	if !strings.HasPrefix(rest, end) {
		return false
	}
	l.add(end, end)
	l.skip(len(l.rest()) - len(rest) + len(end))
	if end == tokenEnd {
		l.trim(sign)
	} else if sign == '-' {
		l.skipSpace()
	}
	return true
}

// literal reads a text between quotes.
func (l *lexer) literal() {
	rest := l.rest()
	for i := 1; i < len(rest); i++ {
		switch rest[i] {
		case '\\':
			i++
		case rest[0]:
			l.add(tokenString, l.unescaped(rest[1:i]))
			l.skip(i + 1)
			return
		}
	}
	l.fail("a text that begins with %.20q is not closed, wanted %c", rest, rest[0])
}
