package model

import (
	"io"
	"slices"
	"strings"

	"gputrain/buffers/safetensors"
)

// DType is the type that most elements of the parameters have; F32 of nil.
func (s *Stored) DType() string {
	most, elementsOf := "F32", map[string]int64{}
	for s != nil {
		for _, name := range s.names {
			t := s.in[name]
			if elementsOf[t.DType] += elements(t.Shape); elementsOf[t.DType] > elementsOf[most] {
				most = t.DType
			}
		}
		s = s.base
	}
	return most
}

// dress gives the tensors of def the names that they have in these files of the same family and, where typed, the types. Files of a tied head may have a
// copy of it: so does the result.
func (s *Stored) dress(def Definition, tensors []safetensors.Tensor, typed bool, read func(path string) ([]float32, error)) []safetensors.Tensor {
	family := families[def.Kind()]
	params := def.Params()
	parted := family.hasHead(params) && s.names[family.Head] == "" // a head that the files have tied
	for i, p := range params {
		name, ok := s.names[p.Path]
		if !ok && parted && p.Path == family.Head {
			name, ok = s.names[family.Embeddings[0]]
		}
		if !ok {
			continue
		}
		switch {
		case wrapperOf(def) != nil && parted && p.Path == family.Head:
			root, _ := strings.CutSuffix(name, strings.TrimPrefix(family.Embeddings[0], textRoot))
			tensors[i].Name = wrappedName(p.Path, root)
		// A tied model may be without the prefix that one with two matrices has.
		case wrapperOf(def) != nil, !parted && (name == p.Path || name == family.Prefix+p.Path || name == strings.TrimPrefix(p.Path, family.Root)): // and not of a text part that is written alone
			tensors[i].Name = name
		}
		if typed {
			dtype := s.in[name].DType
			tensors[i].DType, tensors[i].Data = dtype, dataAs(dtype, p.Path, read)
		}
	}
	if s.tiedCopy == "" || s.tiedCopy != family.Head && wrapperOf(def) == nil || parted || HeadOf(def).Kind != "" {
		return tensors
	}
	i := slices.IndexFunc(params, func(p Param) bool { return p.Path == family.Embeddings[0] })
	head := tensors[i]
	head.Name = s.tiedCopy
	return append(tensors, head)
}

// dataAs writes a parameter as a type.
func dataAs(dtype, path string, read func(path string) ([]float32, error)) func(w io.Writer) error {
	return func(w io.Writer) error {
		data, err := read(path)
		if err != nil {
			return err
		}
		return WriteFloats(w, dtype, data)
	}
}
