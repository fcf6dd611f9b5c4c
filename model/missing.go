package model

import (
	"errors"
	"fmt"
	"regexp"
	"slices"

	"gputrain/buffers/array"
)

// PatternError says that an expression for parameters cannot be meant.
type PatternError struct{ err error }

// Error says which, and why.
func (e *PatternError) Error() string {
	return fmt.Sprintf("model: read weights: allowed to be missing: %v", e.err)
}

// ReadPartial is ReadHF of a directory that may lack parameters: those of whose paths one of allowed, regular expressions, matches are drawn as
// Init draws them from seed, and drawn names them, in canonical order. An expression that matches no parameter of the model is a
// *PatternError; another shape and a tensor that is no parameter are errors whatever is allowed.
func ReadPartial(dir string, allowed []string, seed uint64) (def Definition, hosts []array.Host, drawn []string, err error) {
	if def, err = ReadConfig(dir); err != nil {
		return nil, nil, nil, err
	}
	var expressions []*regexp.Regexp
	for _, pattern := range allowed {
		r, err := regexp.Compile(pattern)
		if err == nil && !slices.ContainsFunc(def.Params(), func(p Param) bool { return r.MatchString(p.Path) }) {
			err = fmt.Errorf("pattern %q: matches none of the %d parameters", pattern, len(def.Params()))
		}
		if err != nil {
			return nil, nil, nil, &PatternError{err}
		}
		expressions = append(expressions, r)
	}
	open, err := openWeights(dir, def, expressions, 0)
	if err != nil {
		return nil, nil, nil, err
	}
	hosts, drawn, err = open.all(seed)
	return def, hosts, drawn, errors.Join(err, open.Close())
}
