package state

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"gputrain/gpu"
	"gputrain/model"
	"gputrain/optim"
)

// Train takes a value over and trains it as the configuration says. Definition, Optimizer and Frozen (nil) are the value's own where they
// are left out. If the value has an optimizer state, that goes on, also with other rates: what it remembers must be what the
// configuration's optimizer remembers. Otherwise the optimizer begins here. Nothing is taken of a device that the plan does not fit: a
// *MemoryError. After an error the value is as it was.
func Train(ctx context.Context, v Value, c Config) (*TrainState, error) {
	h, err := v.use("train")
	if err != nil {
		return nil, err
	}
	if c.Definition == nil {
		c.Definition = h.Definition
	}
	if c.Optimizer.Name == "" {
		c.Optimizer = h.Optimizer
	}
	if c.Optimizer.Name == "" {
		found := "none"
		if own := h.Transform.Name(); own != "" {
			found = own + ", which is no registered one"
		}
		return nil, fmt.Errorf("state: train: %w", &FieldsError{"Optimizer", found, "a registered one, the value's or the configuration's"})
	}
	if c.Base != "" {
		return nil, fmt.Errorf("state: train: base: found %q, wanted none: a value saves all that it has", c.Base)
	}
	params, optimizer, _ := h.size()
	if c.Frozen == nil {
		c.Frozen = h.frozen()
		if h.Frozen != nil {
			c.FrozenDType = h.Frozen.DType()
		}
	}
	layout, _, err := c.layouts(h.device().Limits())
	if err != nil {
		return nil, fmt.Errorf("state: train: %w", err)
	}
	if !h.dividedAs(c, layout) {
		params = 0 // they are copied
	}
	if c, err = c.fits(ctx, h.device(), params+optimizer); err != nil {
		return nil, err
	}
	s, err := start(ctx, v, c)
	if err != nil {
		return nil, fmt.Errorf("state: train: %w", err)
	}
	return s, nil
}

// start makes everything that training needs beside the value, and takes that over.
func start(ctx context.Context, v Value, c Config) (_ *TrainState, err error) {
	h := v.owner.held
	c = c.WithDefaults()
	if c.Optimizer, err = canonical(c.Optimizer); err != nil {
		return nil, err
	}
	f := h.Fields
	f.Definition, f.Optimizer = c.Definition, c.Optimizer
	if f.Transform, err = c.Transform(); err != nil {
		return nil, err
	}
	if f, err = f.divided(ctx, c); err != nil {
		return nil, err
	}
	if c.sharded() && h.OptimizerState != nil {
		return nil, errors.New("found the optimizer's state of all parameters, wanted none where replicas divide it: save the value, and Load it")
	}
	if f.Params != h.Params || !h.remembersFor(c, f.Transform) {
		f.OptimizerState, f.InitOptimizer = nil, !c.sharded()
	}
	whole := f
	if f, err = f.complete(); err != nil {
		whole.releaseUnless(h.Fields)
		return nil, err
	}
	opt := f.OptimizerState
	var shard *optim.State
	if c.sharded() {
		if shard, err = f.Transform.InitStage(c.Own(f.Params), model.Specs(c.Definition)); err != nil {
			whole.releaseUnless(h.Fields)
			return nil, err
		}
		opt = shard
	}
	d := &onDevice{shard: shard, passes: &passes{device: f.device(), def: f.Definition, params: f.Params, frozen: f.Frozen, window: c.Sequence, documents: c.Documents}, config: c}
	s := &TrainState{passes: d, own: &held{Fields: f}, config: c}
	if h.OptimizerState != nil && f.OptimizerState != h.OptimizerState {
		if err = CopyOptimizer(ctx, []*optim.State{f.OptimizerState}, []*optim.State{h.OptimizerState}); err != nil {
			err = fmt.Errorf("optimizer state of %s as one of %s: %w", h.Transform.Name(), f.Transform.Name(), err)
		}
	}
	if err == nil {
		s.losses = opt.Losses()
		s.losses.Bytes = 4 * uint64(c.Share().Count) // this replica's, until reduce writes those of all
		err = d.build(ctx, s.losses)
	}
	if err == nil {
		s.stages = []Resident{{Params: f.Params, Frozen: f.Frozen, Grads: d.grads, State: opt}}
		err = s.build(ctx, gpu.Range{}, 0)
	}
	if err != nil {
		s.releaseStep()
		f.releaseUnless(h.Fields)
		return nil, err
	}
	v.owner.held = nil
	h.forget()
	h.releaseUnless(f)
	return s, nil
}

// remembersFor tells whether the optimizer state serves a training state of that configuration and transformation as it is.
func (h *held) remembersFor(c Config, tx optim.Transform) bool {
	s := h.OptimizerState
	return s != nil && h.Transform.Name() == tx.Name() && bytes.Equal(jsonText(h.Optimizer), jsonText(c.Optimizer)) &&
		s.Losses().Bytes == 4*uint64(c.losses()) && (s.UpdateStatistics().Bytes > 0) == c.MeasureUpdates
}

// Value ends the training and gives back what was trained; the state itself is then spent, as a Value is. It waits for the steps in flight,
// whose metrics only an earlier Drain returns. The transformation is that of Config.Transform, which leaves out an update that is not
// finite. A state on stages is an error.
func (s *TrainState) Value(ctx context.Context) (Value, error) {
	if err := s.settle(); err != nil {
		return Value{}, fmt.Errorf("state: value of step %d: %w", s.own.Step, err)
	}
	if s.own.Params == nil || s.own.OptimizerState == nil {
		_, replicas := s.config.replicas()
		return Value{}, fmt.Errorf("state: value of step %d: found a state on %d stages and %d replicas, wanted one on one device", s.own.Step, len(s.stages), replicas)
	}
	// What the last step was held to is nothing to the gradients of others.
	opt := s.own.OptimizerState
	losses := opt.Losses()
	err := opt.SetLimits(optim.Limits{})
	if err == nil {
		err = s.own.device().Write(losses, make([]byte, losses.Bytes))
	}
	if err != nil {
		return Value{}, fmt.Errorf("state: value of step %d: %w", s.own.Step, err)
	}
	v := holding(s.own)
	s.releaseStep()
	s.own, s.broken = &held{Fields: Fields{Step: s.own.Step, Skipped: s.own.Skipped}}, ErrSpent
	return v, nil
}
