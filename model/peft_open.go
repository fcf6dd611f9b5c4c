package model

import (
	"fmt"
	"slices"
	"strings"

	"gputrain/buffers/array"
)

// tensors maps the paths of m's adapters to the names of a PEFT file, which has to have these and no others.
func (m adapted) tensors(in []array.Tensor) (map[string]string, error) {
	family := families[m.Kind()]
	names, wanted, found := map[string]string{}, map[string]bool{}, map[string]array.Tensor{}
	var wrong, missing, extra []string
	for _, p := range m.own() {
		wanted[p.Path] = true
	}
	for _, t := range in {
		name, path := t.Path, family.tensorPath(t.Path)
		if other, twice := names[path]; twice {
			return nil, fmt.Errorf("%q and %q are the same parameter", other, name)
		}
		if !wanted[path] {
			extra = append(extra, name)
		}
		names[path], found[path] = name, t
	}
	for _, p := range sortParams(m.own()) {
		switch t, ok := found[p.Path]; {
		case !ok:
			missing = append(missing, p.Path)
		case !slices.Equal(t.Shape, p.Shape):
			wrong = append(wrong, fmt.Sprintf("%q: shape %v, want %v: the adapter is of another base, or of another rank", t.Path, t.Shape, p.Shape))
		case encoders[t.DType] == nil:
			wrong = append(wrong, fmt.Sprintf("%q: dtype %s, want F32, BF16 or F16", t.Path, t.DType))
		}
	}
	if len(missing) > 0 {
		wrong = append(wrong, fmt.Sprintf("found no %s, wanted them, as %s says", described(missing), AdapterConfigFile))
	}
	if len(extra) > 0 {
		wrong = append(wrong, fmt.Sprintf("found %s, of which %s says nothing", described(extra), AdapterConfigFile))
	}
	return names, complain(wrong)
}

// ParseAdapter is base with the adapters that an adapter_config.json tells of.
func ParseAdapter(config []byte, base Definition) (Definition, error) {
	p, err := parsePEFT(config)
	if err != nil {
		return nil, fmt.Errorf("model: %s: %w", AdapterConfigFile, err)
	}
	return p.adapt(base)
}

// AdapterBase is what an adapter_config.json calls the base of its adapters; "": it does not say.
func AdapterBase(config []byte) (string, error) {
	p, err := parsePEFT(config)
	return p.base, err
}

// AdapterWeights are all parameters of def, in canonical order: those of its base, which are given, and its adapters, from the
// tensors of a PEFT file.
func AdapterWeights(def Definition, base []array.Host, tensors []array.Tensor) ([]array.Host, error) {
	if _, ok := def.(adapted); !ok {
		return nil, errNoAdapters
	}
	s, err := Bind(def, AdapterWeightsFile, tensors)
	if err != nil {
		return nil, fmt.Errorf("model: %s: %w", AdapterWeightsFile, err)
	}
	all := slices.Clone(base)
	for _, h := range s.Adapters() {
		if h.Data, err = s.Read(h.Path); err != nil {
			return nil, fmt.Errorf("model: %s: %w", AdapterWeightsFile, err)
		}
		h.Read = nil
		all = append(all, h)
	}
	slices.SortFunc(all, func(a, b array.Host) int { return strings.Compare(a.Path, b.Path) })
	return all, nil
}
