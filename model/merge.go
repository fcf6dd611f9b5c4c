package model

import (
	"fmt"
	"maps"
	"math"
	"slices"
)

// untying is what a Definition with a tied head implements for Merge.
type untying interface {
	// untie is the network with a head of its own.
	untie() Definition
}

func (m decoder) untie() Definition {
	m.tied, m.settings = false, maps.Clone(m.settings)
	m.settings[tieKey] = false
	return m
}

func (m gpt2) untie() Definition {
	m.c.Untied = true
	if m.file != nil {
		m.file = maps.Clone(m.file)
		m.file[tieKey] = []byte("false")
	}
	return m
}

func (m quantized) untie() Definition {
	m.Definition = m.Definition.(untying).untie()
	return m
}

// tieKey is that of config.json for a head that is the embedding.
const tieKey = "tie_word_embeddings"

// Merged is the network that computes what def does, without adapters: each is added to its matrix. It has a head of its own where def has a tied one that is
// trained, or whose embedding is.
func Merged(def Definition) (Definition, error) {
	m, ok := adaptersOf(def)
	if !ok {
		return nil, errNoAdapters
	}
	if !m.parts() {
		return m.Definition, nil
	}
	base, ok := m.Definition.(untying)
	if q, quantizes := m.Definition.(quantized); ok && quantizes {
		_, ok = q.Definition.(untying)
	}
	if !ok {
		return nil, fmt.Errorf("model: merge: %s: found a trained head or embedding where both are one matrix, wanted a network that can have two", m.Kind())
	}
	return base.untie(), nil
}

// parts tells whether a tied head and its embedding are not the same any more.
func (m adapted) parts() bool {
	family := families[m.Kind()]
	if !family.tied(m.Definition) {
		return false
	}
	return m.untied != "" || m.copies[family.Embeddings[0]] != "" || slices.ContainsFunc(m.modules, func(a adapter) bool { return a.module == family.module(family.Head) })
}

// Merge reads the parameters of Merged(def): read gives those of def. What an adapter changes is computed in float64 and rounded to f32.
func Merge(def Definition, read func(path string) ([]float32, error)) func(path string) ([]float32, error) {
	m, _ := adaptersOf(def)
	family := families[m.Kind()]
	return func(path string) ([]float32, error) {
		at := path
		if path == family.Head && m.parts() {
			if m.untied != "" {
				return read(m.untied)
			}
			at = family.Embeddings[0]
		} else if to := m.copies[path]; to != "" {
			return read(to)
		}
		w, err := read(at)
		if err != nil {
			return nil, err
		}
		for _, a := range m.modules {
			if a.experts > 0 && a.weight == path {
				if err := a.mergeExperts(w, read); err != nil {
					return w, err
				}
			}
		}
		module := family.module(path)
		if module+".weight" != family.name(path, true) {
			return w, nil
		}
		i := slices.IndexFunc(m.modules, func(a adapter) bool { return a.module == module })
		if i < 0 {
			return w, nil
		}
		return w, m.modules[i].merge(w, m.lora.DoRA, read)
	}
}

// merge adds to w what the adapter has.
func (a adapter) merge(w []float32, dora bool, read func(path string) ([]float32, error)) error {
	down, err := read(a.a())
	if err != nil {
		return err
	}
	up, err := read(a.b())
	if err != nil {
		return err
	}
	var magnitude []float32
	if dora {
		if magnitude, err = read(a.magnitude()); err != nil {
			return err
		}
	}
	sound := !slices.ContainsFunc([][]float32{w, down, up, magnitude}, func(part []float32) bool { return notFinite(part) > 0 })
	inParts(a.out, 1, func(from, to int) {
		row := make([]float64, a.in)
		for i := from; i < to; i++ {
			clear(row)
			for k, b := range up[i*a.rank : (i+1)*a.rank] {
				for j, v := range down[k*a.in : (k+1)*a.in] {
					row[j] += float64(b) * float64(v)
				}
			}
			first, step := i*a.in, 1
			if a.conv {
				first, step = i, a.out
			}
			square := 0.0
			for j := range row {
				row[j] = float64(w[first+j*step]) + a.scale*row[j]
				square += row[j] * row[j]
			}
			stretch := 1.0
			if dora {
				stretch = float64(magnitude[i]) / math.Sqrt(square)
			}
			for j := range row {
				w[first+j*step] = float32(stretch * row[j])
			}
		}
	})
	if n := notFinite(w); n > 0 && sound { // where an input is not, its reader has said so
		return fmt.Errorf("found %d of %d numbers that are finite apart and not as a sum, wanted adapters that fit their base", n, len(w))
	}
	return nil
}
