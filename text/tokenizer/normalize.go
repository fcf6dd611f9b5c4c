package tokenizer

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// A normalizer changes a piece of text between two added tokens before it is cut into words.
type normalizer interface {
	normalize(s *span) error
}

func readNormalizer(where string, raw json.RawMessage) (normalizer, error) {
	return typed(where, raw, map[string]func(o *object) normalizer{
		"NFC":       func(*object) normalizer { return unicodeForm{norm.NFC, norm.NFD} },
		"NFD":       func(*object) normalizer { return unicodeForm{norm.NFD, norm.NFD} },
		"NFKC":      func(*object) normalizer { return unicodeForm{norm.NFKC, norm.NFKD} },
		"NFKD":      func(*object) normalizer { return unicodeForm{norm.NFKD, norm.NFKD} },
		"Lowercase": func(*object) normalizer { return lowercase{} },
		"Strip": func(o *object) normalizer {
			return strip{left: o.flag("strip_left", true), right: o.flag("strip_right", true)}
		},
		"Prepend": func(o *object) normalizer {
			p := prepend{}
			o.must("prepend", &p.text)
			return p
		},
		"Replace": func(o *object) normalizer { return readReplace(o) },
		"Sequence": func(o *object) normalizer {
			return normalizers(parts(o, "normalizers", readNormalizer))
		},
	})
}

// normalizers run one after the other.
type normalizers []normalizer

func (n normalizers) normalize(s *span) error {
	for i, one := range n {
		if err := one.normalize(s); err != nil {
			return fmt.Errorf("normalizers[%d]: %w", i, err)
		}
	}
	return nil
}

// each walks the normalizers of a sequence, and of sequences in it.
func each(n normalizer, visit func(normalizer)) {
	if all, ok := n.(normalizers); ok {
		for _, one := range all {
			each(one, visit)
		}
	} else if n != nil {
		visit(n)
	}
}

// prepend puts a text in front of every piece that is not empty, but for the beginning of a text that goes on.
type prepend struct{ text string }

func (p prepend) normalize(s *span) error {
	if s.text == "" || p.text == "" || s.goesOn {
		return nil
	}
	if err := s.prepend(p.text); err != nil {
		return fmt.Errorf("prepend: %w", err)
	}
	return nil
}

// replace puts a text in the place of every match; it is a decoder too.
type replace struct {
	pattern pattern
	text    string
}

func readReplace(o *object) replace {
	r := replace{pattern: readPattern(o)}
	o.must("content", &r.text)
	return r
}

func (r replace) normalize(s *span) error {
	if literal, ok := r.pattern.(literal); ok && s.from == nil {
		if more := len(r.text) - len(literal); more > 0 {
			if err := s.may.grow(more * strings.Count(s.text, string(literal))); err != nil {
				return fmt.Errorf("replace: %w", err)
			}
		}
		s.text = strings.ReplaceAll(s.text, string(literal), r.text)
		return nil
	}
	matches, err := r.pattern.matches(s.text, s.may)
	if err != nil {
		return fmt.Errorf("replace: %w", placed(err, int64(s.at)))
	}
	if err := s.replace(matches, r.text); err != nil {
		return fmt.Errorf("replace: %w", err)
	}
	return nil
}

// strip removes white space at the ends.
type strip struct{ left, right bool }

func (n strip) normalize(s *span) error {
	start, end := 0, len(s.text)
	if n.left {
		start = end - len(strings.TrimLeftFunc(s.text, unicode.IsSpace))
	}
	if n.right {
		end = max(start, len(strings.TrimRightFunc(s.text, unicode.IsSpace)))
	}
	*s = s.cut(start, end)
	return nil
}

// lowercase maps each character by itself.
type lowercase struct{}

func (lowercase) normalize(s *span) error {
	var edits []edit
	for _, r := range s.text {
		if r == 'İ' { // the one character whose lower case is two
			edits = append(edits, edit{'i', 0}, edit{'\u0307', 1})
		} else {
			edits = append(edits, edit{unicode.ToLower(r), 0})
		}
	}
	return s.edit(edits)
}

// unicodeForm is one of Unicode's normalization forms, made from its decomposition.
type unicodeForm struct{ form, decomposition norm.Form }

func (u unicodeForm) normalize(s *span) error {
	if u.form.IsNormalString(s.text) {
		return nil
	}
	edits := make([]edit, 0, len(s.text))
	for rest := s.text; rest != ""; {
		normal := max(0, u.form.QuickSpanString(rest))
		for _, r := range rest[:normal] {
			edits = append(edits, edit{r, 0})
		}
		rest = rest[normal:]
		n := u.segment(rest)
		edits = u.rewrite(edits, rest[:n])
		rest = rest[n:]
		if more := len(edits) - len(s.text); s.may != nil && more > s.may.growth { // characters, none of which is shorter than a byte
			return s.may.grow(more)
		}
	}
	return s.edit(edits)
}

// segment is the length of the characters that may combine with the first.
func (u unicodeForm) segment(text string) int {
	for i, r := range text {
		if i > 0 && u.form.PropertiesString(text[i:i+utf8.RuneLen(r)]).BoundaryBefore() {
			return i
		}
	}
	return len(text)
}

// rewrite adds the normal form of a segment. norm.Form would put a joiner behind 30 marks, which tokenizers do not.
func (u unicodeForm) rewrite(edits []edit, segment string) []edit {
	begin := len(edits)
	for _, r := range segment {
		for i, d := range u.decomposition.String(string(r)) {
			edits = append(edits, edit{d, min(i, 1)})
		}
	}
	glyphs := edits[begin:]
	order(glyphs)
	if u.form == norm.NFC || u.form == norm.NFKC {
		glyphs = compose(glyphs)
	}
	return edits[:begin+len(glyphs)]
}

// class is a character's canonical combining class; 0 begins anew.
func class(r rune) uint8 {
	if r < 0x300 {
		return 0
	}
	return norm.NFD.PropertiesString(string(r)).CCC()
}

// order puts marks into canonical order: by class, equal ones as they came.
func order(glyphs []edit) {
	byClass := func(a, b edit) int { return int(class(a.char)) - int(class(b.char)) }
	for begin := 0; begin < len(glyphs); begin++ {
		end := begin
		for end < len(glyphs) && class(glyphs[end].char) > 0 {
			end++
		}
		if end > begin+1 {
			slices.SortStableFunc(glyphs[begin:end], byClass)
		}
		begin = end
	}
}

// compose joins characters in place: each mark with the last starter before it, unless one of its class or a higher one stands between.
func compose(glyphs []edit) []edit {
	kept, starter, last := glyphs[:0], -1, uint8(0)
	for _, g := range glyphs {
		c := class(g.char)
		if starter >= 0 && (starter == len(kept)-1 || last < c && last > 0) {
			if joined, ok := pair(kept[starter].char, g.char); ok {
				kept[starter].char = joined
				kept[starter].change += g.change - 1
				continue
			}
		}
		if last = c; c == 0 {
			starter = len(kept)
		}
		kept = append(kept, g)
	}
	return kept
}

// pair is the one character that two make.
func pair(a, b rune) (rune, bool) {
	var buffer [2 * utf8.UTFMax]byte
	both := utf8.AppendRune(utf8.AppendRune(buffer[:0], a), b)
	joined := norm.NFC.String(string(both))
	r, size := utf8.DecodeRuneInString(joined)
	return r, size == len(joined)
}
