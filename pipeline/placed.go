package pipeline

import (
	"context"
	"fmt"
	"slices"

	"gputrain/buffers"
	"gputrain/checkpoint"
	"gputrain/gpu"
	"gputrain/optim"
	"gputrain/state"
)

// Placed is a state.Value whose leaves lie on several devices. Like that, it has one owner: a method that returns a Placed spends the one
// it is called on.
type Placed struct{ owner *placedOwner }

type placedOwner struct{ held *placed }

// placed is what a Placed owns.
type placed struct {
	rest      state.Fields // but for what lies on stages
	placement Placement
	stages    []state.Resident
	other     []*buffers.Tree // of each stage; nil where it has none
}

func (p Placed) use(operation string) (*placed, error) {
	if p.owner == nil || p.owner.held == nil {
		return nil, fmt.Errorf("pipeline: placed value: %s: %w", operation, state.ErrSpent)
	}
	return p.owner.held, nil
}

// Stages are the params and the optimizer state of each stage, which stay the value's.
func (p Placed) Stages() ([]state.Resident, error) {
	h, err := p.use("stages")
	if err != nil {
		return nil, err
	}
	return append([]state.Resident(nil), h.stages...), nil
}

// Step is the number of updates that led here.
func (p Placed) Step() (int64, error) {
	h, err := p.use("step")
	if err != nil {
		return 0, err
	}
	return h.rest.Step, nil
}

// ApplyGradients is the value after one more call of its optimizer, with a tree of gradients on the device of each stage, nil for zero; see
// state.Value.ApplyGradients and StageLocal.ApplyGradientsStageLocal.
func (p Placed) ApplyGradients(ctx context.Context, grads []*buffers.Tree) (Placed, error) {
	h, err := p.use("apply gradients")
	if err != nil {
		return Placed{}, err
	}
	switch {
	case len(h.states()) == 0:
		return Placed{}, fmt.Errorf("pipeline: placed value: apply gradients: %w", &state.FieldsError{
			Field: "OptimizerState", Found: "none", Wanted: "one: InitOptimizer, before it is placed, makes it",
		})
	case len(grads) != len(h.stages):
		return Placed{}, fmt.Errorf("pipeline: placed value: apply gradients: found %d trees, wanted one for each of %d stages", len(grads), len(h.stages))
	}
	a := Application{Stages: append([]state.Resident(nil), h.stages...)}
	for i := range a.Stages {
		a.Stages[i].Grads = grads[i]
	}
	collects := h.states()[0].Phase() == optim.Collect
	if err := InRounds(h.rest.Transform)(ctx, Metadata{}, a); err != nil {
		return Placed{}, err
	}
	if !collects {
		h.rest.Step++
	}
	p.owner.held = nil
	return Placed{&placedOwner{h}}, nil
}

// Save writes the value as state.Value.Save does: the same bytes, however it is divided.
func (p Placed) Save(ctx context.Context, path string, o state.SaveOptions) error {
	h, err := p.use("save")
	if err != nil {
		return &checkpoint.SaveError{Path: path, Err: err}
	}
	f := h.rest
	return o.Of(state.Snapshot{
		Definition: f.Definition, Optimizer: f.Optimizer, Transform: f.Transform.Name(), Step: f.Step, Skipped: f.Skipped,
		Adapter: state.AdapterName(h.placement.Devices...), Params: append(h.params(), h.frozen()...), Frozen: state.Paths(h.frozen()...),
		Other: h.others(), States: h.states(),
	}).Save(ctx, path, o.Run)
}

// Size is what params, optimizer state and other variables take on all devices, in bytes.
func (p Placed) Size() (params, optimizer, other uint64) {
	h, err := p.use("size")
	if err != nil {
		return 0, 0, 0
	}
	for _, t := range append(h.params(), h.frozen()...) {
		params += t.Bytes()
	}
	for _, s := range h.states() {
		optimizer += s.Bytes()
	}
	for _, t := range h.others() {
		other += t.Bytes()
	}
	return params, optimizer, other
}

// String tells what the value is in one line.
func (p Placed) String() string {
	h, err := p.use("text")
	if err != nil {
		return err.Error()
	}
	params, optimizer, other := p.Size()
	return fmt.Sprintf("value at step %d on %d stages, params %s, optimizer %s, other variables %s",
		h.rest.Step, len(h.stages), gpu.SizeText(params), gpu.SizeText(optimizer), gpu.SizeText(other))
}

// Release gives the memory back; the value is spent. Of a spent value it does nothing.
func (p Placed) Release() {
	if h, err := p.use("release"); err == nil {
		p.owner.held = nil
		h.release()
	}
}

func (h *placed) release() {
	for _, t := range slices.Concat(h.params(), h.frozen(), h.others()) {
		t.Release()
	}
	for _, s := range h.states() {
		s.Release()
	}
}

func (h *placed) params() (all []*buffers.Tree) {
	for _, s := range h.stages {
		all = append(all, s.Params)
	}
	return buffers.Given(all...)
}

func (h *placed) frozen() (all []*buffers.Tree) {
	for _, s := range h.stages {
		all = append(all, s.Frozen)
	}
	return buffers.Given(all...)
}

func (h *placed) others() []*buffers.Tree { return buffers.Given(h.other...) }

func (h *placed) states() []*optim.State {
	var out []*optim.State
	for _, s := range h.stages {
		if s.State != nil {
			out = append(out, s.State)
		}
	}
	return out
}
