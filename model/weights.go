package model

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"gputrain/buffers/array"
	"gputrain/buffers/safetensors"
)

// ReadHF reads a directory in the Hugging Face layout: config.json, and model.safetensors or the
// files that model.safetensors.index.json names. Weights of type F32, BF16 and F16 are
// widened. The arrays are in canonical order.
func ReadHF(dir string) (Definition, []array.Host, error) {
	def, err := ReadConfig(dir)
	if err != nil {
		return nil, nil, err
	}
	hosts, err := ReadWeights(dir, def)
	return def, hosts, err
}

// ReadWeights reads the weights of def in dir, as OpenWeights does.
func ReadWeights(dir string, def Definition) ([]array.Host, error) {
	open, err := OpenWeights(dir, def)
	if err != nil {
		return nil, err
	}
	hosts, err := open.all()
	return hosts, errors.Join(err, open.Close())
}

// Weights is ReadWeights of open files, which stay the caller's.
func Weights(def Definition, files ...*safetensors.File) ([]array.Host, error) {
	in, err := tensorsOf(files)
	if err != nil {
		return nil, fmt.Errorf("model: weights: %w", err)
	}
	s, err := storedIn(def, in, nil)
	if err != nil {
		return nil, err
	}
	return s.all()
}

// match maps the paths of def to the names in the files, which may lack those that are allowed to be missing.
func (w weights) match(def Definition, allowed []*regexp.Regexp) (map[string]string, error) {
	stored, err := w.names(def)
	if err != nil {
		return nil, err
	}
	params := def.Params()
	var wrong []string
	for _, p := range params {
		name, ok := stored[p.Path]
		if !ok {
			if !slices.ContainsFunc(allowed, func(r *regexp.Regexp) bool { return r.MatchString(p.Path) }) {
				wrong = append(wrong, fmt.Sprintf("%q is missing", p.Path))
			}
			continue
		}
		switch t := w[name]; {
		case !slices.Equal(t.shape, p.Shape) && encoders[t.dtype] != nil:
			wrong = append(wrong, fmt.Sprintf("%q: shape %v, want %v", name, t.shape, p.Shape))
		case encoders[t.dtype] == nil:
			wrong = append(wrong, fmt.Sprintf("%q: dtype %s, want F32, BF16 or F16, or nf4 of bitsandbytes", name, t.dtype))
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
	for _, name := range slices.Sorted(maps.Keys(w)) {
		path := family.path(name)
		if path == "" {
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
	if family.hasHead(def.Params()) || len(family.Embeddings) == 0 {
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
	shape := w[one].shape
	if !slices.Equal(shape, w[other].shape) {
		return false, nil
	}
	const chunk = 1 << 16
	a, b := make([]float32, chunk), make([]float32, chunk)
	for first, n := 0, int(elements(shape)); first < n; first += chunk {
		size := min(chunk, n-first)
		if err := errors.Join(w[one].read(a[:size], first), w[other].read(b[:size], first)); err != nil {
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
