package model

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
)

// NotFiniteError is a parameter that has numbers which are NaN or infinite in its file.
type NotFiniteError struct {
	Tensor    string // as the file calls it
	Directory string
	Count, Of int // numbers that are not finite, and all
}

// Error says which, and how many.
func (e *NotFiniteError) Error() string {
	return fmt.Sprintf("model: weights: tensor %q: found %d of %d numbers NaN or infinite, wanted none (%s)", e.Tensor, e.Count, e.Of, e.Directory)
}

// finiteness is what has been found, among the parameters that were read, not to be finite.
type finiteness struct {
	allowed bool
	mu      sync.Mutex
	found   map[string]*NotFiniteError
}

// AllowNotFinite lets parameters be read that are not finite: NotFinite then names them. Otherwise to read one is a *NotFiniteError.
func (s *Stored) AllowNotFinite() {
	s.finite.allowed = true
	if s.base != nil {
		s.base.AllowNotFinite()
	}
}

// NotFinite are the parameters that were read and are not finite, by name.
func (s *Stored) NotFinite() []*NotFiniteError {
	s.finite.mu.Lock()
	defer s.finite.mu.Unlock()
	var all []*NotFiniteError
	for _, e := range s.finite.found {
		all = append(all, e)
	}
	if s.base != nil {
		all = append(all, s.base.NotFinite()...)
	}
	slices.SortFunc(all, func(a, b *NotFiniteError) int { return cmp.Compare(a.Tensor, b.Tensor) })
	return all
}

// check looks at numbers of a tensor that were read. Where some are not finite it counts those of the whole tensor.
func (s *Stored) check(name string, part []float32) error {
	if notFinite(part) == 0 {
		return nil
	}
	s.finite.mu.Lock()
	defer s.finite.mu.Unlock()
	e := s.finite.found[name]
	if e == nil {
		var err error
		if e, err = s.count(name); err != nil {
			return err
		}
		if s.finite.found == nil {
			s.finite.found = map[string]*NotFiniteError{}
		}
		s.finite.found[name] = e
	}
	if s.finite.allowed {
		return nil
	}
	return e
}

// count counts the numbers of a tensor that are not finite.
func (s *Stored) count(name string) (*NotFiniteError, error) {
	e := &NotFiniteError{Tensor: name, Directory: s.dir, Of: int(elements(s.in[name].Shape))}
	part := make([]float32, min(e.Of, 1<<16))
	for first := 0; first < e.Of; first += len(part) {
		part = part[:min(len(part), e.Of-first)]
		if err := s.in[name].Read(part, first); err != nil {
			return nil, err
		}
		e.Count += notFinite(part)
	}
	return e, nil
}

// notFinite counts the numbers that are NaN or infinite. It is called for every weight that is loaded.
func notFinite(part []float32) (n int) {
	for _, v := range part {
		if v-v != 0 {
			n++
		}
	}
	return n
}
