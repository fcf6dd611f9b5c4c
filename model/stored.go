package model

import (
	"errors"
	"fmt"
	"regexp"

	"gputrain/buffers/array"
	"gputrain/buffers/safetensors"
)

// Stored are the weights of a model in its files.
type Stored struct {
	params []Param
	names  map[string]string // in the files, by path
	in     weights
	files  []*safetensors.File
	base   *Stored // has those that are not in the files; nil: there are none
}

// OpenWeights opens the weights of def in dir. Every parameter must be there with its shape, and nothing else but known constants and, with
// a tied head, a copy of the embedding as lm_head.weight. Where the directory names a Base, the parameters that it lacks are read there.
func OpenWeights(dir string, def Definition) (*Stored, error) { return openWeights(dir, def, nil, 0) }

func openWeights(dir string, def Definition, allowed []*regexp.Regexp, depth int) (*Stored, error) {
	base, err := ReadBase(dir)
	if err != nil {
		return nil, fmt.Errorf("model: read weights: %w (%s)", err, dir)
	}
	if base != nil {
		allowed = []*regexp.Regexp{anything}
	}
	names, err := WeightFiles(dir)
	if err != nil {
		return nil, fmt.Errorf("model: read weights: %w", err)
	}
	var files []*safetensors.File
	for _, name := range names {
		f, err := safetensors.Open(name)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("model: read weights: %w", err), closeAll(files))
		}
		files = append(files, f)
	}
	s, err := storedIn(def, files, allowed)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%w (%s)", err, dir), closeAll(files))
	}
	if base != nil {
		if err := s.openBase(def, *base, depth); err != nil {
			return nil, errors.Join(fmt.Errorf("model: read weights: %w (%s)", err, dir), s.Close())
		}
	}
	return s, nil
}

func storedIn(def Definition, files []*safetensors.File, allowed []*regexp.Regexp) (*Stored, error) {
	s := &Stored{params: def.Params(), in: weights{}, files: files}
	for _, f := range files {
		for _, tensor := range f.Names() {
			if s.in[tensor] != nil {
				return nil, fmt.Errorf("model: weights: tensor %q is in two files", tensor)
			}
			s.in[tensor] = f
		}
	}
	var err error
	if s.names, err = s.in.match(def, allowed); err != nil {
		return nil, fmt.Errorf("model: weights: %w", err)
	}
	return s, nil
}

// Read reads a parameter; F16 and BF16 are widened.
func (s *Stored) Read(path string) ([]float32, error) {
	name, ok := s.names[path]
	if !ok && s.base != nil {
		return s.base.Read(path)
	}
	if !ok {
		return nil, fmt.Errorf("model: weights: %q is no parameter of this model", path)
	}
	data, err := s.in[name].Float32(name)
	if err != nil {
		return nil, fmt.Errorf("model: weights: %w", err)
	}
	return data, nil
}

// all reads every parameter, and draws those that are not stored.
func (s *Stored) all(seed uint64) (hosts []array.Host, drawn []string, err error) {
	for _, p := range s.params {
		host := array.Host{Path: p.Path, Shape: p.Shape}
		if _, stored := s.names[p.Path]; !stored && s.base == nil {
			drawn, host = append(drawn, p.Path), p.init(seed)
		} else if host.Data, err = s.Read(p.Path); err != nil {
			return nil, nil, err
		}
		hosts = append(hosts, host)
	}
	return hosts, drawn, nil
}

// Close closes the files.
func (s *Stored) Close() error {
	if s.base == nil {
		return closeAll(s.files)
	}
	return errors.Join(closeAll(s.files), s.base.Close())
}

func closeAll(files []*safetensors.File) error {
	var wrong []error
	for _, f := range files {
		wrong = append(wrong, f.Close())
	}
	return errors.Join(wrong...)
}
