package pipeline

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/internal/timeline"
	"gputrain/model"
	"gputrain/run/data"
	"gputrain/state"
	"gputrain/state/checkpoint"
)

// State is a model in training on the stages of a pipeline. It has the numbers that a state.TrainState on one device would have. No step is
// in flight when a call has returned.
type State struct {
	*state.TrainState
	passes *passes

	// Of the newest step.
	use          timeline.Use   // as this rank has seen it
	shares       state.StageUse // of all ranks
	begun, ended time.Time
}

// Create makes the state of step 0 on the devices of the stages, in their order; one device may be several stages'. params are all of the
// definition's; nil draws them from the configuration's seed. Nothing is taken of a device that the plan does not fit: a *state.MemoryError.
func Create(ctx context.Context, devices []*gpu.Device, c Config, params []buffers.Host) (*State, error) {
	j, err := newJob(c)
	if err != nil {
		return nil, err
	}
	return j.create(ctx, devices, params)
}

func (j job) create(ctx context.Context, devices []*gpu.Device, params []buffers.Host) (*State, error) {
	if err := j.checkDevices(devices); err != nil {
		return nil, err
	}
	j, kernels, err := j.fits(ctx, devices)
	if err != nil {
		return nil, err
	}
	s, err := j.createFitting(ctx, devices, kernels, params)
	if _, err = j.agree(ctx, true, err); err != nil {
		if s != nil {
			s.Release()
		}
		return nil, fmt.Errorf("pipeline: create: %w", err)
	}
	return s, nil
}

// createFitting is create of what fits.
func (j job) createFitting(ctx context.Context, devices []*gpu.Device, kernels [][]*gpu.Kernel, params []buffers.Host) (_ *State, err error) {
	if j.State, err = j.State.WithBase(params); err == nil {
		params, err = j.State.Held(j.State.All(params))
	}
	if err != nil {
		return nil, err
	}
	return j.build(ctx, devices, kernels, j.State.Told(params))
}

// build makes everything that a step needs. On dry devices it takes no memory and says how much it would take.
func (j job) build(ctx context.Context, devices []*gpu.Device, kernels [][]*gpu.Kernel, params []buffers.Host) (*State, error) {
	p := &passes{job: j, mesh: j.State.Mesh, devices: devices, specs: model.Specs(j.State.Definition)}
	err := p.compile(ctx, kernels)
	if err == nil {
		err = p.build(ctx, params)
	}
	s := &State{passes: p}
	if err == nil {
		s.TrainState, err = state.OnStages(ctx, j.State, p.residents(), p, p.resultRange(lossOutput), p.resultRange(sumsOutput), p.last.index)
	}
	if err != nil {
		p.Release()
		return nil, err
	}
	for i, st := range p.stages {
		p.training.taken(st, s.Bytes(i))
	}
	p.countTexels()
	first := p.stages[0]
	if first.memory.Scorers, err = j.State.ScorerBytes(ctx, first.device); err != nil {
		s.Release()
		return nil, err
	}
	return s, nil
}

// resultRange is where an update leaves an output of its microbatches, one behind the other; nowhere, if it has none of that name.
func (p *passes) resultRange(name string) gpu.Range {
	for _, r := range p.training.results {
		if r.Name == name {
			return r.buffer.Range(0, r.size*uint64(p.job.State.Share().Count))
		}
	}
	return gpu.Range{}
}

// Load restores the state that a checkpoint holds, whatever number of stages wrote it, and returns the record saved with it; see
// state.ReadCheckpoint.
func Load(ctx context.Context, devices []*gpu.Device, c Config, dir string) (*State, checkpoint.Record, error) {
	found, err := state.ReadCheckpoint(c.State, dir)
	var record checkpoint.Record
	if err == nil {
		record = found.Record
		defer found.Close()
		if found.HasOther() {
			err = fmt.Errorf("pipeline: load %q: found variables without gradients, wanted a model alone: stages would lose them: %w", dir, checkpoint.ErrMismatch)
		}
	}
	j := job{Config: c, State: state.Job{Config: c.State}}
	if _, err = j.agree(ctx, true, err); err != nil {
		return nil, record, err
	}
	c.State = found.Job.Config
	if j, err = newJob(c); err != nil {
		return nil, record, err
	}
	s, err := j.create(ctx, devices, found.Params)
	if err != nil {
		return nil, record, err
	}
	if _, err = j.agree(ctx, true, s.Restore(found)); err != nil {
		s.Release()
		return nil, record, err
	}
	return s, record, nil
}

// Train takes a value over, wherever it lies, and trains it on the devices of the stages, in their order; see state.Train. It is copied
// there, and then released. After an error the value is as it was.
func Train(ctx context.Context, devices []*gpu.Device, c Config, v state.Value) (*State, error) {
	trained, err := v.Job(c.State)
	if err != nil {
		return nil, err
	}
	c.State = trained.Config
	params, err := v.Hosts(ctx)
	if err != nil {
		return nil, err
	}
	s, err := Create(ctx, devices, c, params)
	if err != nil {
		return nil, err
	}
	if err := s.GoOn(ctx, v); err != nil {
		s.Release()
		return nil, err
	}
	return s, nil
}

// TrainStep makes one update with the sequences of the share and returns its metrics; see state.TrainState. All ranks of a pipeline are given the same
// batch, and any error ends all of them.
func (s *State) TrainStep(ctx context.Context, batch data.Batch) ([]state.Metrics, error) {
	begun := time.Now()
	m, err := s.TrainState.TrainStep(ctx, batch)
	if s.passes.mesh.FailRow(err) != nil {
		return m, err
	}
	s.begun, s.ended, s.use = begun, time.Now(), s.passes.notes.recorder.End()
	s.shares, err = s.passes.shared(ctx, state.StageUse{Busy: s.use.Busy, Bubble: s.use.Bubble, Transfer: s.use.Transfer})
	s.passes.broken = s.passes.mesh.FailRow(err)
	return m, err
}

// Memory is what the stages take of their devices.
func (s *State) Memory() []state.MemoryPlan {
	var out []state.MemoryPlan
	for _, st := range s.passes.stages {
		out = append(out, st.memory)
	}
	return out
}

// Release gives the memory back. After a failure that has left something of a run inside a driver, it does so once that has come back.
func (s *State) Release() { whenBack(s.passes.broken, s.TrainState.Release) }

// whenBack runs release, after a failure that has left goroutines behind once these have ended.
func whenBack(failure error, release func()) {
	var left *leftError
	if !errors.As(failure, &left) {
		release()
		return
	}
	go func() {
		<-left.ended
		release()
	}()
}
