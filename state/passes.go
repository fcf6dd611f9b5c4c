package state

import (
	"context"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/graph"
	"gputrain/graph/compile"
	"gputrain/model"
)

// passes are the forward passes of a model on one device.
type passes struct {
	device *gpu.Device
	def    model.Definition
	prefer *model.Preference // nil: the loss is of labels
	params *buffers.Tree
	frozen *buffers.Tree // nil: none
	window int           // tokens it sees at most

	evaluator *pass
	shape     evaluatorShape
	documents bool // batches are made of documents
	generator *generator
}

// pass is a program without gradients and the ring that its result is read back through.
type pass struct {
	graph *compile.Program
	run   *gpu.Program
	ring  *gpu.Readback
}

// compile compiles a graph whose target is read back through a ring of that depth.
func (m *passes) compile(ctx context.Context, target string, depth int, g *graph.Graph, o compile.Options) (*pass, error) {
	o.Params, o.Beside = m.params, []*buffers.Tree{m.frozen}
	p, err := compile.New(ctx, m.device, g, o)
	if err != nil {
		return nil, err
	}
	f := &pass{graph: p}
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

func (f *pass) release() {
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

func (m *passes) release() {
	m.evaluator.release()
	m.generator.release()
	m.evaluator, m.generator = nil, nil
}
