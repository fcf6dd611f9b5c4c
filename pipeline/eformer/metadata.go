package eformer

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
	schedule optim.Schedule
	extra    map[string]any
}

// NewMetadata describes an optimizer, with further options for stage-local paths of one's own: a map of them is copied, what they point to is
// not. Errors are those of building the optimizer.
func NewMetadata(c optim.Config, extra map[string]any) (Metadata, error) {
	m := Metadata{extra: maps.Clone(extra)}
	_, err := c.Build()
	if err == nil {
		m.config, err = json.Marshal(c)
	}
	if err == nil {
		c, err = optim.ParseConfig(m.config) // completes it
	}
	if err == nil {
		m.config, err = json.Marshal(c)
	}
	if err == nil {
		m.schedule, err = c.Options.Schedule.Build(c.Options.Numerics)
	}
	if err != nil {
		return Metadata{}, fmt.Errorf("eformer: metadata: %w", err)
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
		panic("eformer: metadata: " + err.Error()) // NewMetadata has read it
	}
	return c
}

// Schedule is the learning rate by update; nil in the zero value.
func (m Metadata) Schedule() optim.Schedule { return m.schedule }

// WeightDecay is the decay outside of the optimizer, and WeightDecayMask the leaves that it is for: nil is all of them.
func (m Metadata) WeightDecay() float64 { return m.Optimizer().Options.WeightDecay }

// WeightDecayMask tells which leaves decay.
func (m Metadata) WeightDecayMask() *optim.Mask { return m.Optimizer().Options.WeightDecayMask }

// AccumulationSteps is how many calls make an update, 1 or more.
func (m Metadata) AccumulationSteps() int { return max(m.Optimizer().Options.AccumulationSteps, 1) }

// ClipGrad is the largest global norm of the gradient, and whether there is one.
func (m Metadata) ClipGrad() (limit float64, clips bool) {
	if clip := m.Optimizer().Options.ClipGrad; clip != nil {
		return *clip, true
	}
	return 0, false
}

// Extra is a further option.
func (m Metadata) Extra(name string) (value any, given bool) {
	value, given = m.extra[name]
	return value, given
}
