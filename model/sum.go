package model

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	"gputrain/buffers/array"
)

// Part is a network with adapters, of which several are added up.
type Part struct {
	From    string // for messages
	Def     Definition
	Weights *Stored // those of the adapters
	Weight  float64 // what these count
}

// AddUp is the first network with adapters in place of its own that do what those of all parts do together, each times its weight, and the tensors of these. Of
// each matrix the A of all lie one below the other and the B, which take up weights and scales, side by side: what it adds is the sum of what all add, for their
// ranks add up. All have adapters of the same matrices of one network, and nothing that is no sum of products: no DoRA, nothing trained whole.
func AddUp(parts []Part) (Definition, []array.Tensor, error) {
	def, tensors, err := addUp(parts)
	if err != nil {
		return nil, nil, fmt.Errorf("model: add up adapters: %w", err)
	}
	return def, tensors, nil
}

func addUp(parts []Part) (Definition, []array.Tensor, error) {
	var all []adapted
	for _, p := range parts {
		m, ok := adaptersOf(p.Def)
		if !ok {
			return nil, nil, errNoAdapters
		}
		all = append(all, m)
		switch {
		case p.Weight-p.Weight != 0:
			return nil, nil, fmt.Errorf("%s: weight: found %v, wanted a finite number", p.From, p.Weight)
		case !Same(m.Definition, all[0].Definition):
			return nil, nil, fmt.Errorf("%s: found another network than that of %s, wanted adapters of one base", p.From, parts[0].From)
		case slices.ContainsFunc(m.modules, func(a adapter) bool { return a.experts > 0 }):
			return nil, nil, fmt.Errorf("%s: found adapters of experts, wanted matrices alone: gputrain merge writes it into its base", p.From)
		case m.lora.DoRA:
			return nil, nil, fmt.Errorf("%s: found dora, which gives rows a length, wanted adapters that are sums: gputrain merge writes it into its base", p.From)
		case len(m.copies) > 0 || m.untied != "":
			return nil, nil, fmt.Errorf("%s: found modules that are trained whole (%q), wanted adapters alone: gputrain merge writes it into its base", p.From, m.lora.Save)
		}
		for i, side := range [][]adapter{m.modules, all[0].modules} {
			other := [][]adapter{all[0].modules, m.modules}[i]
			for _, a := range side {
				if !slices.ContainsFunc(other, func(b adapter) bool { return a.module == b.module }) {
					return nil, nil, fmt.Errorf("found an adapter of %q in %s and none in %s, wanted adapters of the same modules", a.module, parts[(len(all)-1)*(1-i)].From, parts[(len(all)-1)*i].From)
				}
			}
		}
	}
	l := LoRA{RankPattern: map[string]int{}, AlphaPattern: map[string]float64{}}
	for i, a := range all[0].modules {
		rank := 0
		for _, m := range all {
			rank += m.modules[i].rank
		}
		if l.Rank == 0 {
			l.Rank, l.Alpha = rank, float64(rank)
		}
		if l.Target = append(l.Target, a.module); rank != l.Rank {
			l.RankPattern[a.module], l.AlphaPattern[a.module] = rank, float64(rank)
		}
	}
	def, err := WithLoRA(all[0].Definition, l)
	if err != nil {
		return nil, nil, fmt.Errorf("%w, which the ranks of all together must not exceed: merge one after the other", err)
	}
	m := def.(adapted)
	m.baseName = all[0].baseName
	family := families[m.Kind()]
	var tensors []array.Tensor
	for i, a := range m.modules {
		for _, path := range []string{a.a(), a.b()} {
			shape := map[string][]int{a.a(): {a.rank, a.in}, a.b(): {a.out, a.rank}}[path]
			whole := sync.OnceValues(func() ([]float32, error) { return laidTogether(parts, all, i, path) })
			tensors = append(tensors, array.Tensor{DType: "F32", Host: array.Host{Path: family.adapterName(m, path), Shape: shape, Read: func(dst []float32, first int) error {
				x, err := whole()
				if err == nil {
					copy(dst, x[first:])
				}
				return err
			}}})
		}
	}
	return m, tensors, nil
}

// laidTogether is one of the two matrices of the adapters of module i.
func laidTogether(parts []Part, all []adapted, i int, path string) ([]float32, error) {
	var each [][]float32
	for _, p := range parts {
		x, err := p.Weights.Read(path)
		if err != nil {
			return nil, err
		}
		each = append(each, x)
	}
	if path == all[0].modules[i].a() {
		return slices.Concat(each...), nil
	}
	var out []float32
	for row := range all[0].modules[i].out {
		for k, m := range all {
			a := m.modules[i]
			for _, v := range each[k][row*a.rank : (row+1)*a.rank] {
				w := float32(parts[k].Weight * a.scale * float64(v))
				if math.IsInf(float64(w), 0) && v-v == 0 {
					return nil, errors.New("model: add up adapters: " + parts[k].From + ": found numbers that are finite and not times the weight, wanted a smaller one")
				}
				out = append(out, w)
			}
		}
	}
	return out, nil
}
