package tokenizer

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

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
	{"qwen35", `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`, qwen35},
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

// Pattern is the pattern of a well-known tokenizer: gpt2, llama3, qwen2, qwen35, o200k or tekken.
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

// Limits of a pattern: bytes that it has, and places that a search remembers to come back to, in 256 MiB.
const (
	longestPattern = 16 << 10
	mostPlaces     = 32 << 20
)

// expression is a regular expression with look-around. Some take time exponential in the length of a text, so each search has a time, which belongs
// to what compiled knows: a goroutine takes one for itself.
type expression struct {
	text     string
	searches sync.Pool
}

// search is an expression for one goroutine, with room for the characters of a text.
type search struct {
	*regexp2.Regexp
	runes []rune
}

func newExpression(text string) (*expression, error) {
	if len(text) > longestPattern {
		return nil, fmt.Errorf("pattern %s: found %d bytes, wanted at most %d", excerpt(text), len(text), longestPattern)
	}
	e := &expression{text: text}
	s, err := e.search()
	if err != nil {
		return nil, err
	}
	e.searches.Put(s)
	return e, nil
}

// search is one that no goroutine uses.
func (e *expression) search() (*search, error) {
	if s, ok := e.searches.Get().(*search); ok {
		return s, nil
	}
	re, err := regexp2.Compile(newerLetters(e.text), regexp2.OptionMaxBacktrackingStackSize(mostPlaces))
	if err != nil {
		return nil, fmt.Errorf("pattern %s: %w", excerpt(e.text), err)
	}
	return &search{Regexp: re}, nil
}

// matches takes the time of its searches from what the text may take; nil: as much as this text has alone.
func (e *expression) matches(text string, may *allowance) (all []match, err error) {
	if may == nil {
		may = newAllowance(0)
		may.add(len(text))
	}
	s, err := e.search()
	if err != nil {
		return nil, err
	}
	defer e.searches.Put(s)
	s.decode(text)
	begun, at, end := time.Now(), runeIndex{text: text}, 0
	s.MatchTimeout = max(may.search, time.Nanosecond)
	err = s.FindRunesMatches(s.runes, 0, func(v regexp2.MatchView) bool {
		from, length, _ := v.GroupRange(0)
		start := at.byte(from)
		if length == 0 && start == end && end > 0 {
			return true // nothing, at the end of a match
		}
		all = between(all, end, start)
		end = at.byte(from + length)
		all = append(all, match{start, end, true})
		s.MatchTimeout = may.search - time.Since(begun)
		return s.MatchTimeout > 0
	})
	may.search -= time.Since(begun)
	switch {
	case errors.Is(err, regexp2.ErrBacktrackingStackLimit):
		return nil, &searchError{e.text, int64(end), text[end:], fmt.Sprintf("with less than %d places to come back to", mostPlaces)}
	case err != nil || s.MatchTimeout <= 0: // the library's error has the whole text
		within := fmt.Sprintf("within %v and a second for each %d of the %d bytes", may.base, searchBytes, may.bytes)
		return nil, &searchError{e.text, int64(end), text[end:], within}
	}
	return between(all, end, len(text)), nil
}

// decode takes the characters of a text.
func (s *search) decode(text string) {
	const kept = 1 << 20 // of a text that is longer the characters are not kept
	if cap(s.runes) > kept {
		s.runes = nil
	}
	s.runes = s.runes[:0]
	if cap(s.runes) < len(text) {
		s.runes = make([]rune, 0, len(text))
	}
	for _, r := range text {
		s.runes = append(s.runes, r)
	}
}

// runeIndex finds characters of a text by their number, one after the other.
type runeIndex struct {
	text  string
	runes int
	at    int
}

// byte is where a character begins.
func (r *runeIndex) byte(number int) int {
	for ; r.runes < number; r.runes++ {
		if r.text[r.at] < utf8.RuneSelf {
			r.at++
			continue
		}
		_, size := utf8.DecodeRuneInString(r.text[r.at:])
		r.at += size
	}
	return r.at
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
	matches, err := p.matches(text, nil)
	for _, m := range matches {
		if m.start < m.end {
			pieces = append(pieces, text[m.start:m.end])
		}
	}
	return pieces, err
}
