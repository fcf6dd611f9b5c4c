package tokenizer

import (
	"slices"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

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
