package tokenizer

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dlclark/regexp2/v2"
)

// wellKnown are the patterns of published tokenizers, as they stand in their files. A name may have several; the first is the one
// that Pattern gives.
var wellKnown = []struct {
	name, text string
	scanner    *scanner
}{
	{"gpt2", `'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`, gpt2},
	{"gpt2", `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`, gpt2},
	{"llama3", `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`, llama3},
	{"qwen2", `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`, qwen2},
	{"o200k", prefix + cases + lowers + suffix + `|` + prefix + uppers + small + suffix + `|\p{N}{1,3}` + behind, o200k},
	{"tekken", prefix + cases + lowers + `|` + prefix + uppers + small + `|\p{N}` + behind, tekken},
}

// The parts of the two longest.
const (
	prefix = `[^\r\n\p{L}\p{N}]?`
	cases  = `[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*`
	lowers = `[\p{Ll}\p{Lm}\p{Lo}\p{M}]+`
	uppers = `[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+`
	small  = `[\p{Ll}\p{Lm}\p{Lo}\p{M}]*`
	suffix = `(?i:'s|'t|'re|'ve|'m|'ll|'d)?`
	behind = `| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`
)

// Pattern is the pattern of a well-known tokenizer: gpt2, llama3, qwen2, o200k or tekken.
func Pattern(name string) (string, error) {
	var names []string
	for _, w := range wellKnown {
		if w.name == name {
			return w.text, nil
		}
		if !slices.Contains(names, w.name) {
			names = append(names, w.name)
		}
	}
	return "", fmt.Errorf("tokenizer: pattern: %w", unknown(name, names))
}

// newRegex compiles a pattern: a scanner where there is one.
func newRegex(text string) (pattern, error) {
	for _, w := range wellKnown {
		if w.text == text {
			return w.scanner, nil
		}
	}
	return newExpression(text)
}

// matchLimit bounds a search: patterns come from strangers, and some take time exponential in the length of a text.
const matchLimit = 10 * time.Second

// expression is a regular expression with look-around.
type expression struct {
	text string
	re   *regexp2.Regexp
}

func newExpression(text string) (*expression, error) {
	re, err := regexp2.Compile(newerLetters(text))
	if err != nil {
		return nil, fmt.Errorf("pattern %q: %w", text, err)
	}
	re.MatchTimeout = matchLimit
	return &expression{text, re}, nil
}

func (e *expression) matches(text string) (all []match, err error) {
	found, err := e.re.FindAllStringIndex(text, -1)
	if err != nil {
		return nil, fmt.Errorf("pattern %q: a text of %d bytes: %w", e.text, len(text), err)
	}
	at := 0
	for _, f := range found {
		all = between(all, at, f[0])
		all = append(all, match{f[0], f[1], true})
		at = f[1]
	}
	return between(all, at, len(text)), nil
}

// newerLetters adds to each category of a pattern what Unicode got since Go's tables.
func newerLetters(text string) string {
	var b strings.Builder
	for inClass, i := false, 0; i < len(text); i++ {
		switch {
		case strings.HasPrefix(text[i:], `\p{`) && strings.IndexByte(text[i:], '}') > 0:
			name := text[i+3 : i+strings.IndexByte(text[i:], '}')]
			whole := `\p{` + name + `}`
			i += len(whole) - 1
			if newer := newerOf(name); newer != "" && inClass {
				b.WriteString(whole + newer)
			} else if newer != "" {
				b.WriteString("[" + whole + newer + "]")
			} else {
				b.WriteString(whole)
			}
			continue
		case strings.HasPrefix(text[i:], `\w`) || strings.HasPrefix(text[i:], `\d`):
			set := words
			if text[i+1] == 'd' {
				set = `\d` + newerOf("Nd")
			}
			if !inClass {
				set = "[" + set + "]"
			}
			b.WriteString(set)
			i++
			continue
		case text[i] == '\\' && i+1 < len(text):
			b.WriteByte(text[i])
			i++
		case text[i] == '[':
			inClass = true
		case text[i] == ']':
			inClass = false
		}
		b.WriteByte(text[i])
	}
	return b.String()
}

// words is \w as Oniguruma has it; circled letters are letters there, and numbers such as Ⅷ.
var words = `\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}²³¹¼-¾Ⓐ-ⓩ🄰-🅉🅐-🅩🅰-🆉` + newerOf("L") + newerOf("M") + newerOf("Nd")

// newerOf is what a category got, as the inside of a character class.
func newerOf(name string) string {
	var b strings.Builder
	for _, c := range []string{"Lu", "Ll", "Lm", "Lo", "M", "N"} {
		switch {
		case c == name, c[:1] == name, name == "Nd" && c == "N":
		default:
			continue
		}
		for _, r := range categories[c].added {
			b.WriteString(string([]rune{r[0], '-', r[1]}))
		}
	}
	return b.String()
}

// Split is the pieces into which the matches of a pattern cut a text.
func Split(pattern, text string) (pieces []string, err error) {
	p, err := newRegex(pattern)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: split: %w", err)
	}
	matches, err := p.matches(text)
	for _, m := range matches {
		if m.start < m.end {
			pieces = append(pieces, text[m.start:m.end])
		}
	}
	return pieces, err
}
