package model

import (
	"errors"
	"fmt"
	"regexp"
	"slices"

	"gputrain/buffers"
)

// ReadPartial is ReadHF of a directory that may lack parameters: those of whose paths one of allowed, regular expressions, matches are drawn as
// Init draws them from seed, and drawn names them, in canonical order. An expression that matches no parameter of the model is an error, as are
// another shape and a tensor that is no parameter, whatever is allowed.
func ReadPartial(dir string, allowed []string, seed uint64) (def Definition, hosts []buffers.Host, drawn []string, err error) {
	if def, err = ReadConfig(dir); err != nil {
		return nil, nil, nil, err
	}
	var expressions []*regexp.Regexp
	for _, pattern := range allowed {
		r, err := regexp.Compile(pattern)
		if err != nil {
			return nil, nil, nil, fmt.Errorf("model: read weights: allowed to be missing: %w", err)
		}
		if !slices.ContainsFunc(def.Params(), func(p Param) bool { return r.MatchString(p.Path) }) {
			return nil, nil, nil, fmt.Errorf("model: read weights: allowed to be missing: %q matches no parameter of the model in %s", pattern, dir)
		}
		expressions = append(expressions, r)
	}
	open, err := openWeights(dir, def, expressions)
	if err != nil {
		return nil, nil, nil, err
	}
	hosts, drawn, err = open.all(seed)
	return def, hosts, drawn, errors.Join(err, open.Close())
}
