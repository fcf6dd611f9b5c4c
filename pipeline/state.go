package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"gputrain/buffers"
	"gputrain/checkpoint"
	"gputrain/gpu"
	"gputrain/graph"
	"gputrain/model"
	"gputrain/optim"
	"gputrain/state"
)

// State is a model in training on the stages of a pipeline: what state.TrainState is on one device, with the same numbers. "Step n" is the
// state after n updates. It is used from one goroutine.
type State struct {
	config  Config
	tx      optim.Transform
	specs   []buffers.Spec // of the whole model, sorted
	devices []*gpu.Device
	stages  []*stage

	training, evaluation *line
	prefill, decode      *line          // of sampling
	held                 int            // tokens that the caches of sampling have
	begin                []*gpu.Program // of each stage, before the first microbatch of an update
	updater              *state.Updater
	results              *gpu.Readback // of a step: losses of its microbatches, statistics of its update
	last                 *stage        // where the loss is

	step    int64
	skipped int64 // updates left out because they were not finite
	limits  state.Limits
	limited optim.Limits // as the devices have them
	broken  error        // a step, or a pass, that failed half way: what the devices hold is not known
	turn    state.Turn
	notes   *notes
	use     Use // of the newest step

	begun, ended time.Time // of the newest step
}

// Create makes the state of step 0 on the devices of the stages, in their order; one device may be several stages'. params are all of the
// definition's; nil draws them from the configuration's seed. Nothing is taken of a device that the plan does not fit: a *MemoryError.
func Create(ctx context.Context, devices []*gpu.Device, c Config, params []buffers.Host) (*State, error) {
	if err := c.check(devices); err != nil {
		return nil, err
	}
	c = c.withDefaults()
	kernels, err := c.fits(ctx, devices)
	if err != nil {
		return nil, err
	}
	if params == nil {
		params = model.Init(c.State.Definition, c.State.Seed)
	}
	s := &State{config: c, devices: devices, specs: model.Specs(c.State.Definition)}
	if err = s.compile(ctx, kernels); err == nil {
		err = s.build(ctx, params)
	}
	if err != nil {
		s.Release()
		return nil, fmt.Errorf("pipeline: create: %w", err)
	}
	return s, nil
}

// Load restores the state that a checkpoint holds, whatever number of stages wrote it, and returns the record saved with it; see
// state.ReadCheckpoint.
func Load(ctx context.Context, devices []*gpu.Device, c Config, dir string) (*State, checkpoint.Record, error) {
	found, err := state.ReadCheckpoint(c.State, dir)
	if err != nil {
		return nil, checkpoint.Record{}, err
	}
	if found.HasOther() {
		return nil, found.Record, fmt.Errorf("pipeline: load %q: found variables without gradients, wanted a model alone: stages would lose them: %w", dir, checkpoint.ErrMismatch)
	}
	c.State = found.Config
	s, err := Create(ctx, devices, c, found.Params)
	if err != nil {
		return nil, found.Record, err
	}
	if err := found.Restore(s.optimizers()...); err != nil {
		s.Release()
		return nil, found.Record, err
	}
	s.step, s.skipped = found.Record.Step, found.Record.Skipped
	return s, found.Record, nil
}

// compile makes the kernels of each stage ahead of the programs that run them, all at once.
func (s *State) compile(ctx context.Context, kernels [][]*gpu.Kernel) error {
	for i, dev := range s.devices {
		progress := func(done, total int) {
			s.config.State.Progress(fmt.Sprintf("compile kernels of stage %d", i), done, total)
		}
		if err := dev.Compile(ctx, kernels[i], progress); err != nil {
			return (&stage{index: i, device: dev}).failed("compile", err)
		}
	}
	return nil
}

// kernels are those of all lines, by stage.
func (s *State) kernels() [][]*gpu.Kernel {
	out := make([][]*gpu.Kernel, len(s.stages))
	for _, l := range s.lines() {
		for _, p := range l.parts {
			st := l.stageOf(p.index).index
			for _, programs := range p.programs {
				for _, x := range programs {
					for _, k := range x.program.Kernels() {
						if !slices.ContainsFunc(out[st], func(o *gpu.Kernel) bool { return o.Source == k.Source && o.Label == k.Label }) {
							out[st] = append(out[st], k)
						}
					}
				}
			}
		}
	}
	return out
}

// LoadWeights makes a state of step 0 with the parameters of a checkpoint or model; see state.LoadWeights.
func LoadWeights(ctx context.Context, devices []*gpu.Device, c Config, dir string) (*State, error) {
	found, params, err := state.ReadWeights(c.State, dir)
	if err != nil {
		return nil, err
	}
	c.State = found
	return Create(ctx, devices, c, params)
}

// LoadOptimizer replaces what the optimizer remembers by what a checkpoint has, whatever number of stages wrote it; see state.TrainState.
func (s *State) LoadOptimizer(_ context.Context, dir string) error {
	if err := s.usable(); err != nil {
		return fmt.Errorf("pipeline: load %q: %w", dir, err)
	}
	found, err := state.ReadOptimizer(s.config.State, dir)
	if err != nil {
		return err
	}
	if err := found.Restore(s.optimizers()...); err != nil {
		s.broken = err
		return err
	}
	return nil
}

// build makes everything that a step needs. On dry devices it takes no memory and says how much it would take.
func (s *State) build(ctx context.Context, params []buffers.Host) error {
	c := s.config
	var err error
	if s.tx, err = c.transform(); err != nil {
		return err
	}
	lines := []struct {
		to     **line
		make   func() (*line, error)
		wanted bool
	}{{&s.training, c.training, true}, {&s.evaluation, c.evaluation, c.State.Evaluation > 0}, {&s.prefill, c.prefill, c.State.Sampling}, {&s.decode, c.decode, c.State.Sampling}}
	for _, l := range lines {
		if !l.wanted {
			continue
		}
		if *l.to, err = l.make(); err != nil {
			return err
		}
	}
	homes := residences(s.training.cut, s.specs, c.Assignment.Stages)
	for i, dev := range s.devices {
		st := &stage{index: i, device: dev}
		s.stages = append(s.stages, st)
		if err := s.furnish(st, homes[i], params); err != nil {
			return st.failed("parameters and optimizer", err)
		}
	}
	for _, l := range s.lines() {
		if err := l.build(ctx, s.stages, c.linkMaker()); err != nil {
			return err
		}
	}
	s.notes = newNotes(s.training, c.Profile)
	if err := s.buildUpdate(ctx); err != nil {
		return err
	}
	for i, st := range s.stages {
		if slices.Index(s.devices, st.device) == i {
			st.memory.Texels = st.device.TexelBytes()
		}
	}
	return nil
}

// furnish makes what a stage keeps from step to step, and its scratch.
func (s *State) furnish(st *stage, home residence, params []buffers.Host) error {
	var err error
	if st.params, err = st.upload("params", home.own, params); err != nil {
		return err
	}
	if len(home.mirrored) > 0 {
		if st.mirrors, err = st.upload("mirrors", home.mirrored, params); err != nil {
			return err
		}
		st.memory.Mirrors = st.mirrors.Bytes()
	}
	if st.grads, err = buffers.NewTree(st.device, "grads", st.params.Layout(), buffers.F32); err != nil {
		return err
	}
	if st.opt, err = s.tx.InitStage(st.params, s.specs); err != nil {
		return err
	}
	var plans []graph.Plan
	for _, l := range s.lines() {
		found, err := l.plans(st)
		if err != nil {
			return err
		}
		plans = append(plans, found...)
	}
	sizes := graph.ArenaSizes(plans...)
	if st.arena, err = graph.NewArena(st.device, "pipeline", sizes); err != nil {
		return err
	}
	m := &st.memory
	m.Params, m.Gradients, m.Optimizer, m.Transfer = st.params.Bytes(), st.grads.Bytes(), st.opt.Bytes(), st.params.Layout().StagingBytes()
	for _, size := range sizes {
		m.Scratch += size
	}
	return nil
}

// lines are those that the state has.
func (s *State) lines() []*line {
	var out []*line
	for _, l := range []*line{s.training, s.evaluation, s.prefill, s.decode} {
		if l != nil {
			out = append(out, l)
		}
	}
	return out
}

func (s *State) optimizers() []*optim.State {
	var out []*optim.State
	for _, st := range s.stages {
		out = append(out, st.opt)
	}
	return out
}

// Step is the number of updates that led to the state.
func (s *State) Step() int64 { return s.step }

// Skipped is the number of updates left out because they were not finite.
func (s *State) Skipped() int64 { return s.skipped }

// SetLimits sets what the steps from the next one on may have.
func (s *State) SetLimits(l state.Limits) { s.limits = l }

// Config is the configuration of what is trained, defaults filled in.
func (s *State) Config() state.Config { return s.config.State }

// Memory is what the stages take of their devices.
func (s *State) Memory() []StageMemory {
	var out []StageMemory
	for _, st := range s.stages {
		out = append(out, st.memory)
	}
	return out
}

// String tells what the state is in one line.
func (s *State) String() string {
	return fmt.Sprintf("%s with %d parameters at step %d on %d stages", s.config.State.Definition.Kind(), model.Parameters(s.config.State.Definition), s.step, len(s.stages))
}

// ReadParams reads all parameters, f32.
func (s *State) ReadParams(ctx context.Context) (map[string][]float32, error) {
	out := map[string][]float32{}
	for _, st := range s.stages {
		for _, leaf := range st.params.Layout().Leaves() {
			data, err := st.params.Read(ctx, leaf.Path)
			if err != nil {
				return nil, st.failed("read of "+leaf.Path, err)
			}
			out[leaf.Path] = data
		}
	}
	return out, nil
}

// snapshot is the state as a checkpoint has it.
func (s *State) snapshot() state.Snapshot {
	out := state.Snapshot{
		Definition: s.config.State.Definition, Optimizer: s.config.State.Optimizer, Step: s.step, Skipped: s.skipped,
		Adapter: state.AdapterName(s.devices...), States: s.optimizers(), FS: s.config.State.FS,
	}
	for _, st := range s.stages {
		out.Params = append(out.Params, st.params)
		out.Grads = append(out.Grads, st.grads)
	}
	return out
}

// usable says why the state is not.
func (s *State) usable() error {
	if s.broken == nil {
		return nil
	}
	return fmt.Errorf("the state is not usable after: %w", s.broken)
}

// Save writes the state of this step to the checkpoint directory path, as state.TrainState does: the same files with the same bytes,
// whatever the number of stages.
func (s *State) Save(ctx context.Context, path string, run checkpoint.Run) error {
	if err := s.usable(); err != nil {
		return &checkpoint.SaveError{Path: path, Err: err}
	}
	return s.snapshot().Save(context.WithoutCancel(ctx), path, run)
}

// CopyToHost copies the state of this step to the host, to be written while training goes on; see state.Snapshot.
func (s *State) CopyToHost(ctx context.Context, run checkpoint.Run) (checkpoint.HostCopy, error) {
	if err := s.usable(); err != nil {
		return checkpoint.HostCopy{}, fmt.Errorf("pipeline: copy of step %d: %w", s.step, err)
	}
	return s.snapshot().CopyToHost(context.WithoutCancel(ctx), run)
}

// CheckSpace tells, before training begins, whether a checkpoint below dir would fit the disk; see state.Snapshot.
func (s *State) CheckSpace(ctx context.Context, dir string) error {
	return s.snapshot().CheckSpace(ctx, dir)
}

// FirstNonFinite names the first tensor that has an element that is not finite; see state.Snapshot.
func (s *State) FirstNonFinite(ctx context.Context) (string, error) {
	return s.snapshot().FirstNonFinite(context.WithoutCancel(ctx))
}

// Release gives the memory back. After a failure that has left something of a run inside a driver, it does so once that has come back.
func (s *State) Release() {
	var left *leftError
	if !errors.As(s.broken, &left) {
		s.release()
		return
	}
	go func() {
		<-left.ended
		s.release()
	}()
}

func (s *State) release() {
	s.updater.Release()
	for _, p := range s.begin {
		if p != nil {
			p.Release()
		}
	}
	if s.results != nil {
		s.results.Release()
	}
	for _, l := range s.lines() {
		l.release()
	}
	for _, st := range s.stages {
		st.release()
	}
}
