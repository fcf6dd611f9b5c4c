package model

import (
	"fmt"
	"regexp"
	"slices"

	"gputrain/buffers/array"
)

// Stored are the weights of a model in its files, which are another's to close.
type Stored struct {
	params []Param
	names  map[string]string // in the files, by path
	in     weights
	joined map[string]bool // paths whose parameters the files have in pieces
	base   *Stored         // has those that are not in the files; nil: there are none
	from   *Base           // what base is
	upon   *Base           // what adapters without a BaseFile were trained upon; nil: that is not known

	beside   []string // names of tensors that are none of the network's
	tiedCopy string   // what the files call a copy of a tied head; "" for none

	mean  map[string]array.Tensor // by path: a mean of the weights
	blend float32                 // its share in what is read

	dir    string // that of the files, for messages
	finite finiteness
}

// Bind finds the parameters of def among the tensors of files, which are open: from names them in messages. Every
// parameter must be there with its shape, but for those whose paths one of missing matches, and nothing else but known
// constants and, with a tied head, a copy of the embedding. Of a network with adapters the tensors are these alone:
// StandOn or TakeFrom give the rest.
func Bind(def Definition, from string, tensors []array.Tensor, missing ...*regexp.Regexp) (_ *Stored, err error) {
	s := &Stored{params: laidOut(def), in: weights{}, joined: map[string]bool{}, dir: from}
	if m, ok := def.(adapted); ok {
		tensors = m.stacked(tensors)
	}
	for _, t := range tensors {
		s.in[t.Path] = t
	}
	if m, ok := def.(adapted); ok {
		s.names, err = m.tensors(tensors)
		return s, err
	}
	if s.names, err = s.in.match(def, missing); err != nil {
		return nil, fmt.Errorf("model: weights: %w", err)
	}
	for path, name := range s.names {
		s.joined[path] = !slices.ContainsFunc(tensors, func(t array.Tensor) bool { return t.Path == name })
	}
	family, params := families[def.Kind()], map[string]bool{}
	for _, p := range s.params {
		params[p.Path] = true
	}
	tied := family.tied(def)
	for name := range s.in {
		switch {
		case family.passesOver(name, params):
			s.beside = append(s.beside, name)
		case tied && family.path(name) == family.Head:
			s.tiedCopy = name
		}
	}
	slices.Sort(s.beside)
	return s, nil
}

// StandOn gives adapters the weights of their base; upon is what they were trained upon, nil: that is not known.
func (s *Stored) StandOn(base *Stored, upon *Base) { s.base, s.upon = base, upon }

// TakeFrom gives s the parameters that it lacks, of a base whose fingerprint must be that of b.
func (s *Stored) TakeFrom(base *Stored, b Base) error {
	s.base = base
	found, n, err := s.belowFingerprint()
	if err != nil {
		return err
	}
	if found != b.Fingerprint {
		return fmt.Errorf("found %d parameters of fingerprint %s, wanted %s: it is not, or no longer, what was trained upon", n, found, b.Fingerprint)
	}
	s.from = &b
	return nil
}

// Blend has every parameter of mean read with so much of it: (1-blend) w + blend a.
func (s *Stored) Blend(mean map[string]array.Tensor, blend float64) {
	s.mean, s.blend = mean, float32(blend)
}

// read reads numbers of a parameter, which the files call name.
func (s *Stored) read(path, name string, dst []float32, first int) error {
	if err := s.in[name].Read(dst, first); err != nil {
		return fmt.Errorf("model: weights: %w", err)
	}
	if a, ok := s.mean[path]; ok && s.blend > 0 {
		mean := make([]float32, len(dst))
		if err := a.Read(mean, first); err != nil {
			return fmt.Errorf("model: weights: %w", err)
		}
		for i, m := range mean {
			dst[i] += s.blend * (m - dst[i])
		}
	}
	return s.check(name, dst)
}

// Read reads a parameter; F16, BF16 and codes are widened.
func (s *Stored) Read(path string) ([]float32, error) {
	name, ok := s.names[path]
	if !ok && s.base != nil {
		return s.base.Read(path)
	}
	if !ok {
		return nil, fmt.Errorf("model: weights: %q is no parameter of this model", path)
	}
	data := make([]float32, elements(s.in[name].Shape)) // bounded by the file's own size, which opening it has compared with the shape
	if err := s.read(path, name, data, 0); err != nil {
		return nil, err
	}
	return data, nil
}

// Params are all parameters, in canonical order, to be read from the files when they are used. Those that are not
// stored are drawn as Init draws them from seed, and drawn names them.
func (s *Stored) Params(seed uint64) (hosts []array.Host, drawn []string) {
	return s.hosts(s.params, seed)
}

// ParamsOf is Params of a network around that of the files, such as one of WithLoRA.
func (s *Stored) ParamsOf(def Definition, seed uint64) (hosts []array.Host, drawn []string) {
	return s.hosts(laidOut(def), seed)
}

func (s *Stored) hosts(params []Param, seed uint64) (hosts []array.Host, drawn []string) {
	for _, p := range params {
		host, stored := s.param(p)
		if !stored {
			host, drawn = p.drawn(seed), append(drawn, p.Path)
		}
		hosts = append(hosts, host)
	}
	begin(params, hosts, func(i int) bool { return slices.Contains(drawn, params[i].Path) }, s.param)
	return hosts, drawn
}

// param is a parameter in its file, or in that of a base.
func (s *Stored) param(p Param) (host array.Host, stored bool) {
	name, ok := s.names[p.Path]
	if !ok && s.base != nil {
		return s.base.param(p)
	}
	host = array.Host{Path: p.Path, Shape: p.Shape, OutIn: p.outIn(), Table: p.Table, Hold: s.in[name].Hold, Read: func(dst []float32, first int) error {
		return s.read(p.Path, name, dst, first)
	}}
	host.Packed = s.in[name].Packed
	return host, ok
}

// All reads every parameter.
func (s *Stored) All() (hosts []array.Host, err error) {
	hosts, _ = s.Params(0)
	for i, h := range hosts {
		if hosts[i].Data, err = s.Read(h.Path); err != nil {
			return nil, err
		}
		hosts[i].Read, hosts[i].Packed, hosts[i].Hold = nil, nil, nil
	}
	return hosts, nil
}

// Base is where those parameters are that the files lack; nil where they lack none.
func (s *Stored) Base() *Base { return s.from }

// LeftOut are the paths of the parameters that the base has.
func (s *Stored) LeftOut() (paths []string) {
	for _, p := range s.params {
		if _, stored := s.names[p.Path]; !stored && s.base != nil {
			paths = append(paths, p.Path)
		}
	}
	return paths
}

// Below are the weights of the base, which has what the files lack; nil where they lack nothing.
func (s *Stored) Below() *Stored { return s.base }

// weights are the tensors of files, by their full names.
type weights map[string]array.Tensor
