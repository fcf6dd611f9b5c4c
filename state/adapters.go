package state

import (
	"slices"

	"gputrain/model"
)

// adapted tells whether only adapters are saved, and what is trained whole beside them.
func (s snapshot) adapted() bool {
	return s.Definition != nil && model.AdapterParams(s.Definition) != nil
}

// adaptersJSON is what a definition says of its adapters, whatever their base is called; {} where it has none.
func adaptersJSON(def model.Definition) ([]byte, error) {
	if model.AdapterParams(def) == nil {
		return []byte("{}"), nil
	}
	return model.AdapterConfig(def, "the same")
}

// Frozen are paths of frozen parameters, those that the definition's adapters stand on, those that nobody trains, and those of a teacher or a reference.
func Frozen(def model.Definition, paths []string) []string {
	if def == nil {
		return paths
	}
	own := model.AdapterParams(def)
	frozen, not := slices.Clone(paths), setOf(slices.Concat(own, paths))
	for _, p := range def.Params() {
		if !not[p.Path] && (own != nil || p.Fixed || model.Consulted(p.Path)) {
			frozen = append(frozen, p.Path)
		}
	}
	return frozen
}
