package state

import (
	"context"
	"fmt"
	"strings"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/graph"
	"gputrain/graph/compile"
)

// MemoryPlan is what a training state takes of its device, or a stage of one of the stage's device, in bytes. It is known before anything
// is taken.
type MemoryPlan struct {
	Params               uint64 // that are trained
	Frozen               uint64 // parameters that are not
	Mirrors              uint64 // copies of what other stages own
	Gradients, Optimizer uint64
	Sums                 uint64 // of gradients, which wait while further microbatches are computed
	Step                 uint64 // inputs, activations and workspace of a microbatch, where a step is one program
	Activations          uint64 // elsewhere: of all microbatches in flight, and what stages hand on,
	Scratch              uint64 // what all programs of a stage share,
	Inputs               uint64 // their inputs and results in training and updates, and buffers for reading back
	Ahead                uint64 // of the pass before an update, where an objective has one and a step is one program
	Evaluation, Sampling uint64 // what these take beside that, where they are planned for
	Scorers              uint64 // reward models beside the run
	Transfer             uint64 // for reading back a parameter, or logits
	Texels               uint64 // textures that operands are read from, on software adapters; of the first stage on a device
}

// rows are the parts of the plan by name.
func (p MemoryPlan) rows() []memoryRow {
	return []memoryRow{
		{"params", p.Params + p.Mirrors},
		{"frozen", p.Frozen},
		{"gradients", p.Gradients},
		{"sums of gradients", p.Sums},
		{"optimizer", p.Optimizer},
		{"activations and workspace", p.Step},
		{"pass before an update", p.Ahead},
		{"activations", p.Activations},
		{"scratch", p.Scratch},
		{"inputs and results", p.Inputs},
		{"evaluation", p.Evaluation},
		{"sampling", p.Sampling},
		{"reward models", p.Scorers},
		{"transfer", p.Transfer},
		{"texels", p.Texels},
	}
}

type memoryRow struct {
	name  string
	bytes uint64
}

// kept is what is there from step to step, however small the microbatches and however they are added up.
func (p MemoryPlan) kept() uint64 {
	return p.Params + p.Mirrors + p.Frozen + p.Gradients + p.Optimizer + p.Scorers
}

// Total is the sum.
func (p MemoryPlan) Total() (bytes uint64) {
	for _, r := range p.rows() {
		bytes += r.bytes
	}
	return bytes
}

// String is the plan in one line.
func (p MemoryPlan) String() string {
	var parts []string
	for _, r := range p.rows() {
		if r.bytes > 0 {
			parts = append(parts, r.name+" "+gpu.SizeText(r.bytes))
		}
	}
	return strings.Join(parts, ", ")
}

// Plan computes what Create would take on a device with these limits; it needs no device. A tensor that no binding of the device can hold
// is a *gpu.LimitError.
func Plan(ctx context.Context, j Job, lim gpu.Limits) (MemoryPlan, error) {
	s, err := Dry(ctx, j, gpu.Dry(lim))
	if err != nil {
		return MemoryPlan{}, err
	}
	defer s.Release()
	return s.Memory()[0], nil
}

// Dry is a training state on a device without hardware, for plans: Memory, Work and Submits are read off it.
func Dry(ctx context.Context, j Job, dev *gpu.Device) (*TrainState, error) {
	if err := j.check(); err != nil {
		return nil, err
	}
	s, err := j.dry(ctx, dev)
	if err != nil {
		return nil, fmt.Errorf("state: plan: %w", err)
	}
	return s, nil
}

func (j Job) dry(ctx context.Context, dev *gpu.Device) (*TrainState, error) {
	layout, frozen, err := j.layouts(dev.Limits())
	if err != nil {
		return nil, err
	}
	f := Fields{Definition: j.Definition}
	if f.Params, err = buffers.NewTree(dev, "params", layout, buffers.F32); err != nil {
		return nil, err
	}
	if frozen != nil {
		if f.Frozen, err = buffers.NewTree(dev, frozenLabel, frozen, j.FrozenDType); err != nil {
			return nil, err
		}
	}
	v, err := New(f)
	if err != nil {
		return nil, err
	}
	return start(ctx, v, j)
}

// DryChoices makes a dry state for each of the choices of what is computed again, and hands it out until visit has seen enough: it belongs to DryChoices.
// The optimizer, evaluation and sampling are planned once, but where they read operands from textures, which all programs share.
func DryChoices(ctx context.Context, choices []Job, dev *gpu.Device, visit func(j Job, s *TrainState) (more bool, err error)) (err error) {
	var s *TrainState
	defer func() {
		s.Release()
	}()
	for i, j := range choices {
		if i > 0 && j.Blocks == s.job.Blocks && s.passes.(*onDevice).device.TexelBytes() == 0 {
			s.job.Recompute = j.Recompute
			if err := s.passes.(*onDevice).again(ctx, j.Recompute); err != nil {
				return fmt.Errorf("state: plan: %w", err)
			}
		} else {
			s.Release()
			if s, err = Dry(ctx, j, dev.AsDry()); err != nil {
				return err
			}
		}
		if more, err := visit(j, s); err != nil || !more {
			return err
		}
	}
	return nil
}

// Memory is what the state takes of its device.
func (s *TrainState) Memory() []MemoryPlan {
	d, r := s.passes.(*onDevice), s.stages[0]
	p := MemoryPlan{
		Params: r.Params.Bytes(), Gradients: d.grads.Bytes(), Sums: d.sums.Bytes(), Optimizer: r.State.Bytes(),
		Transfer: r.Params.Layout().StagingBytes(buffers.F32), Step: d.micro.Plan().Total(), Texels: d.device.TexelBytes(), Scorers: d.scorers,
	}
	if r.Frozen != nil {
		p.Frozen, p.Transfer = r.Frozen.Bytes(), max(p.Transfer, r.Frozen.Layout().StagingBytes(r.Frozen.DType()))
	}
	if d.looker.pass != nil {
		p.Ahead = d.looker.graph.Plan().Total()
	}
	if d.evaluator.pass != nil {
		p.Evaluation = d.evaluator.graph.Plan().Total()
	}
	if d.generator != nil {
		p.Sampling = d.generator.bytes()
	}
	return []MemoryPlan{p}
}

// StepBytes is what the passes of a microbatch take on a device with these limits: MemoryPlan.Step.
func (j Job) StepBytes(ctx context.Context, lim gpu.Limits) (uint64, error) {
	g, targets, err := j.step()
	return j.planned(ctx, g, targets, err, lim)
}

// EvaluationBytes is what evaluations in batches of so many sequences take there: MemoryPlan.Evaluation.
func (j Job) EvaluationBytes(ctx context.Context, rows int, lim gpu.Limits) (uint64, error) {
	built, losses, err := Evaluation(j.Definition, j.Objective.OfBatch(), rows, j.Sequence, j.Documents)
	if err != nil {
		return 0, err
	}
	return j.planned(ctx, built.Graph, []compile.Target{{Name: lossTarget, Value: losses}}, nil, lim)
}

// planned is what a program takes for a graph, which may not have been made.
func (j Job) planned(ctx context.Context, g *graph.Graph, targets []compile.Target, err error, lim gpu.Limits) (uint64, error) {
	if err != nil {
		return 0, err
	}
	p, err := compile.PlanNarrow(ctx, g, targets, j.narrow(), j.tables(), lim)
	return p.Total(), err
}

// fits is the first of the choices whose plan fits the device before anything is taken, but for bytes that the plan has too.
func (j Job) fits(ctx context.Context, dev *gpu.Device, taken uint64) (_ Job, err error) {
	devices := []*gpu.Device{dev}
	var memory []MemoryPlan
	fitting := false
	err = DryChoices(ctx, j.Choices(), dev, func(choice Job, s *TrainState) (more bool, err error) {
		j, memory = choice, s.Memory()
		fitting = comparison(devices, taken)(memory) == nil
		return !fitting, nil
	})
	if err != nil || fitting {
		return j, err
	}
	return j, j.CheckMemory(devices, memory, taken, func(smaller Job) ([]MemoryPlan, error) {
		p, err := Plan(ctx, smaller, dev.Limits())
		return []MemoryPlan{p}, err
	})
}
