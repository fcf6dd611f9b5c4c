package model

import (
	"fmt"
	"regexp"
	"slices"
)

// PatternError says that an expression for parameters cannot be meant.
type PatternError struct{ err error }

// Error says which, and why.
func (e *PatternError) Error() string {
	return fmt.Sprintf("model: read weights: allowed to be missing: %v", e.err)
}

// OpenPartial is OpenWeights of a directory, as its config.json says, that may lack parameters: those of whose paths one of allowed, regular expressions,
// matches. Stored.Params draws them. An expression that matches no parameter of the model is a *PatternError; another shape and a tensor that is no
// parameter are errors whatever is allowed.
func OpenPartial(dir string, allowed []string) (Definition, *Stored, error) {
	def, err := ReadConfig(dir)
	if err != nil {
		return nil, nil, err
	}
	var expressions []*regexp.Regexp
	for _, pattern := range allowed {
		r, err := regexp.Compile(pattern)
		if err == nil && !slices.ContainsFunc(def.Params(), func(p Param) bool { return r.MatchString(p.Path) }) {
			err = fmt.Errorf("pattern %q: matches none of the %d parameters", pattern, len(def.Params()))
		}
		if err != nil {
			return nil, nil, &PatternError{err}
		}
		expressions = append(expressions, r)
	}
	s, err := openWeights(dir, def, expressions, bases{})
	return def, s, err
}
