package pipeline

import (
	"fmt"
	"maps"
	"slices"

	"gputrain/gpu"
	"gputrain/pipeline/partition"
	"gputrain/state"
)

// PlacementByRules divides a value over devices, one a stage: each leaf, parameter or other variable, has rules for exactly one stage. Stages
// need not follow any forward pass, as no graph is run. Value.Place then moves everything there; of a value that is loaded onto a dry device,
// state.LoadOptions takes the placement.
func PlacementByRules(v state.Value, devices []*gpu.Device, rules []partition.Rule) (state.Placement, error) {
	p, err := v.Placement()
	if err != nil {
		return p, err
	}
	var units []partition.Unit
	for _, path := range slices.Sorted(maps.Keys(p.Stage)) {
		units = append(units, partition.Unit{Name: path, Params: []string{path}})
	}
	stages, err := partition.Match(units, rules, len(devices))
	if err != nil {
		return p, fmt.Errorf("pipeline: placement: rules: %w", err)
	}
	p.Devices = devices
	for i, u := range units {
		p.Stage[u.Name] = stages[i]
	}
	return p, nil
}
