package model

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"gputrain/buffers/array"
	"gputrain/buffers/safetensors"
	"gputrain/internal/placeholder"
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
	s, err := storedIn(def, files, nil)
	if err != nil {
		return nil, err
	}
	return s.all()
}

// weights is the file that holds each tensor, by its full name.
type weights map[string]*safetensors.File

// Names of the files with the weights.
const (
	weightsStem = "model"
	indexSuffix = ".safetensors.index.json"
)

// WeightFiles are the files with the weights in dir: model.safetensors, or those that model.safetensors.index.json names, sorted.
func WeightFiles(dir string) ([]string, error) {
	index, err := readIndex(filepath.Join(dir, weightsStem+indexSuffix))
	if errors.Is(err, fs.ErrNotExist) {
		return []string{filepath.Join(dir, weightsStem+".safetensors")}, nil
	}
	if err != nil {
		return nil, err
	}
	names := slices.Compact(slices.Sorted(maps.Values(index)))
	for i, name := range names {
		names[i] = filepath.Join(dir, name)
	}
	return names, nil
}

// indexLimit bounds model.safetensors.index.json.
const indexLimit = 64 << 20

// readIndex returns the file that holds each tensor. Files must lie in the same directory.
func readIndex(name string) (map[string]string, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if info.Size() > indexLimit {
		return nil, fmt.Errorf("%q: %d bytes, want at most %d", name, info.Size(), indexLimit)
	}
	raw, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var index struct {
		Files map[string]string `json:"weight_map"`
	}
	if err := json.Unmarshal(raw, &index); err != nil {
		if what := placeholder.What(raw); what != "" {
			err = errors.New(what)
		}
		return nil, fmt.Errorf("%q: %w", name, err)
	}
	if len(index.Files) == 0 {
		return nil, fmt.Errorf("%q: weight_map is empty", name)
	}
	for tensor, file := range index.Files {
		if file != filepath.Base(file) || strings.ContainsAny(file, `/\`) || file == ".." || file == "." {
			return nil, fmt.Errorf("%q: tensor %q: file %q, want a name in the same directory", name, tensor, file)
		}
	}
	return index.Files, nil
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
		switch dtype, shape, _ := w[name].Info(name); {
		case !slices.Equal(shape, p.Shape):
			wrong = append(wrong, fmt.Sprintf("%q: shape %v, want %v", name, shape, p.Shape))
		case encoders[dtype] == nil:
			wrong = append(wrong, fmt.Sprintf("%q: dtype %s, want F32, BF16 or F16", name, dtype))
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
	for name := range w {
		path := family.path(name)
		if path == "" {
			continue
		}
		if other, ok := stored[path]; ok {
			return nil, fmt.Errorf("%q and %q are the same parameter", min(name, other), max(name, other))
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
	_, shape, _ := w[one].Info(one)
	if _, second, _ := w[other].Info(other); !slices.Equal(shape, second) {
		return false, nil
	}
	const chunk = 1 << 16
	a, b := make([]float32, chunk), make([]float32, chunk)
	for first, n := 0, int(elements(shape)); first < n; first += chunk {
		size := min(chunk, n-first)
		if err := errors.Join(w[one].Float32At(one, a[:size], first), w[other].Float32At(other, b[:size], first)); err != nil {
			return false, err
		}
		if !slices.Equal(a[:size], b[:size]) {
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
