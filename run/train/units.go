package train

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"gputrain/graph"
	"gputrain/graph/compile"
	"gputrain/model"
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
		t.noteHeads()
	}
	said := ""
	for _, d := range t.team.target.Devices() {
		if lack := compile.UnitsLack(d.Limits()); lack != "" && lack != said {
			t.say("products of f16 are made by f32 operations, which takes longer than f32 alone: found %s on %s (device.matrix)", lack, d.Adapter().Name)
			said = lack
		}
	}
}

// noteHeads says where attention is not made by the matrix units that make other products: layers may have heads of several widths.
func (t *opening) noteHeads() {
	built, err := t.config.State.Definition.Build(1, 1, model.Options{Logits: true})
	if err != nil {
		return // who builds the run says so
	}
	for _, d := range t.team.target.Devices() {
		l := d.Limits()
		var widths []string
		for _, n := range built.Graph.Nodes() {
			a, attends := n.Op.(graph.Attention)
			if width := strconv.Itoa(a.HeadDim); attends && compile.UnitsOf(l) != "" && !compile.UnitsAttend(l, a.HeadDim, a.Cap > 0) && !slices.Contains(widths, width) {
				widths = append(widths, width)
			}
		}
		if len(widths) > 0 {
			t.say("attention is made by f32 operations, or in part: matrix units take no heads of %s on %s", strings.Join(widths, ", "), d.Adapter().Name)
			return
		}
	}
}
