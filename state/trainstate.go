package state

import (
	"context"
	"fmt"
	"slices"
	"time"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/graph"
	"gputrain/model"
	"gputrain/optim"
)

// TrainState is a model in training on one device: parameters, gradients, optimizer state and the programs of a step, all made before
// the first step. "Step n" is the state after n updates. It is used from one goroutine.
type TrainState struct {
	*Model
	own    *held // the Value that is trained
	config Config
	grads  *buffers.Tree
	plan   MemoryPlan

	limits  Limits
	limited optim.Limits // as the device has them

	micro   *graph.Program
	results *gpu.Buffer    // what a step leaves to be read: the loss of each micro-batch, then what the optimizer has measured
	ring    *gpu.Readback  // results of the steps in flight
	begin   []*gpu.Program // before the first micro-batch of an update
	compute *gpu.Program
	collect []*gpu.Program // puts the loss of micro-batch i where the optimizer looks for it
	updater *Updater

	pending []pendingStep   // submitted, results not read
	awaited <-chan struct{} // closed once the results of the newest step have arrived; nil before the first
	done    time.Time       // when the results of the newest step that was read had arrived
	times   [timesKept]deviceTime
	life    context.Context // until the ring is released
	end     context.CancelFunc
	ready   []Metrics // read, not yet handed out
	broken  error     // a step that failed half way: what the device holds is not known
	turn    Turn
}

// Create makes the state of step 0 with parameters drawn from the configuration's seed. Nothing is taken of a device that the plan does not
// fit: a *MemoryError with the figures.
func Create(ctx context.Context, dev *gpu.Device, c Config) (*TrainState, error) {
	return CreateFrom(ctx, dev, c, nil)
}

// CreateFrom is Create with given parameters, all of the definition's; nil draws them.
func CreateFrom(ctx context.Context, dev *gpu.Device, c Config, params []buffers.Host) (*TrainState, error) {
	if dev == nil {
		return nil, errNoDevice
	}
	plan, err := c.fits(dev, 0)
	if err != nil {
		return nil, err
	}
	if params == nil {
		params = model.Init(c.Definition, c.Seed)
	}
	tree, err := buffers.Upload(dev, "params", params, buffers.F32)
	if err != nil {
		return nil, fmt.Errorf("state: create: %w", err)
	}
	v, err := New(Fields{Definition: c.Definition, Params: tree})
	if err != nil {
		tree.Release()
		return nil, err
	}
	s, err := start(ctx, v, c, plan)
	if err != nil {
		v.Release()
		return nil, fmt.Errorf("state: create: %w", err)
	}
	return s, nil
}

func (s *TrainState) build(ctx context.Context) (err error) {
	c := s.config
	if s.grads, err = buffers.NewTree(s.device, "grads", s.params.Layout(), buffers.F32); err != nil {
		return err
	}
	g, targets, err := c.step()
	if err != nil {
		return err
	}
	s.micro, err = graph.Compile(ctx, s.device, g, graph.CompileOptions{
		Label: "step", Params: s.params, Grads: s.grads, Targets: targets, Accumulate: c.Accumulate > 1,
		Progress: func(done, total int) { c.Progress("compile kernels", done, total) },
	})
	if err != nil {
		return err
	}
	if err := s.programs(ctx); err != nil {
		return err
	}
	if c.Evaluation > 0 {
		if err := s.prepareEvaluation(ctx, c.Evaluation, c.Sequence); err != nil {
			return err
		}
	}
	if c.Sampling {
		return s.prepareSampling(ctx)
	}
	return nil
}

// programs records a step in the pieces that its submits are made of:
//
//	begin?  compute  collect 0 | compute  collect 1 | ... | compute  collect k-1  update
//
// update is one of several where the optimizer does not do the same in every one.
// With k > 1 micro-batches begin clears the gradients, which compute then adds to; otherwise compute overwrites them. update ends with the
// results' way back.
func (s *TrainState) programs(ctx context.Context) (err error) {
	statistics := s.own.OptimizerState.Statistics()
	if statistics.Bytes < optim.StatisticsBytes {
		return fmt.Errorf("optimizer %s: measures no gradient norm", s.own.Transform.Name())
	}
	size := s.config.ResultBytes()
	if s.results, err = s.device.NewBuffer("gputrain.state.results", size); err != nil {
		return err
	}
	if s.ring, err = s.device.NewReadback("gputrain.state.metrics", size, inFlight); err != nil {
		return err
	}
	program := func(name string, record func(*gpu.Recording) error) (*gpu.Program, error) {
		rec := s.device.Record("gputrain.state." + name)
		if err := record(rec); err != nil {
			return nil, err
		}
		return rec.Program(ctx)
	}
	s.life, s.end = context.WithCancel(context.Background())
	if s.config.Accumulate > 1 {
		p, err := program("begin", func(rec *gpu.Recording) error {
			for i := range s.grads.Layout().Slabs() {
				rec.Zero(s.grads.Slab(i))
			}
			return nil
		})
		if err != nil {
			return err
		}
		s.begin = []*gpu.Program{p}
	}
	if s.compute, err = program("compute", func(rec *gpu.Recording) error { s.micro.Record(rec); return nil }); err != nil {
		return err
	}
	loss := s.micro.Output(lossTarget)
	for i := range s.config.Accumulate {
		p, err := program("collect", func(rec *gpu.Recording) error {
			losses := s.own.OptimizerState.Losses()
			rec.Copy(losses.Buffer.Range(losses.Offset+4*uint64(i), 4), loss.Buffer.Range(loss.Offset, 4))
			return nil
		})
		if err != nil {
			return err
		}
		s.collect = append(s.collect, p)
	}
	resident := Resident{Params: s.params, Grads: s.grads, State: s.own.OptimizerState}
	s.updater, err = NewUpdater(s.own.Transform, []Resident{resident}, UpdaterConfig{Label: "state.update", End: func(rec *gpu.Recording, _ int) {
		s.config.RecordResults(rec, s.results, resident.State)
		rec.ReadBack(s.ring, s.results.All())
	}})
	if err != nil {
		return err
	}
	return s.updater.Build(ctx)
}

// usable says why the state is not.
func (s *TrainState) usable() error {
	if s.broken == nil {
		return nil
	}
	return fmt.Errorf("the state is not usable after: %w", s.broken)
}

// Step is the number of updates that led to the state, those in flight counted.
func (s *TrainState) Step() int64 { return s.own.Step }

// Skipped is the number of updates left out because they were not finite, of those whose metrics have been read.
func (s *TrainState) Skipped() int64 { return s.own.Skipped }

// Config is the configuration in force, defaults filled in.
func (s *TrainState) Config() Config { return s.config }

// Optimizer is the optimizer's state on the device.
func (s *TrainState) Optimizer() *optim.State { return s.own.OptimizerState }

// Plan is the memory plan that the state was made by.
func (s *TrainState) Plan() MemoryPlan { return s.plan }

// String tells what the state is in one line.
func (s *TrainState) String() string {
	if s.own.Params == nil {
		return s.usable().Error()
	}
	return s.own.String()
}

// Release gives the memory back.
func (s *TrainState) Release() {
	s.releaseStep()
	s.own.release()
	if s.broken == nil {
		s.broken = ErrSpent
	}
}

// releaseStep gives back all that is beside the value.
func (s *TrainState) releaseStep() {
	for _, p := range slices.Concat(s.begin, s.collect, []*gpu.Program{s.compute}) {
		if p != nil {
			p.Release()
		}
	}
	s.updater.Release()
	s.begin, s.collect, s.compute, s.updater = nil, nil, nil, nil
	if s.end != nil {
		s.end() // whoever still waits for results
	}
	if s.ring != nil {
		s.ring.Release()
	}
	if s.results != nil {
		s.results.Release()
	}
	if s.micro != nil {
		s.micro.Release()
	}
	if s.grads != nil {
		s.grads.Release()
	}
	s.ring, s.results, s.micro, s.grads = nil, nil, nil, nil
	s.Model.Release()
}
