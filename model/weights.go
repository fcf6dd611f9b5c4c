package model

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// match maps the paths of def to the names in the files, which may lack those that are allowed to be missing.
func (w weights) match(def Definition, allowed []*regexp.Regexp) (map[string]string, error) {
	stored, err := w.names(def)
	if err != nil {
		return nil, err
	}
	params := def.Params()
	wrong := w.join(params, stored)
	for _, p := range params {
		name, ok := stored[p.Path]
		if !ok {
			if !slices.ContainsFunc(allowed, func(r *regexp.Regexp) bool { return r.MatchString(p.Path) }) {
				wrong = append(wrong, fmt.Sprintf("%q is missing", p.Path))
			}
			continue
		}
		switch t := w[name]; {
		case name == "":
		case !slices.Equal(t.Shape, p.Shape) && encoders[t.DType] != nil:
			wrong = append(wrong, fmt.Sprintf("%q: shape %v, want %v", name, t.Shape, p.Shape))
		case encoders[t.DType] == nil:
			wrong = append(wrong, fmt.Sprintf("%q: dtype %s, want F32, BF16 or F16, or nf4 of bitsandbytes", name, t.DType))
		}
	}
	return stored, complain(append(wrong, extra(params, stored)...))
}

// names maps the paths of this package to the names in the files: without prefix, without
// constants, without a tied head's copy.
func (w weights) names(def Definition) (map[string]string, error) {
	family, err := familyOf(def.Kind())
	if err != nil {
		return nil, err
	}
	stored := map[string]string{}
	params := map[string]bool{}
	for _, p := range def.Params() {
		params[p.Path] = true
	}
	for _, name := range slices.Sorted(maps.Keys(w)) {
		path := family.path(name)
		if path == "" || family.passesOver(name, params) {
			continue
		}
		if other, ok := stored[path]; ok {
			return nil, fmt.Errorf("%q and %q are the same parameter", other, name)
		}
		stored[path] = name
	}
	return stored, w.dropTiedCopy(family, def, stored)
}

// dropTiedCopy takes the head out of stored when def has no such parameter and it equals the embedding.
func (w weights) dropTiedCopy(family Family, def Definition, stored map[string]string) error {
	if HeadOf(def).Kind != "" {
		delete(stored, family.Head) // nothing reads it
	}
	if !family.tied(def) {
		return nil
	}
	copied, original := stored[family.Head], stored[family.Embeddings[0]]
	if copied == "" || original == "" {
		return nil
	}
	same, err := w.equal(copied, original)
	if err != nil {
		return err
	}
	if !same {
		return fmt.Errorf("%q differs from %q, but config.json ties them: set tie_word_embeddings to false", copied, original)
	}
	delete(stored, family.Head)
	return nil
}

// equal compares the numbers of two tensors, part by part.
func (w weights) equal(one, other string) (bool, error) {
	shape := w[one].Shape
	if !slices.Equal(shape, w[other].Shape) {
		return false, nil
	}
	const chunk = 1 << 16
	a, b := make([]float32, chunk), make([]float32, chunk)
	for first, n := 0, int(elements(shape)); first < n; first += chunk {
		size := min(chunk, n-first)
		if err := errors.Join(w[one].Read(a[:size], first), w[other].Read(b[:size], first)); err != nil {
			return false, err
		}
		if !slices.EqualFunc(a[:size], b[:size], func(x, y float32) bool { return x == y || x != x && y != y }) {
			return false, nil
		}
	}
	return true, nil
}

func extra(params []Param, stored map[string]string) []string {
	known := map[string]bool{}
	for _, p := range params {
		known[p.Path] = true
	}
	var lines []string
	for path, name := range stored {
		if !known[path] {
			lines = append(lines, fmt.Sprintf("%q is no parameter of this model", name))
		}
	}
	slices.Sort(lines)
	return lines
}

// complain joins what is wrong, the first few and the number of the rest.
func complain(wrong []string) error {
	const most = 8
	if len(wrong) == 0 {
		return nil
	}
	rest := ""
	if len(wrong) > most {
		rest = fmt.Sprintf("; and %d more", len(wrong)-most)
		wrong = wrong[:most]
	}
	return errors.New(strings.Join(wrong, "; ") + rest)
}
