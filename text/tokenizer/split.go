package tokenizer

import (
	"encoding/json"
	"fmt"
	"slices"
)

// behaviors say what becomes of the parts that a Split's pattern hits.
var behaviors = map[string]func([]match) []match{
	"Isolated": func(all []match) []match { return all },
	"Removed":  func(all []match) []match { return slices.DeleteFunc(all, func(m match) bool { return m.hit }) },
	"Contiguous": func(all []match) []match {
		return joined(all, func(hit, previous bool) bool { return hit == previous })
	},
	"MergedWithPrevious": func(all []match) []match { return joined(all, beforeIt) },
	"MergedWithNext":     mergedWithNext,
}

// joined adds a part to the one before it where the two go together, by what is a hit.
func joined(all []match, together func(hit, previous bool) bool) []match {
	kept, previous := all[:0], false
	for _, m := range all {
		if together(m.hit, previous) && len(kept) > 0 {
			kept[len(kept)-1].end = m.end
		} else {
			kept = append(kept, m)
		}
		previous = m.hit
	}
	return kept
}

// beforeIt adds a hit to what lies before it; of several hits in a row only the first.
func beforeIt(hit, previous bool) bool { return hit && !previous }

// mergedWithNext adds a hit to what lies behind it; of several hits in a row only the last.
func mergedWithNext(all []match) []match {
	kept, previous := make([]match, 0, len(all)), false
	for _, m := range slices.Backward(all) {
		if m.hit && !previous && len(kept) > 0 {
			kept[len(kept)-1].start = m.start
		} else {
			kept = append(kept, m)
		}
		previous = m.hit
	}
	slices.Reverse(kept)
	return kept
}

// split is a pre-tokenizer that cuts where a pattern hits.
type split struct {
	pattern  pattern
	behavior string
	invert   bool // what the pattern does not hit counts as hit
}

func (p split) split(s span, next func(span) error) error {
	all, err := p.pattern.matches(s.text, s.may)
	if err != nil {
		return fmt.Errorf("pre_tokenizer: Split: %w", placed(err, int64(s.at)))
	}
	if p.invert {
		for i := range all {
			all[i].hit = !all[i].hit
		}
	}
	for _, m := range behaviors[p.behavior](all) {
		if m.start == m.end {
			continue
		}
		if err := next(s.cut(m.start, m.end)); err != nil {
			return err
		}
	}
	return nil
}

// isolated says whether every piece that a pattern without gaps hits is one of its own.
func (p split) isolated() bool {
	return p.behavior == "Isolated" || p.behavior == "Removed" && p.invert
}

// A preTokenizer cuts text into pieces; the model joins nothing across them.
type preTokenizer interface {
	split(s span, next func(span) error) error
}

// readPreTokenizer reads a pre-tokenizer as a list: a Sequence has several, of which none is a Sequence.
func readPreTokenizer(where string, raw json.RawMessage) ([]preTokenizer, error) {
	return typed(where, raw, map[string]func(o *object) []preTokenizer{
		"ByteLevel": func(o *object) []preTokenizer { return []preTokenizer{readByteLevel(o)} },
		"Split": func(o *object) []preTokenizer {
			s := split{pattern: readPattern(o), behavior: o.one("behavior", []string{"Isolated", "Removed", "Contiguous", "MergedWithPrevious", "MergedWithNext"})}
			s.invert = o.flag("invert", false)
			return []preTokenizer{s}
		},
		"Metaspace": func(o *object) []preTokenizer { return []preTokenizer{readMetaspace(o)} },
		"Digits": func(o *object) []preTokenizer {
			s := split{pattern: chars(func(r rune) bool { return classOf(r)&number != 0 }), behavior: "Contiguous"} // Nd, Nl and No
			if o.flag("individual_digits", false) {
				s.behavior = "Isolated"
			}
			return []preTokenizer{s}
		},
		"Sequence": func(o *object) []preTokenizer {
			return slices.Concat(parts(o, "pretokenizers", readPreTokenizer)...)
		},
	})
}
