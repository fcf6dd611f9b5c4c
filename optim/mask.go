package optim

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"

	"gputrain/buffers"
	"gputrain/internal/suggest"
)

// Mask chooses leaves of a tree. Exactly one field is set: Patterns, regular expressions of which one must match
// somewhere in the path; Paths, which names every leaf; or Matrices, the leaves of two dimensions or more. A
// rule that fits no path is an error. In JSON: a list, an object, or "matrices".
type Mask struct {
	Patterns []string
	Paths    map[string]bool
	Matrices bool

	choose func(buffers.Leaf) bool // an optimizer's own rule; has no form in JSON
	key    string                  // what errors call it; "": a mask
}

// MaskPatterns chooses the leaves whose path one of the patterns matches.
func MaskPatterns(patterns ...string) *Mask { return &Mask{Patterns: patterns} }

// MaskPaths chooses the leaves whose path maps to true; every leaf must be named.
func MaskPaths(paths map[string]bool) *Mask { return &Mask{Paths: paths} }

// MaskMatrices chooses the leaves of two dimensions or more.
func MaskMatrices() *Mask { return &Mask{Matrices: true} }

// resolve tells for each leaf whether it is chosen. Rules are checked against whole, the paths of the whole
// model, of which leaves may be a stage.
func (m *Mask) resolve(leaves []buffers.Leaf, whole []string) ([]bool, error) {
	chosen := make([]bool, len(leaves))
	switch {
	case m.choose != nil:
		for i, l := range leaves {
			chosen[i] = m.choose(l)
		}
	case m.Matrices:
		for i, l := range leaves {
			chosen[i] = len(l.Shape) >= 2
		}
	case m.Paths != nil:
		for _, path := range slices.Sorted(maps.Keys(m.Paths)) {
			if !slices.Contains(whole, path) {
				return nil, fmt.Errorf("mask: path %q: found no such leaf%s", path, suggest.DidYouMean(path, whole))
			}
		}
		for i, l := range leaves {
			value, named := m.Paths[l.Path]
			if !named {
				return nil, fmt.Errorf("mask: leaf %q: found no entry, wanted true or false for every leaf", l.Path)
			}
			chosen[i] = value
		}
	default:
		for _, pattern := range m.Patterns {
			match, err := pathPattern(pattern, whole)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", cmp.Or(m.key, "mask"), err)
			}
			for i, l := range leaves {
				chosen[i] = chosen[i] || match.MatchString(l.Path)
			}
		}
	}
	return chosen, nil
}

func pathPattern(pattern string, whole []string) (*regexp.Regexp, error) {
	match, err := regexp.Compile(pattern)
	if err != nil {
		return nil, fmt.Errorf("pattern %q: %w", pattern, err)
	}
	if !slices.ContainsFunc(whole, match.MatchString) {
		return nil, fmt.Errorf("pattern %q: matches none of the %d paths", pattern, len(whole))
	}
	return match, nil
}

func maskColumn(m *Mask) column {
	return column{"mask", func(leaves []buffers.Leaf, whole []string) ([]float32, error) {
		chosen, err := m.resolve(leaves, whole)
		if err != nil {
			return nil, err
		}
		return asFloats(chosen), nil
	}}
}

// MarshalJSON writes the form that UnmarshalJSON reads.
func (m Mask) MarshalJSON() ([]byte, error) {
	switch {
	case m.Matrices:
		return json.Marshal("matrices")
	case m.Paths != nil:
		return json.Marshal(m.Paths)
	}
	return json.Marshal(m.Patterns)
}

// UnmarshalJSON reads a list of patterns, an object of paths, or "matrices".
func (m *Mask) UnmarshalJSON(data []byte) error {
	var word string
	switch {
	case json.Unmarshal(data, &word) == nil && word == "matrices":
		*m = Mask{Matrices: true}
	case json.Unmarshal(data, &m.Patterns) == nil:
	case json.Unmarshal(data, &m.Paths) == nil:
	default:
		return fmt.Errorf(`mask: found %s, wanted a list of patterns, an object of path to true or false, or "matrices"`, data)
	}
	return nil
}

// PathRate multiplies the learning rate of the leaves whose path Pattern matches, in a scheduled decay too. The first rule that matches a
// leaf holds; a rule that matches no path is an error.
type PathRate struct {
	Pattern    string  `json:"pattern"`
	Multiplier float64 `json:"multiplier"`
}

// AtRateZero are the paths of those leaves of a model whose rate the rules multiply by 0, in canonical order.
func AtRateZero(rates []PathRate, model []buffers.Spec) ([]string, error) {
	model = byPath(model)
	paths := pathsOf(model)
	values, err := rateColumn(rates).values(unplaced(model), paths)
	if err != nil {
		return nil, fmt.Errorf("optim: %w", err)
	}
	var out []string
	for i, path := range paths {
		if values[i] == 0 {
			out = append(out, path)
		}
	}
	return out, nil
}

func rateColumn(rates []PathRate) column {
	return column{"rate", func(leaves []buffers.Leaf, whole []string) ([]float32, error) {
		values := make([]float32, len(leaves))
		for i := range values {
			values[i] = 1
		}
		for _, r := range slices.Backward(rates) {
			match, err := pathPattern(r.Pattern, whole)
			if err != nil {
				return nil, fmt.Errorf("rates: %w", err)
			}
			if !(r.Multiplier >= 0) {
				return nil, fmt.Errorf("rates: pattern %q: found multiplier %g, wanted 0 or more", r.Pattern, r.Multiplier)
			}
			for i, l := range leaves {
				if match.MatchString(l.Path) {
					values[i] = float32(r.Multiplier)
				}
			}
		}
		return values, nil
	}}
}
