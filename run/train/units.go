package train

import (
	"cmp"
	"slices"
	"strings"

	"gputrain/graph/compile"
)

// units are the matrix units that make the run's products, as checkpoints name them: each kind once, "none" for a stage without; "" if none do.
func (t *trainer) units() string {
	if !t.config.State.RoundProducts {
		return ""
	}
	var kinds []string
	for _, d := range t.team.target.Devices() {
		kinds = append(kinds, cmp.Or(compile.UnitsOf(d.Limits()), "none"))
	}
	slices.Sort(kinds)
	if kinds = slices.Compact(kinds); len(kinds) == 1 && kinds[0] == "none" {
		return ""
	}
	return strings.Join(kinds, "; ")
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
