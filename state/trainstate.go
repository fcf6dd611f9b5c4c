package state

import (
	"context"
	"fmt"
	"maps"
	"slices"

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
	config Config
	tx     optim.Transform
	opt    *optim.State
	grads  *buffers.Tree
	plan   MemoryPlan

	step    int64
	skipped int64 // updates left out because they were not finite
	limits  Limits
	limited optim.Limits // as the device has them

	micro   *graph.Program
	results *gpu.Buffer    // what a step leaves to be read: the loss of each micro-batch, then what the optimizer has measured
	ring    *gpu.Readback  // results of the steps in flight
	begin   []*gpu.Program // before the first micro-batch of an update
	compute *gpu.Program
	collect []*gpu.Program // puts the loss of micro-batch i where the optimizer looks for it
	update  map[optim.Phase]*gpu.Program

	pending []pendingStep // submitted, results not read
	ready   []Metrics     // read, not yet handed out
	broken  error         // a step that failed half way: what the device holds is not known
}

// Create makes the state of step 0 with parameters drawn from the configuration's seed. Nothing is taken of a device that the plan does not
// fit: a *MemoryError with the figures.
func Create(ctx context.Context, dev *gpu.Device, c Config) (*TrainState, error) {
	return CreateFrom(ctx, dev, c, nil)
}

// CreateFrom is Create with given parameters, all of the definition's; nil draws them.
func CreateFrom(ctx context.Context, dev *gpu.Device, c Config, params []buffers.Host) (*TrainState, error) {
	plan, err := c.fits(dev)
	if err != nil {
		return nil, err
	}
	c = c.WithDefaults()
	if c.Optimizer, err = canonical(c.Optimizer); err != nil {
		return nil, err
	}
	if params == nil {
		params = model.Init(c.Definition, c.Seed)
	}
	m, err := NewModel(dev, c.Definition, params)
	if err != nil {
		return nil, err
	}
	m.sequence = c.Sequence
	s := &TrainState{Model: m, config: c, plan: plan}
	if err := s.build(ctx); err != nil {
		s.Release()
		return nil, fmt.Errorf("state: create: %w", err)
	}
	return s, nil
}

func (s *TrainState) build(ctx context.Context) (err error) {
	c := s.config
	want, err := buffers.NewLayout(model.Specs(c.Definition), s.device.Limits())
	if err != nil {
		return err
	}
	if !s.params.Layout().Equal(want) {
		return fmt.Errorf("params: not those of the definition")
	}
	if s.tx, err = c.Transform(); err != nil {
		return err
	}
	if s.opt, err = s.tx.Init(s.params); err != nil {
		return err
	}
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
	if c.Evaluation {
		if err := s.prepareEvaluation(ctx, c.Batch, c.Sequence); err != nil {
			return err
		}
	}
	if c.Sampling {
		return s.prepareSampling(ctx)
	}
	return nil
}

// lossBytes is the room of the losses in results; the statistics behind it keep their alignment.
func (s *TrainState) lossBytes() uint64 { return (4*uint64(s.config.Accumulate) + 15) / 16 * 16 }

// programs records a step in the pieces that its submits are made of:
//
//	begin?  compute  collect 0 | compute  collect 1 | ... | compute  collect k-1  update
//
// update is one of several where the optimizer does not do the same in every one.
// With k > 1 micro-batches begin clears the gradients, which compute then adds to; otherwise compute overwrites them. update ends with the
// results' way back.
func (s *TrainState) programs(ctx context.Context) (err error) {
	statistics := s.opt.Statistics()
	if statistics.Bytes < optim.StatisticsBytes {
		return fmt.Errorf("optimizer %s: measures no gradient norm", s.tx.Name())
	}
	size := s.lossBytes() + s.config.StatisticsBytes()
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
			losses := s.opt.Losses()
			rec.Copy(losses.Buffer.Range(losses.Offset+4*uint64(i), 4), loss.Buffer.Range(loss.Offset, 4))
			return nil
		})
		if err != nil {
			return err
		}
		s.collect = append(s.collect, p)
	}
	s.update = map[optim.Phase]*gpu.Program{}
	for _, phase := range s.opt.Phases() {
		s.update[phase], err = program(phase.String(), func(rec *gpu.Recording) error {
			if err := s.tx.Record(rec, phase, s.grads, s.opt, s.params); err != nil {
				return err
			}
			rec.Copy(s.results.Range(0, s.opt.Losses().Bytes), s.opt.Losses())
			CopyStatistics(rec, s.results, s.lossBytes(), s.opt)
			rec.ReadBack(s.ring, s.results.All())
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// usable says why the state is not.
func (s *TrainState) usable() error {
	if s.broken == nil {
		return nil
	}
	return fmt.Errorf("the state is not usable after: %w", s.broken)
}

// Step is the number of updates that led to the state, those in flight counted.
func (s *TrainState) Step() int64 { return s.step }

// Skipped is the number of updates left out because they were not finite, of those whose metrics have been read.
func (s *TrainState) Skipped() int64 { return s.skipped }

// Config is the configuration in force, defaults filled in.
func (s *TrainState) Config() Config { return s.config }

// Optimizer is the optimizer's state on the device.
func (s *TrainState) Optimizer() *optim.State { return s.opt }

// Plan is the memory plan that the state was made by.
func (s *TrainState) Plan() MemoryPlan { return s.plan }

// Size is what params and optimizer state take on the device, in bytes.
func (s *TrainState) Size() (params, optimizer uint64) { return s.params.Bytes(), s.opt.Bytes() }

// String tells what the state is in one line.
func (s *TrainState) String() string {
	params, optimizer := s.Size()
	return fmt.Sprintf("%s with %d parameters at step %d, params %s, %s state %s",
		s.def.Kind(), s.params.Layout().Elements(), s.step, gpu.SizeText(params), s.tx.Name(), gpu.SizeText(optimizer))
}

// Release gives the memory back.
func (s *TrainState) Release() {
	for _, p := range append(append(append(append([]*gpu.Program{}, s.begin...), s.collect...), s.compute), slices.Collect(maps.Values(s.update))...) {
		if p != nil {
			p.Release()
		}
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
	if s.opt != nil {
		s.opt.Release()
	}
	if s.grads != nil {
		s.grads.Release()
	}
	s.Model.Release()
}
