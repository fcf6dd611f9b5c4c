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

var tagPattern = regexp.MustCompile(`\{[{%#]`)

// next reads the text before a tag, and the tag.
func (l *lexer) next() {
	rest := l.rest()
	place := tagPattern.FindStringIndex(rest)
	if place == nil {
		l.add(tokenText, rest)
		l.skip(len(rest))
		return
	}
	before, tag, sign := rest[:place[0]], rest[place[0]:place[1]], byte(' ')
	if place[1] < len(rest) {
		sign = rest[place[1]]
	}
	l.text(before, sign, tag != tokenOpen)
	l.skip(place[1])
	if sign == '-' || sign == '+' {
		l.skip(1)
	}
	if tag != "{#" {
		l.add(tag, tag)
		l.expression(map[string]string{tokenOpen: tokenClose, tokenBegin: tokenEnd}[tag])
		return
	}
	end := strings.Index(l.rest(), "#}")
	if end < 0 {
		l.fail("a comment is not closed, wanted #}")
	}
	last := byte(' ')
	if end > 0 {
		last = l.rest()[end-1]
	}
	l.skip(end + 2)
	l.trim(last)
}

// text adds what stands before a tag: without the spaces before it where its sign says so, and without those that alone
// begin its line where it is a statement or comment.
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

// pieces are what an expression is made of, besides texts.
var pieces = []struct {
	kind    string
	pattern *regexp.Regexp
}{
	{tokenFloat, regexp.MustCompile(`^\d+(\.\d+([eE][+\-]?\d+)?|[eE][+\-]?\d+)`)},
	{tokenInteger, regexp.MustCompile(`^\d+`)},
	{tokenName, regexp.MustCompile(`^[\pL\pN_\pM]+`)},
	{tokenOperator, regexp.MustCompile(`^(//|\*\*|[=!<>]=|[-+/*%~\[\](){}<>=.:|,;])`)},
}

var closers = map[string]string{"(": ")", "[": "]", "{": "}"}

// expression reads up to the end of a tag.
func (l *lexer) expression(end string) {
	var open []string
	for {
		l.skipSpace()
		if l.rest() == "" {
			l.fail("%s is not closed, wanted %s", map[string]string{tokenClose: tokenOpen, tokenEnd: tokenBegin}[end], end)
		}
		if len(open) == 0 && l.closed(end) {
			return
		}
		if c := l.rest()[0]; c == '"' || c == '\'' {
			l.literal()
			continue
		}
		switch piece := l.piece(); {
		case closers[piece] != "":
			open = append(open, closers[piece])
		case piece == ")" || piece == "]" || piece == "}":
			if len(open) == 0 || open[len(open)-1] != piece {
				l.fail("found %q, which nothing opens", piece)
			}
			open = open[:len(open)-1]
		}
	}
}

// piece reads one, and gives it back.
func (l *lexer) piece() string {
	afterDot := l.at > 0 && l.source[l.at-1] == '.'
	for _, p := range pieces {
		if m := p.pattern.FindString(l.rest()); m != "" && (p.kind != tokenFloat || !afterDot) {
			l.add(p.kind, m)
			l.skip(len(m))
			return m
		}
	}
	l.fail("found %.20q, wanted an expression", l.rest())
	return ""
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
