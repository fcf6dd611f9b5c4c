package state

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/model"
	"gputrain/optim"
)

// Train takes a value over and trains it as the configuration says. Definition, Optimizer and Frozen (nil) are the value's own where they
// are left out. If the value has an optimizer state, that goes on, also with other rates: what it remembers must be what the
// configuration's optimizer remembers. Otherwise the optimizer begins here. Nothing is taken of a device that the plan does not fit: a
// *MemoryError. After an error the value is as it was.
func Train(ctx context.Context, v Value, c Config) (*TrainState, error) {
	h, err := v.whole("train")
	if err != nil {
		return nil, err
	}
	j, err := v.Job(c)
	if err != nil {
		return nil, err
	}
	params, optimizer, _ := h.size()
	layout, _, err := j.layouts(h.device().Limits())
	if err != nil {
		return nil, fmt.Errorf("state: train: %w", err)
	}
	if !h.dividedAs(j, layout) {
		params = 0 // they are copied
	}
	if j, err = j.fits(ctx, h.device(), params+optimizer); err != nil {
		return nil, err
	}
	s, err := start(ctx, v, j)
	if err != nil {
		return nil, fmt.Errorf("state: train: %w", err)
	}
	return s, nil
}

// Job is a training of the value: Definition, Optimizer and Frozen (nil) are the value's own where the configuration leaves them out.
func (v Value) Job(c Config) (Job, error) {
	h, err := v.use("train")
	if err != nil {
		return Job{}, err
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
		return Job{}, fmt.Errorf("state: train: %w", &FieldsError{"Optimizer", found, "a registered one, the value's or the configuration's"})
	}
	if slices.ContainsFunc(h.residents(), func(r Resident) bool { return r.State != nil }) {
		c.Optimizer = c.Optimizer.Following(h.Optimizer)
	}
	if c.Base != "" {
		return Job{}, fmt.Errorf("state: train: base: found %q, wanted none: a value saves all that it has", c.Base)
	}
	if c.Teacher != nil {
		return Job{}, errors.New("state: train: teacher: found one, wanted none: a value has all that is trained with")
	}
	if c.Frozen == nil {
		if _, frozen, _ := trees(h.residents()); len(frozen) > 0 {
			c.Frozen, c.FrozenDType = pathsOf(frozen...), frozen[0].DType()
		}
	}
	return NewJob(c)
}

// start makes everything that training needs besides the value, and takes the value over. All that it makes is the state's at once: one release gives it
// back where a later step fails.
func start(ctx context.Context, v Value, j Job) (_ *TrainState, err error) {
	h := v.content
	if j.Optimizer, err = canonical(j.Optimizer); err != nil {
		return nil, err
	}
	s := &TrainState{own: h.Fields, job: j}
	defer func() {
		if err != nil {
			s.releaseStep()
			s.own.releaseUnless(h.Fields)
		}
	}()
	s.own.Definition, s.own.Optimizer = j.Definition, j.Optimizer
	if s.own.Transform, err = j.Transform(); err != nil {
		return nil, err
	}
	if s.own, err = s.own.divided(ctx, j); err != nil {
		return nil, err
	}
	if j.sharded() && h.OptimizerState != nil {
		return nil, errors.New("found the optimizer's state of all parameters, wanted none where replicas divide it: save the value, and Load it")
	}
	if s.own.Params != h.Params || !h.remembersFor(j, s.own.Transform) {
		s.own.OptimizerState, s.own.InitOptimizer = nil, !j.sharded()
	}
	if s.own, err = s.own.complete(); err != nil {
		return nil, err
	}
	f := s.own
	if h.OptimizerState != nil && f.OptimizerState != h.OptimizerState {
		if err = copyOptimizer(ctx, []*optim.State{f.OptimizerState}, []*optim.State{h.OptimizerState}); err != nil {
			return nil, fmt.Errorf("optimizer state of %s as one of %s: %w", h.Transform.Name(), f.Transform.Name(), err)
		}
	}
	d := &onDevice{passes: &passes{device: f.device(), def: f.Definition, objective: j.Objective, params: f.Params, frozen: f.Frozen, window: j.Sequence, documents: j.Documents}, job: j}
	s.passes = d
	opt := f.OptimizerState
	if j.sharded() {
		if d.shard, err = f.Transform.InitStage(j.Own(f.Params), model.Specs(j.Definition)); err != nil {
			return nil, err
		}
		opt = d.shard
	}
	s.losses = opt.Losses()
	s.losses.Bytes = 4 * uint64(j.Share().Count) // this replica's, until reduce writes those of all
	if err = d.build(ctx, s.losses); err != nil {
		return nil, err
	}
	if d.figures.Buffer != nil {
		s.sums = d.figures.Buffer.Range(0, j.sumBytes()*uint64(j.Share().Count))
	}
	s.stages = []Resident{{Params: f.Params, Frozen: f.Frozen, Grads: d.grads, State: opt}}
	if err = s.build(ctx, gpu.Range{}, 0); err != nil {
		return nil, err
	}
	h.forget()
	h.releaseUnless(f)
	*h = content{}
	return s, nil
}

// remembersFor tells whether the optimizer state serves a training state of that configuration and transformation as it is.
func (f Fields) remembersFor(j Job, tx optim.Transform) bool {
	s := f.OptimizerState
	return s != nil && f.Transform.Name() == tx.Name() && bytes.Equal(jsonText(f.Optimizer), jsonText(j.Optimizer)) &&
		s.Losses().Bytes == 4*uint64(j.losses()) && (s.UpdateStatistics().Bytes > 0) == j.MeasureUpdates
}

// Value ends the training and gives back what was trained; the state itself is then spent, as a Value is. It waits for the steps in flight,
// whose metrics only an earlier Drain returns. The transformation is that of Job.Transform, which leaves out an update that is not
// finite. The value of a state on stages lies on their devices, as the cut has divided it. What other processes have a part of is an error.
func (s *TrainState) Value(ctx context.Context) (Value, error) {
	if err := s.settle(); err != nil {
		return Value{}, fmt.Errorf("state: value of step %d: %w", s.own.Step, err)
	}
	if s.divided() {
		_, replicas := s.job.replicas()
		return Value{}, fmt.Errorf("state: value of step %d: found a state that the processes of %d replicas divide, wanted one that this process has all of",
			s.own.Step, replicas)
	}
	for i, r := range s.stages {
		if err := s.unlimited(r); err != nil {
			return Value{}, fmt.Errorf("state: value of step %d: %w", s.own.Step, atStage(i, len(s.stages), err))
		}
	}
	f := s.own
	if f.Params == nil {
		stages := slices.Clone(s.stages)
		for i := range stages {
			stages[i].Grads = nil
		}
		f = f.on(stages)
		s.passes.Leave()
	}
	v := holding(f)
	s.releaseStep()
	s.own, s.broken = Fields{Step: s.own.Step, Skipped: s.own.Skipped, Memory: s.own.Memory}, ErrSpent
	return v, nil
}

// unlimited lets go of what the last step was held to: that is nothing to the gradients of others.
func (s *TrainState) unlimited(r Resident) error {
	err := r.State.SetLimits(optim.Limits{})
	if err == nil && s.job.RoundProducts {
		err = r.State.SetScale(1)
	}
	if losses := r.State.Losses(); err == nil {
		err = r.Params.Device().Write(losses, make([]byte, losses.Bytes))
	}
	return err
}

// Hosts are all parameters of the value, trained and frozen, each to be read from its device when it is used, while the value is not changed
// or released.
func (v Value) Hosts(ctx context.Context) (hosts []buffers.Host, err error) {
	h, err := v.use("hosts")
	if err != nil {
		return nil, err
	}
	params, frozen, _ := trees(h.residents())
	owners, err := leavesOf(append(params, frozen...))
	for _, path := range slices.Sorted(maps.Keys(owners)) {
		var host buffers.Host
		if host, err = owners[path].Host(ctx, path); err != nil {
			break
		}
		hosts = append(hosts, host)
	}
	if err != nil {
		return nil, fmt.Errorf("state: value: hosts: %w", err)
	}
	return hosts, nil
}

// GoOn takes the place of a value, wherever that lies, in a state of step 0 that was made of its parameters (Hosts): what its optimizer remembers, if
// anything, and its step. It releases the value. After an error the value is as it was, and the state is not usable.
func (s *TrainState) GoOn(ctx context.Context, v Value) error {
	h, err := v.use("train")
	if err != nil {
		return err
	}
	switch from := states(h.residents()); {
	case s.divided():
		err = errors.New("found a state that several processes divide, wanted one that this process has all of: save the value, and Load it")
	case len(from) > 0:
		err = copyOptimizer(ctx, s.Optimizers(), from)
	}
	if _, _, other := trees(h.residents()); err == nil && len(other) > 0 {
		err = errors.New("found variables without gradients, wanted a model alone: stages would lose them")
	}
	if err != nil {
		s.broken = fmt.Errorf("state: train: %w", err)
		return s.broken
	}
	s.own.Step, s.own.Skipped, s.own.Memory = h.Step, h.Skipped, h.Memory
	v.Release()
	return nil
}
