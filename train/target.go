package train

import (
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"gputrain/buffers"
	"gputrain/checkpoint"
	"gputrain/data"
	"gputrain/gpu"
	"gputrain/state"
)

// State is a model in training as a run sees it: a *state.TrainState on one device, or one whose tensors lie on several. It is used from one
// goroutine, and its methods do what those of *state.TrainState do. One that is cut into stages may also have
//
//	StageUse() (state.StageUse, bool)
//
// which tells how the stages spent the time of the newest step whose metrics TrainStep or Drain has returned.
type State interface {
	Step() int64
	Rehearse(ctx context.Context, times int) (time.Duration, error)
	Submits() [][]gpu.Planned
	TrainStep(ctx context.Context, batch data.Batch) ([]state.Metrics, error)
	SetLimits(l state.Limits)
	Drain(ctx context.Context) ([]state.Metrics, error)
	Evaluate(ctx context.Context, e *data.Evaluation) (state.EvalResult, error)
	Evaluations(ctx context.Context, e *data.Evaluation) iter.Seq2[state.EvalResult, error]
	BatchLosses(ctx context.Context, e *data.Evaluation) ([]state.BatchLoss, error)
	Decoder
	CopyToHost(ctx context.Context, run checkpoint.Run) (checkpoint.HostCopy, error)
	CheckSpace(ctx context.Context, dir string) error
	FirstNonFinite(ctx context.Context) (string, error)
	Release()
}

// Target is what a run trains on: one device (Run makes it), or several. It belongs to the caller, and outlives the states it makes.
type Target interface {
	// Plan tells what a state would take, stage by stage, before anything is taken, and whether the devices have it; one stage where the
	// model is not cut. An error is one of the configuration; what does not fit is for Create and Load to refuse.
	Plan(ctx context.Context, c state.Config) (stages []StagePlan, fits bool, err error)
	// Adapter names the adapters as state.AdapterName does: checkpoints of another name were computed with other bits.
	Adapter() string
	// Create makes the state of step 0; params nil draws the parameters from the configuration's seed.
	Create(ctx context.Context, c state.Config, params []buffers.Host) (State, error)
	// Load makes the state that a checkpoint has, whatever target wrote it.
	Load(ctx context.Context, c state.Config, dir string) (State, checkpoint.Record, error)
	// Devices are those of the stages, in their order; one may be several stages'.
	Devices() []*gpu.Device
}

// StagePlan says in words and figures what a stage is to take.
type StagePlan struct {
	Adapter string // with its driver
	Holds   string // of the model, "wte to h.3"; "" for all of it
	Bytes   uint64 // of device memory
	Memory  string // these in their parts, "params 1.0 MiB, gradients 1.0 MiB, ..."
}

var errNoDevice = errors.New("train: device: found none, wanted one of gpu.Open")

// oneDevice is the target of Run.
type oneDevice struct{ device *gpu.Device }

func (o oneDevice) Plan(ctx context.Context, c state.Config) ([]StagePlan, bool, error) {
	if o.device == nil {
		return nil, false, errNoDevice
	}
	plan, err := state.Plan(ctx, c, o.device.Limits())
	if err != nil {
		return nil, false, err
	}
	a := o.device.Adapter()
	stages := []StagePlan{{Adapter: a.String() + ", driver " + a.Driver, Bytes: plan.Total(), Memory: plan.String()}}
	return stages, state.FitsMemory(o.Devices(), []state.MemoryPlan{plan}), nil
}

func (o oneDevice) Adapter() string { return state.AdapterName(o.device) }

func (o oneDevice) Create(ctx context.Context, c state.Config, params []buffers.Host) (State, error) {
	s, err := state.CreateFrom(ctx, o.device, c, params)
	if err != nil {
		return nil, err
	}
	return s, nil
}

func (o oneDevice) Load(ctx context.Context, c state.Config, dir string) (State, checkpoint.Record, error) {
	s, record, err := state.Load(ctx, o.device, c, dir)
	if err != nil {
		return nil, record, err
	}
	return s, record, nil
}

func (o oneDevice) Devices() []*gpu.Device { return []*gpu.Device{o.device} }

// distinct is each device once.
func distinct(devices []*gpu.Device) (out []*gpu.Device) {
	for _, d := range devices {
		if !slices.Contains(out, d) {
			out = append(out, d)
		}
	}
	return out
}
