package train

import (
	"slices"
	"strings"

	"gputrain/graph/compile"
)

// units are the matrix units that make the run's products, as checkpoints name them: each kind once; "" if none do.
func (t *trainer) units() string {
	if !t.config.State.RoundProducts {
		return ""
	}
	var kinds []string
	for _, d := range t.team.target.Devices() {
		kinds = append(kinds, compile.UnitsOf(d.Limits()))
	}
	slices.Sort(kinds)
	return strings.Join(slices.Compact(kinds), "; ")
}

// unitsText is the name of units in sentences.
func unitsText(units string) string {
	if units == "" {
		return "no matrix units"
	}
	return "matrix units of " + units
}

// noteUnits says how products of f16 are made.
func (t *opening) noteUnits() {
	if !t.config.State.RoundProducts {
		return
	}
	if units := t.units(); units != "" {
		t.say("products of f16 are made by %s", unitsText(units))
		return
	}
	t.say("products of f16 are made by f32 operations, which takes longer than f32 alone: no matrix units (device.matrix)")
}
