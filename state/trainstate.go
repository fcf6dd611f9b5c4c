package state

import (
	"context"
	"fmt"
	"time"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/model"
	"gputrain/optim"
	"gputrain/run/data"
)

// TrainState is a model in training, on one device or on the stages of a pipeline (package pipeline makes one of those): parameters, gradients,
// optimizer state and the programs of a step, all made before the first step. "Step n" is the state after n updates. It is used from one
// goroutine.
type TrainState struct {
	Reader
	passes trainingPasses
	own    Fields // of the Value that is trained; without its trees where the passes own the stages
	stages []Resident
	job    Job

	limits  Limits
	scale   float64      // of the loss, with products of f16; 0: 1
	limited optim.Limits // as the devices have them

	updater *updater
	average []averaging   // by stage; nil: there is no mean of the weights
	told    int           // the stage that results are read of
	sums    gpu.Range     // of the objective in each of them, if it has any
	losses  gpu.Range     // of the microbatches, once they are computed
	results *gpu.Buffer   // what a step leaves to be read
	ring    *gpu.Readback // results of the steps in flight

	pending []pendingStep   // submitted, results not read
	awaited <-chan struct{} // closed once the results of the newest step have arrived; nil before the first
	done    time.Time       // when the results of the newest step that was read had arrived
	times   [timesKept]deviceTime
	life    context.Context // until the ring is released
	end     context.CancelFunc
	ready   []Metrics // read, not yet handed out
	broken  error     // a step that failed half way: what the devices hold is not known
	turn    turn
	staging staging // of saves
}

// Create makes the state of step 0 with parameters drawn from the configuration's seed. Nothing is taken of a device that the plan does not
// fit: a *MemoryError with the figures.
func Create(ctx context.Context, dev *gpu.Device, c Config) (*TrainState, error) {
	j, err := NewJob(c)
	if err != nil {
		return nil, err
	}
	return CreateFrom(ctx, dev, j, nil)
}

// CreateFrom is Create of a job with given parameters, all of the definition's; nil draws them.
func CreateFrom(ctx context.Context, dev *gpu.Device, j Job, params []buffers.Host) (*TrainState, error) {
	if dev == nil {
		return nil, errNoDevice
	}
	j, err := j.fits(ctx, dev, 0)
	if err != nil {
		return nil, err
	}
	if j, err = j.WithBase(params); err == nil {
		params, err = j.Held(j.All(params))
	}
	if err != nil {
		return nil, fmt.Errorf("state: create: %w", err)
	}
	f := Fields{Definition: j.Definition}
	if f.Params, f.Frozen, err = j.upload(dev, j.Told(params)); err != nil {
		return nil, fmt.Errorf("state: create: %w", err)
	}
	v, err := New(f)
	if err != nil {
		f.releaseUnless(Fields{})
		return nil, err
	}
	s, err := start(ctx, v, j)
	if err != nil {
		v.Release()
		return nil, fmt.Errorf("state: create: %w", err)
	}
	return s, nil
}

// OnStages makes a training state of passes over stages that together have a model, with the optimizer's state of step 0. losses and
// sums are where stage last has the losses of an update and the sums of its objective, once Compute is done. The state takes passes over, which own the
// stages, unless there is an error.
func OnStages(ctx context.Context, j Job, stages []Resident, passes trainingPasses, losses, sums gpu.Range, last int) (*TrainState, error) {
	s := &TrainState{job: j, stages: stages, passes: passes, losses: losses, sums: sums, own: Fields{Definition: j.Definition, Optimizer: j.Optimizer}}
	if j.joined() {
		losses = gpu.Range{} // reduce brings those of all replicas to the stages
	}
	var err error
	if s.own.Transform, err = j.Transform(); err != nil {
		return nil, err
	}
	if err := s.build(ctx, losses, last); err != nil {
		s.passes = nil // the caller's
		s.releaseStep()
		return nil, err
	}
	return s, nil
}

// build makes the update of a step, which ends with the results' way back from stage last, or the last stage that is here.
func (s *TrainState) build(ctx context.Context, losses gpu.Range, last int) (err error) {
	s.told = last
	if s.job.Mesh.Spread() { // every stage has the results
		for s.told = len(s.stages) - 1; !s.job.Mesh.Here(s.told); s.told-- {
		}
	}
	statistics := s.stages[s.told].State.Statistics()
	if statistics.Bytes < optim.StatisticsBytes {
		return fmt.Errorf("optimizer %s: measures no gradient norm", s.own.Transform.Name())
	}
	dev, size := s.stages[s.told].Params.Device(), s.job.resultBytes()
	if s.results, err = dev.NewBuffer("gputrain.state.results", size); err != nil {
		return err
	}
	if s.ring, err = dev.NewReadback("gputrain.state.metrics", size, inFlight); err != nil {
		return err
	}
	s.life, s.end = context.WithCancel(context.Background())
	s.Reader = Reader{forward: usable{s}, vocab: s.job.Definition.Vocab(), window: s.job.Sequence, paging: s.job.Paging(), recurrent: model.Recurrent(s.job.Definition)}
	stages, exchange, places := s.owned()
	s.updater, err = NewUpdater(s.own.Transform, stages, UpdaterConfig{
		Label: "state.update", Losses: losses, LossStage: last, Failed: s.passes.Failed, Exchange: exchange, Places: places,
		End: func(rec *gpu.Recording, stage int) {
			if stage == s.told {
				s.job.recordResults(rec, s.results, s.stages[stage].State)
				if s.sums.Bytes > 0 && !s.job.joined() { // reduce writes those of all replicas
					rec.Copy(s.results.Range(s.job.lossRoom(), s.sums.Bytes), s.sums)
				}
				rec.ReadBack(s.ring, s.results.All())
			}
		},
	})
	if err != nil {
		return err
	}
	if err := s.updater.Build(ctx); err != nil {
		return err
	}
	return s.buildAverage(ctx)
}

// usable says why the state is not.
func (s *TrainState) usable() error {
	err := s.broken
	if err == nil && s.passes != nil {
		err = s.passes.Broken()
	}
	if err == nil {
		return nil
	}
	return fmt.Errorf("the state is not usable after: %w", err)
}

// usable are the forward passes of a state, as long as it is usable.
type usable struct{ *TrainState }

func (u usable) Losses(ctx context.Context, e *data.Evaluation, yield func(BatchLoss) bool) error {
	if err := u.usable(); err != nil {
		return err
	}
	return u.passes.Losses(ctx, u.aheadOfEvaluation().lay(ctx, e), yield)
}

func (u usable) Look(ctx context.Context, feeds []Feed) ([][]float32, error) {
	return u.passes.Look(ctx, feeds)
}

func (u usable) Take(ctx context.Context, p Piece) ([]float32, error) {
	if err := u.usable(); err != nil {
		return nil, err
	}
	return u.passes.Take(ctx, p)
}

// Step is the number of updates that led to the state, those in flight counted.
func (s *TrainState) Step() int64 { return s.own.Step }

// Skipped is the number of updates left out because they were not finite, of those whose metrics have been read.
func (s *TrainState) Skipped() int64 { return s.own.Skipped }

// Config is the configuration in force, defaults filled in.
func (s *TrainState) Config() Config { return s.job.Config }

// Definition is the model's.
func (s *TrainState) Definition() model.Definition { return s.job.Definition }

// Optimizers are the optimizer's states on the devices, one a stage.
func (s *TrainState) Optimizers() []*optim.State { return states(s.stages) }

// Params is the tree of all parameters of a state on one device, but for frozen ones; see Trees. Writing to it changes the model.
func (s *TrainState) Params() *buffers.Tree { return s.own.Params }

// String tells what the state is in one line.
func (s *TrainState) String() string {
	switch {
	case s.own.Params != nil:
		return s.own.String()
	case s.broken != nil:
		return s.usable().Error()
	}
	def := s.job.Definition
	return fmt.Sprintf("%s with %d parameters at step %d on %d stages", def.Kind(), model.Parameters(def), s.Step(), len(s.stages))
}

// Bytes is what the state takes of a stage's device beside its trees and passes.
func (s *TrainState) Bytes(stage int) uint64 {
	n := s.updater.Bytes(stage)
	if s.average != nil {
		n += s.average[stage].blend.UniformBytes() + s.average[stage].restore.UniformBytes()
	}
	if stage == s.told {
		n += (1 + inFlight) * s.job.resultBytes()
	}
	return n
}

// Release gives the memory back.
func (s *TrainState) Release() {
	if s == nil {
		return
	}
	s.releaseStep()
	s.own.releaseUnless(Fields{})
	if s.broken == nil {
		s.broken = ErrSpent
	}
}

// releaseStep gives back all that is beside the value.
func (s *TrainState) releaseStep() {
	if s.end != nil {
		s.end() // whoever still waits for results
	}
	s.updater.Release()
	for _, a := range s.average {
		a.release()
	}
	s.ring.Release()
	s.results.Release()
	if s.passes != nil {
		s.passes.Release()
	}
	s.updater, s.ring, s.results, s.passes, s.stages = nil, nil, nil, nil, nil
}
