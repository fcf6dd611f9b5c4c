package model

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"gputrain/internal/suggest"
)

// PEFT's names begin with the first of these; those of an adapter's parts end in the others.
const (
	peftPrefix      = "base_model.model."
	loraA, loraB    = ".lora_A.weight", ".lora_B.weight"
	magnitudeVector = ".lora_magnitude_vector"
)

// adapted is a network some of whose matrices have adapters, and which reads copies of some of its parameters in their place.
type adapted struct {
	Definition
	lora    LoRA
	modules []adapter         // by their names
	copies  map[string]string // of the parameters that are trained whole: their copies' paths
	untied  string            // the path of the copy of a tied head; "" for none
	params  []Param
	trained []Param // those of adapters and copies

	file     map[string]json.RawMessage // the adapter_config.json that it was read from; nil for none
	baseName string                     // what that calls the base
}

// adapter is that of one matrix.
type adapter struct {
	module  string // as PEFT calls it, "model.layers.0.self_attn.q_proj"
	weight  string // the path of W
	conv    bool   // W is [in, out]
	in, out int
	rank    int
	scale   float64

	experts int  // whose matrices W has, [experts, out, in] or, with conv, [experts, in, out]; 0: it is one matrix
	first   int  // of those, the first of W's outputs that it has
	apart   bool // and each expert is a module of its own
}

func (a adapter) a() string         { return peftPrefix + a.module + loraA }
func (a adapter) b() string         { return peftPrefix + a.module + loraB }
func (a adapter) magnitude() string { return peftPrefix + a.module + magnitudeVector }

// LoRAPlus is a regular expression of the paths that LoRA+ (Hayou et al. 2024, arXiv:2402.12354) gives a rate of their own: those of the matrices B and, as
// in PEFT, of the lengths of rows.
const LoRAPlus = `\.lora_B\.weight$|\.lora_magnitude_vector$`

// WithLoRA is def with adapters, whose parameters and those of modules that are trained whole it has besides, under PEFT's names (see AdapterParams). All
// others stay as they are. An adapter begins as PEFT begins it: A uniform in +-1/sqrt(in), B zero, so that the network computes what def does.
func WithLoRA(def Definition, l LoRA) (Definition, error) {
	if def == nil {
		return nil, errNone
	}
	if _, ok := def.(adapted); ok {
		return nil, errors.New("model: lora: found a network with adapters, wanted one without")
	}
	l = l.or()
	if HeadOf(def).Kind == HeadScores && !slices.Contains(l.Save, headModule) { // as PEFT does
		l.Save = append(slices.Clone(l.Save), headModule)
	}
	if err := l.validate(); err != nil {
		return nil, err
	}
	family, err := familyOf(def.Kind())
	if err != nil {
		return nil, err
	}
	l.wraps = family.beside != nil
	all, err := linearLayers(def, family)
	if err != nil {
		return nil, err
	}
	m := adapted{Definition: def, lora: l, copies: map[string]string{}}
	if err := m.choose(all, family); err != nil {
		return nil, err
	}
	if err := m.save(family); err != nil {
		return nil, err
	}
	if err := m.check(family); err != nil {
		return nil, err
	}
	below := slices.DeleteFunc(def.Params(), func(p Param) bool { return p.Path == scoreWeight }) // nothing reads it: it may be nowhere
	m.trained = m.begun()
	m.params = sortParams(append(below, m.own()...))
	return m, nil
}

// linearLayers are the matrices that def multiplies rows by, as a graph of it does.
func linearLayers(def Definition, family Family) ([]adapter, error) {
	shapes := map[string][]int{}
	for _, p := range def.Params() {
		shapes[p.Path] = p.Shape
	}
	var all []adapter
	seen := func(path, module string, conv bool) {
		if slices.ContainsFunc(all, func(a adapter) bool { return a.module == module }) {
			return
		}
		a := adapter{module: module, weight: path, conv: conv, out: shapes[path][0], in: shapes[path][1]}
		if conv {
			a.in, a.out = a.out, a.in
		}
		all = append(all, a)
	}
	o := Options{Logits: true, expert: func(a adapter) { all = append(all, a) }, linear: func(path string, conv bool) { seen(path, family.module(path), conv) }}
	if family.Head != "" {
		o.head = func(path string) { seen(path, family.module(family.Head), false) }
	}
	if _, err := def.Build(1, 1, o); err != nil {
		return nil, err
	}
	slices.SortFunc(all, func(a, b adapter) int { return strings.Compare(a.module, b.module) })
	return all, nil
}

// module is what PEFT calls the module of a parameter's path.
func (f Family) module(path string) string {
	name := f.name(path, true)
	return name[:max(0, strings.LastIndexByte(name, '.'))]
}

// choose finds the matrices with adapters, and their ranks.
func (m *adapted) choose(all []adapter, family Family) error {
	var names, chosen []string
	var parameters []adapter
	for i := range all {
		a := &all[i]
		if byName := m.lora.isTarget(a.module, m.lora.parameters); byName && a.experts > 0 {
			a.apart, parameters = false, append(parameters, *a)
		} else if !a.parameter() || !slices.Contains(m.lora.Target, AllLinear) { // as of PEFT's
			names = append(names, a.names()...)
		}
	}
	for _, target := range m.lora.parameters {
		if !slices.ContainsFunc(parameters, func(a adapter) bool { return m.lora.isTarget(a.module, []string{target}) }) {
			return fmt.Errorf("model: lora: target_parameters: found %q, wanted names of matrices of experts that the model has", target)
		}
	}
	if len(parameters) == 0 || len(m.lora.Target) > 0 {
		var err error
		if chosen, err = m.lora.target(names, family.module(family.Head)); err != nil {
			return err
		}
	}
	for _, a := range parameters {
		chosen = append(chosen, a.module)
	}
	for _, name := range chosen {
		if x := m.lora.exclude; x != nil && m.lora.says(name, x.MatchString) {
			return fmt.Errorf("model: lora: exclude_modules: found one that matches %q, wanted none: targets that are left out are not supported", name)
		}
	}
	if err := errors.Join(unmatched(m.lora, "rank_pattern", m.lora.RankPattern, chosen), unmatched(m.lora, "alpha_pattern", m.lora.AlphaPattern, chosen)); err != nil {
		return err
	}
	is := map[string]bool{}
	for _, name := range chosen {
		is[name] = true
	}
	for _, a := range all {
		if there, err := same("target", a, func(module string) (bool, error) { return is[module], nil }); err != nil || !there {
			if err != nil {
				return err
			}
			continue
		}
		var err error
		if a.rank, err = same("rank_pattern", a, func(module string) (int, error) {
			return patternOf(m.lora, "rank_pattern", module, m.lora.RankPattern, m.lora.rankOrder, m.lora.Rank)
		}); err != nil {
			return err
		}
		alpha, err := same("alpha_pattern", a, func(module string) (float64, error) {
			return patternOf(m.lora, "alpha_pattern", module, m.lora.AlphaPattern, m.lora.alphaOrder, m.lora.Alpha)
		})
		if err != nil {
			return err
		}
		if a.rank > min(a.in, a.out) {
			key := "rank"
			if a.rank != m.lora.Rank {
				key = "rank_pattern"
			}
			return fmt.Errorf("model: lora: %s: found %d for %q, whose matrix has %d outputs and %d inputs, wanted at most %d", key, a.rank, a.module, a.out, a.in, min(a.in, a.out))
		}
		a.scale = m.lora.scale(a.rank, alpha)
		m.modules = append(m.modules, a)
	}
	return m.expertFaults()
}

// save finds the parameters that are trained whole: those of modules, or within modules, whose names end as asked for.
func (m *adapted) save(family Family) error {
	params := m.Definition.Params()
	var known []string
	for _, p := range params {
		known = append(known, family.module(p.Path))
	}
	tied := family.tied(m.Definition)
	if tied {
		known = append(known, family.module(family.Head))
	}
	for _, end := range m.lora.Save {
		found := false
		saved := func(module string) bool {
			for name := module; name != ""; name = name[:max(0, strings.LastIndexByte(name, '.'))] {
				if end != "" && m.lora.says(name, func(name string) bool { return strings.HasSuffix(name, end) }) {
					return true
				}
			}
			return false
		}
		for _, p := range params {
			if module := family.module(p.Path); saved(module) && !p.Fixed {
				m.copies[p.Path], found = peftPrefix+family.name(p.Path, true), true
			}
		}
		if tied && saved(family.module(family.Head)) {
			m.untied, found = peftPrefix+family.Head, true
		}
		if !found {
			last := lastNames(known)
			return fmt.Errorf("model: lora: save: %q ends the name of no module, wanted one of %q%s", end, last, suggest.DidYouMean(end, last))
		}
	}
	return nil
}

// check refuses what cannot be trained together.
func (m *adapted) check(family Family) error {
	head := family.module(family.Head)
	for _, a := range m.modules {
		switch {
		case m.copies[a.weight] != "" && a.module != head, a.module == head && (m.untied != "" || m.copies[family.Head] != ""):
			return fmt.Errorf("model: lora: save: found %q, which has an adapter too, wanted it in one of both", a.module)
		case a.module == head && m.lora.DoRA && m.lora.Dropout > 0:
			return fmt.Errorf("model: lora: target: found %q with dora and dropout %v, wanted one of them alone: not supported for the output head", a.module, m.lora.Dropout)
		}
	}
	if q, ok := m.Definition.(quantized); ok {
		for path := range m.copies {
			if q.paths[path] {
				return fmt.Errorf("model: lora: save: found %q, which is quantized in training (%v), wanted it left as it is", path, q.q)
			}
		}
		for _, a := range m.modules {
			if m.lora.DoRA && q.paths[a.weight] {
				return fmt.Errorf("model: lora: dora: found %q quantized in training (%v), wanted it left as it is", a.weight, q.q)
			}
		}
	}
	return nil
}

// own are the parameters that are trained.
func (m *adapted) own() []Param { return slices.Clone(m.trained) }

// begun are the parameters that are trained, as they begin: of experts there may be very many pieces.
func (m *adapted) begun() (own []Param) {
	for _, a := range m.modules {
		down, up := Param{Path: a.a(), uniform: 1 / math.Sqrt(float64(a.in))}, Param{Path: a.b()}
		down.Shape, up.Shape = a.shapes()
		a.inFiles(&down, &up, slices.ContainsFunc(m.modules, func(o adapter) bool { return o.parameter() && a.parameter() && o.behind(a) }))
		own = append(own, down, up)
		if m.lora.DoRA {
			own = append(own, Param{Path: a.magnitude(), Shape: []int{a.out}, from: a.weight, lengths: true, conv: a.conv})
		}
	}
	for _, p := range laidOut(m.Definition) {
		if to, ok := m.copies[p.Path]; ok {
			own = append(own, Param{Path: to, Shape: p.Shape, Std: p.Std, InOut: p.InOut, from: p.Path})
		}
	}
	if m.untied != "" {
		family := families[m.Kind()]
		for _, p := range m.Definition.Params() {
			if p.Path == family.Embeddings[0] {
				own = append(own, Param{Path: m.untied, Shape: p.Shape, from: p.Path})
			}
		}
	}
	return own
}

// adaptersOf is def with its adapters, if it has some.
func adaptersOf(def Definition) (adapted, bool) {
	m, ok := Student(def).(adapted)
	return m, ok
}

// AdapterParams are the paths of the parameters of def that are trained where it has adapters, in canonical order; nil where it has none.
func AdapterParams(def Definition) (paths []string) {
	m, ok := adaptersOf(def)
	if !ok {
		return nil
	}
	for _, p := range sortParams(m.own()) {
		paths = append(paths, p.Path)
	}
	return paths
}

// errNoAdapters is the error of a network that has none.
var errNoAdapters = errors.New("model: adapters: found a network without any, wanted one with some")

// Adapts is the path of the parameter that the one at path belongs to, where that is of an adapter or a copy; path itself for any other.
func Adapts(path string) string {
	name, ok := strings.CutPrefix(path, peftPrefix)
	if !ok {
		return path
	}
	for _, part := range []string{loraA, loraB, magnitudeVector} {
		if module, ok := strings.CutSuffix(name, part); ok {
			name = expertsWeight(module)
		}
	}
	for _, f := range families {
		if rest, ok := strings.CutPrefix(name, f.Prefix); ok && f.Prefix != "" {
			return rest
		}
	}
	return name
}

// AdapterScales are what the product of each adapter's matrices is multiplied by, by the modules as PEFT calls them.
func AdapterScales(def Definition) map[string]float64 {
	scales := map[string]float64{}
	if m, ok := adaptersOf(def); ok {
		for _, a := range m.modules {
			for _, name := range append(a.names(), a.module) {
				scales[name] = a.scale
			}
		}
	}
	return scales
}

// BaseOf is the network that def's adapters stand on; def itself where it has none.
func BaseOf(def Definition) Definition {
	if m, ok := adaptersOf(def); ok {
		return m.Definition
	}
	return def
}

// Params are those of the base, and of the adapters.
func (m adapted) Params() []Param { return slices.Clone(m.params) }

// Build is the base's graph, with the adapters in it.
func (m adapted) Build(batch, seq int, o Options) (*Built, error) {
	o.adapted = &m
	return m.Definition.Build(batch, seq, o)
}

// WithDropout is for the network within.
func (m adapted) WithDropout(p float64) (Definition, error) {
	def, err := WithDropout(m.Definition, p)
	if err != nil {
		return nil, err
	}
	m.Definition = def
	return m, nil
}
