package state

import (
	"slices"

	"gputrain/model"
)

// adapted tells whether only adapters are saved, and what is trained whole beside them.
func (s Snapshot) adapted() bool {
	return s.Definition != nil && model.AdapterParams(s.Definition) != nil
}

// adaptersJSON is what a definition says of its adapters, whatever their base is called; {} where it has none.
func adaptersJSON(def model.Definition) ([]byte, error) {
	if model.AdapterParams(def) == nil {
		return []byte("{}"), nil
	}
	return model.AdapterConfig(def, "the same")
}

// withFrozenBase is Frozen, and what the definition's adapters stand on.
func (j Job) withFrozenBase() []string {
	if j.Definition == nil {
		return j.Frozen
	}
	own := model.AdapterParams(j.Definition)
	if own == nil {
		return j.Frozen
	}
	frozen, not := slices.Clone(j.Frozen), setOf(slices.Concat(own, j.Frozen))
	for _, p := range j.Definition.Params() {
		if !not[p.Path] {
			frozen = append(frozen, p.Path)
		}
	}
	return frozen
}
