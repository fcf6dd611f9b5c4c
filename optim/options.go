package optim

import (
	"errors"
	"fmt"
	"math"
)

// Options are what all optimizers have in common. The zero value is a rate of 0 and nothing else.
type Options struct {
	Schedule          ScheduleConfig `json:"schedule" doc:"learning rate by update"`
	ClipGrad          *float64       `json:"clip_grad" doc:"largest global norm of the gradient; null = no clip"`
	WeightDecay       float64        `json:"weight_decay" doc:"p -= lr(t) weight_decay p, outside of the optimizer"`
	WeightDecayMask   *Mask          `json:"weight_decay_mask" doc:"leaves that decay: patterns, paths or \"matrices\"; null = all"`
	AccumulationSteps int            `json:"accumulation_steps" doc:"calls in an update, which averages their gradients; 0 = 1"`
	SkipNonFinite     bool           `json:"skip_non_finite" doc:"an update with a gradient that is not finite changes nothing"`
	MeasureNorm       bool           `json:"measure_norm" doc:"measure the global norm of the gradient even if nothing needs it"`
	Numerics          Numerics       `json:"numerics" doc:"stable (default) or eformer"`
	Edition           Edition        `json:"edition,omitempty" doc:"which rules the numerics had: 1 of runs whose records name none, 2 since; 0 = the newest"`
	Rates             []PathRate     `json:"rates" doc:"multipliers of the rate by path pattern; the first match holds"`

	Hyperball     Hyperball `json:"hyperball,omitzero" doc:"matrices that keep their norm: true = those of layers, or patterns or paths; false = none"`
	CautiousDecay bool      `json:"cautious_decay,omitzero" doc:"weight_decay acts only where the update shrinks a parameter, on matrices of hyperball too"`
	UpdateFloor   float64   `json:"update_floor,omitzero" doc:"least norm of a matrix's update before the rate, as a share of the matrix's; 0 = none"`
	FloorBy       string    `json:"floor_by,omitzero" doc:"row (default) or matrix: whose norms update_floor compares"`

	Lookahead *Lookahead `json:"lookahead,omitempty" doc:"gradients are taken ahead of the weights, along the mean of what updates moved them by; null = at the weights"`
	Average   *Averaging `json:"average,omitempty" doc:"a mean of the weights over the last updates, for evaluation and export; null = none"`

	scanned *Mask // leaves whose first axis counts matrices, as the optimizer's own parameters say
}

// Validate checks everything that can be checked without the paths of a tree.
func (o Options) Validate() error {
	if err := o.Numerics.Validate(); err != nil {
		return err
	}
	if o.Edition < 0 || o.Edition > Newest {
		return fmt.Errorf("edition: found %d, wanted %d or %d, or 0 for the newest", o.Edition, First, Newest)
	}
	if err := o.Schedule.Validate(); err != nil {
		return err
	}
	if o.ClipGrad != nil && (!(*o.ClipGrad > 0) || math.IsInf(*o.ClipGrad, 0)) {
		return fmt.Errorf("clip_grad: found %g, wanted more than 0, or null for no clip", *o.ClipGrad)
	}
	if err := inInterval("weight_decay", o.WeightDecay, "[0,inf)"); err != nil {
		return err
	}
	if err := firstError(o.Lookahead.validate(), o.Average.validate()); err != nil {
		return err
	}
	if o.AccumulationSteps < 0 {
		return fmt.Errorf("accumulation_steps: found %d, wanted 1 or more", o.AccumulationSteps)
	}
	return firstError(inInterval("update_floor", o.UpdateFloor, "[0,inf)"), oneOf("floor_by", o.FloorBy, []string{floorByRow, floorByMatrix, ""}))
}

// assemble puts the parts that all optimizers share around the one that makes the update, rate included:
//
//	accumulate(k, skip_non_finite(chain(global_norm, clip, inner, scheduled decay or land, lookahead, average)))
func (o Options) assemble(lr Schedule, inner Transform) Transform {
	var parts []Transform
	if o.MeasureNorm {
		parts = append(parts, globalNorm())
	}
	if o.ClipGrad != nil {
		parts = append(parts, o.clip(*o.ClipGrad))
	}
	parts = append(parts, inner)
	switch {
	case o.lands():
		parts = append(parts, o.land(lr, inner))
	case o.WeightDecay > 0:
		parts = append(parts, AddScheduledDecay(lr, o.WeightDecay, o.WeightDecayMask, o.Rates...))
	}
	t := Chain(append(parts, o.around(lr)...)...)
	if o.SkipNonFinite {
		t = SkipNonFinite(t)
	}
	return Accumulate(max(o.AccumulationSteps, 1), t)
}

// innerMask is the mask of a decay inside the optimizer: its own, or by the numerics the options' or none.
func (o Options) innerMask(own *Mask) *Mask {
	if own == nil && o.rules().innerMask {
		return o.WeightDecayMask
	}
	return own
}

// oneDecay refuses a decay inside the optimizer besides the one outside, which stable numerics do not have.
func (o Options) oneDecay(inner float64) error {
	if inner > 0 && o.WeightDecay > 0 && o.rules().oneDecay {
		return errors.New("weight_decay: found one in the options and one in the parameters, wanted one (eformer numerics allow both)")
	}
	return nil
}
