package pipeline

import (
	"encoding/json"
	"fmt"
	"maps"

	"gputrain/optim"
)

// Metadata tells a stage-local path what an optimizer was built of (eformer's StageLocalOptimizerMetadata). It cannot be changed: what its
// methods give are copies. The zero value tells nothing.
type Metadata struct {
	config   []byte // as JSON, complete
	options  optim.Options
	schedule optim.Schedule
	extra    map[string]any
}

// NewMetadata describes an optimizer, with further options for stage-local paths of one's own: a map of them is copied, what they point to is
// not. Errors are those of building the optimizer.
func NewMetadata(c optim.Config, extra map[string]any) (Metadata, error) {
	if _, err := c.Build(); err != nil {
		return Metadata{}, fmt.Errorf("pipeline: metadata: %w", err)
	}
	m := Metadata{extra: maps.Clone(extra)}
	data, err := json.Marshal(c)
	if err != nil {
		return Metadata{}, fmt.Errorf("pipeline: metadata: %w", err)
	}
	complete, err := optim.ParseConfig(data)
	if err != nil {
		return Metadata{}, fmt.Errorf("pipeline: metadata: %w", err)
	}
	if m.config, err = json.Marshal(complete); err != nil {
		return Metadata{}, fmt.Errorf("pipeline: metadata: %w", err)
	}
	m.options = complete.Options
	if m.schedule, err = m.options.Schedule.Build(m.options.Numerics); err != nil {
		return Metadata{}, fmt.Errorf("pipeline: metadata: %w", err)
	}
	return m, nil
}

// Optimizer is the whole configuration: name, options, and all parameters with their defaults.
func (m Metadata) Optimizer() optim.Config {
	if m.config == nil {
		return optim.Config{}
	}
	c, err := optim.ParseConfig(m.config)
	if err != nil {
		panic("pipeline: metadata: " + err.Error()) // NewMetadata has read it
	}
	return c
}

// Schedule is the learning rate by update; nil in the zero value.
func (m Metadata) Schedule() optim.Schedule { return m.schedule }

// WeightDecay is the decay outside of the optimizer, and WeightDecayMask the leaves that it is for: nil is all of them.
func (m Metadata) WeightDecay() float64 { return m.options.WeightDecay }

// WeightDecayMask tells which leaves decay.
func (m Metadata) WeightDecayMask() *optim.Mask { return m.Optimizer().Options.WeightDecayMask }

// AccumulationSteps is how many calls make an update, 1 or more.
func (m Metadata) AccumulationSteps() int { return max(m.options.AccumulationSteps, 1) }

// ClipGrad is the largest global norm of the gradient, and whether there is one.
func (m Metadata) ClipGrad() (limit float64, clips bool) {
	if m.options.ClipGrad == nil {
		return 0, false
	}
	return *m.options.ClipGrad, true
}

// Extra is a further option.
func (m Metadata) Extra(name string) (value any, given bool) {
	value, given = m.extra[name]
	return value, given
}
