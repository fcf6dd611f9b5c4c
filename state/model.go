package state

import (
	"context"
	"fmt"

	"gputrain/buffers"
	"gputrain/checkpoint"
	"gputrain/gpu"
	"gputrain/graph"
	"gputrain/model"
)

// Model is a language model on a device: its definition and its parameters, and the programs that evaluate and continue text, each made
// on first use. It is used from one goroutine.
type Model struct {
	device   *gpu.Device
	def      model.Definition
	params   *buffers.Tree
	borrowed bool // params are another's to release

	evaluator *forward
	shape     [2]int // of the evaluator's batches, rows and tokens
	generator *generator
	sequence  int // tokens it sees at most
}

// forward is a program without gradients and the ring that its result is read back through.
type forward struct {
	graph *graph.Program
	run   *gpu.Program
	ring  *gpu.Readback
}

// NewModel uploads parameters in f32.
func NewModel(dev *gpu.Device, def model.Definition, params []buffers.Host) (*Model, error) {
	if dev == nil {
		return nil, errNoDevice
	}
	if def.Vocab() == 0 {
		return nil, fmt.Errorf("state: new model: %s has no tokens, want a language model", def.Kind())
	}
	tree, err := buffers.Upload(dev, "params", params, buffers.F32)
	if err != nil {
		return nil, fmt.Errorf("state: new model: %w", err)
	}
	return &Model{device: dev, def: def, params: tree, sequence: def.Context()}, nil
}

// borrowing is the model with parameters that stay another's.
func borrowing(def model.Definition, params *buffers.Tree) *Model {
	return &Model{device: params.Device(), def: def, params: params, borrowed: true, sequence: def.Context()}
}

// LoadModel reads any directory in the Hugging Face layout, a checkpoint for one. What a checkpoint's manifest says is compared first.
func LoadModel(dev *gpu.Device, dir string) (*Model, error) {
	if err := checkpoint.VerifyModel(checkpoint.OS, dir); err != nil {
		return nil, err
	}
	def, hosts, err := model.ReadHF(dir)
	if err != nil {
		return nil, loadError(dir, "%w", err)
	}
	return NewModel(dev, def, hosts)
}

// Definition is the model's.
func (m *Model) Definition() model.Definition { return m.def }

// Device is where the model lives.
func (m *Model) Device() *gpu.Device { return m.device }

// Params is the device-resident tree of parameters, f32. Writing to it changes the model.
func (m *Model) Params() *buffers.Tree { return m.params }

// Release gives the memory back.
func (m *Model) Release() {
	if !m.borrowed {
		m.params.Release()
	}
	m.evaluator.release()
	m.generator.release()
	m.evaluator, m.generator = nil, nil
}

func (f *forward) release() {
	if f == nil {
		return
	}
	if f.run != nil {
		f.run.Release()
	}
	if f.ring != nil {
		f.ring.Release()
	}
	f.graph.Release()
}

// forward compiles a graph whose target is read back through a ring of that depth.
func (m *Model) forward(ctx context.Context, target string, depth int, g *graph.Graph, o graph.CompileOptions) (*forward, error) {
	o.Params = m.params
	p, err := graph.Compile(ctx, m.device, g, o)
	if err != nil {
		return nil, err
	}
	f := &forward{graph: p}
	out := p.Output(target)
	if f.ring, err = m.device.NewReadback("gputrain.state."+o.Label, out.Bytes, depth); err != nil {
		f.release()
		return nil, err
	}
	rec := m.device.Record("gputrain.state." + o.Label)
	p.Record(rec)
	rec.ReadBack(f.ring, out)
	if f.run, err = rec.Program(ctx); err != nil {
		f.release()
		return nil, err
	}
	return f, nil
}
