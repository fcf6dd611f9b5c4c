package train

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/internal/ranks/mesh"
	"gputrain/model"
	"gputrain/pipeline"
	"gputrain/pipeline/partition"
	"gputrain/run/data"
	"gputrain/run/fit"
	"gputrain/run/rollout"
	"gputrain/state"
	"gputrain/state/checkpoint"
)

// State is a model in training as a run sees it: a *state.TrainState on one device, or one whose tensors lie on several. It is used from one
// goroutine, and its methods do what those of *state.TrainState do. One that is cut into stages may also have
//
//	StageUse() (state.StageUse, bool)
//
// which tells how the stages spent the time of the newest step whose metrics TrainStep or Drain has returned.
type State interface {
	Step() int64
	Value(ctx context.Context) (state.Value, error)
	Rehearse(ctx context.Context, times int) (time.Duration, error)
	Submits() [][]gpu.Planned
	TrainStep(ctx context.Context, batch data.Batch) ([]state.Metrics, error)
	SetLimits(l state.Limits)
	SetScale(scale float64)
	Drain(ctx context.Context) ([]state.Metrics, error)
	Evaluate(ctx context.Context, e *data.Evaluation) (state.EvalResult, error)
	Evaluations(ctx context.Context, e *data.Evaluation) iter.Seq2[state.EvalResult, error]
	BatchLosses(ctx context.Context, e *data.Evaluation) ([]state.BatchLoss, error)
	LogProbs(ctx context.Context, b data.Batch) ([]float32, error)
	// Evaluated calls a function while the parameters are those that are evaluated, and Averaged tells whether these are others than are trained.
	Evaluated(ctx context.Context, do func() error) error
	Averaged() bool
	rollout.Model
	CopyToHost(ctx context.Context, run checkpoint.Run) (checkpoint.HostCopy, error)
	Stream(ctx context.Context, run checkpoint.Run, write func(checkpoint.HostCopy)) error
	CheckSpace(ctx context.Context, dir string, count int) (each, free uint64, err error)
	FirstNonFinite(ctx context.Context) (string, error)
	Release()
}

// Target is what a run trains on: one device (Run makes it), or several. It belongs to the caller, and outlives the states it makes.
type Target interface {
	// Plan tells what a state would take with each of some choices of what is computed again, in their order, until visit has seen enough; nothing is
	// taken. An error is one of the configuration; what does not fit is for Create and Load to refuse.
	Plan(ctx context.Context, choices []state.Job, visit func(t fit.Takes) (more bool, err error)) error
	// Adapter names the adapters as state.AdapterName does: checkpoints of another name were computed with other bits.
	Adapter() string
	// Create makes the state of step 0; params nil draws the parameters from the configuration's seed.
	Create(ctx context.Context, c state.Config, params []buffers.Host) (State, error)
	// Begin makes the state that goes on from a value, and takes that over. After an error the value is as it was.
	Begin(ctx context.Context, c state.Config, v state.Value) (State, error)
	// Load makes the state that a checkpoint has, whatever target wrote it.
	Load(ctx context.Context, c state.Config, dir string) (State, checkpoint.Record, error)
	// Devices are those of the stages, in their order; one may be several stages'.
	Devices() []*gpu.Device
}

var errNoDevice = errors.New("train: device: found none, wanted one of gpu.Open")

// oneDevice is the target of Run.
type oneDevice struct {
	device *gpu.Device
	taken  uint64 // bytes of what the run begins with
}

func (o oneDevice) Plan(ctx context.Context, choices []state.Job, visit func(t fit.Takes) (more bool, err error)) error {
	if o.device == nil {
		return errNoDevice
	}
	return fit.On{Devices: o.Devices(), Taken: o.taken}.Choices(ctx, choices, visit)
}

// commandsOf is how many commands a step gives to a device; 0: nobody has counted.
func commandsOf(submits [][]gpu.Planned) (n int) {
	for _, s := range slices.Concat(submits...) {
		n += s.Times * s.Dispatches
	}
	return n
}

func (o oneDevice) Adapter() string { return state.AdapterName(o.device) }

func (o oneDevice) Create(ctx context.Context, c state.Config, params []buffers.Host) (State, error) {
	job, err := state.NewJob(c)
	if err != nil {
		return nil, err
	}
	return made(state.CreateFrom(ctx, o.device, job, params))
}

// made is a state that was made; nil without a type where an error comes instead.
func made[S State](s S, err error) (State, error) {
	if err != nil {
		return nil, err
	}
	return s, nil
}

// loaded is made of a state that was loaded.
func loaded[S State](s S, record checkpoint.Record, err error) (State, checkpoint.Record, error) {
	if err != nil {
		return nil, record, err
	}
	return s, record, nil
}

func (o oneDevice) Begin(ctx context.Context, c state.Config, v state.Value) (State, error) {
	p, err := v.Placement()
	if err != nil {
		return nil, err
	}
	if !slices.Equal(p.Devices, o.Devices()) {
		return nil, fmt.Errorf("train: value: found it on %s, wanted it on the device of the run: Place it there", state.AdapterName(p.Devices...))
	}
	return made(state.Train(ctx, v, c))
}

func (o oneDevice) Load(ctx context.Context, c state.Config, dir string) (State, checkpoint.Record, error) {
	return loaded(state.Load(ctx, o.device, c, dir))
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

// Pipelined is the target of a run whose model is cut into stages: devices[i] is stage i's, and may be several stages'. Of the configuration
// State is left out; it is the run's.
func Pipelined(devices []*gpu.Device, c pipeline.Config) Target { return pipelined{devices, c} }

type pipelined struct {
	devices []*gpu.Device
	config  pipeline.Config
}

func (p pipelined) with(c state.Config) pipeline.Config {
	p.config.State = c
	return p.config
}

// Plan agrees with the other ranks on what fits.
func (p pipelined) Plan(ctx context.Context, choices []state.Job, visit func(t fit.Takes) (more bool, err error)) error {
	for _, j := range choices {
		t := fit.Takes{Job: j}
		var err error
		if t.Memory, t.Host, t.Fits, err = pipeline.Plan(ctx, p.with(j.Config), p.devices); err != nil {
			return err
		}
		for stage := range t.Memory {
			t.Holds = append(t.Holds, p.holds(j.Config, stage))
		}
		if more, err := visit(t); err != nil || !more {
			return err
		}
	}
	return nil
}

// rankNames names the ranks that have a stage, one of each replica but of no more than namedReplicas; "" where they all are in one process.
func rankNames(m *mesh.Mesh, stage int) string {
	if !m.Spread() {
		return ""
	}
	var names []string
	_, replicas := m.Replica()
	for replica := range min(replicas, namedReplicas) {
		names = append(names, m.Name(m.RankOf(replica, stage)))
	}
	if more := replicas - len(names); more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return strings.Join(names, ", ") + ": "
}

// namedReplicas is how many replicas are named one by one.
const namedReplicas = 4

// holds names what a stage has of the model, part by part.
func (p pipelined) holds(c state.Config, stage int) string {
	built, err := c.Definition.Build(1, 1, model.Options{Loss: true})
	if err != nil {
		return ""
	}
	units, err := partition.Units(built)
	if err != nil {
		return ""
	}
	var parts []string
	for part, units := range p.config.Assignment.Units(units) {
		if part%p.config.Assignment.Stages != stage || len(units) == 0 {
			continue
		}
		text := units[0].Name
		if n := len(units); n > 1 {
			text = fmt.Sprintf("%s to %s", text, units[n-1].Name)
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, ", ")
}

func (p pipelined) Adapter() string { return state.AdapterName(p.devices...) }

func (p pipelined) Create(ctx context.Context, c state.Config, params []buffers.Host) (State, error) {
	return made(pipeline.Create(ctx, p.devices, p.with(c), params))
}

func (p pipelined) Begin(ctx context.Context, c state.Config, v state.Value) (State, error) {
	return made(pipeline.Train(ctx, p.devices, p.with(c), v))
}

func (p pipelined) Load(ctx context.Context, c state.Config, dir string) (State, checkpoint.Record, error) {
	return loaded(pipeline.Load(ctx, p.devices, p.with(c), dir))
}

func (p pipelined) Devices() []*gpu.Device { return p.devices }
