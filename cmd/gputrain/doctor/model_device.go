package doctor

import (
	"context"
	"slices"

	"gputrain/buffers"
	"gputrain/buffers/array"
	"gputrain/gpu"
	"gputrain/graph"
	"gputrain/graph/compile"
	"gputrain/model"
	"gputrain/optim"
	"gputrain/run/data"
	"gputrain/state"
)

// deviceModel is a modelRun on a device: one program for the loss and all gradients, submitted together with the
// optimizer's.
type deviceModel struct {
	*deviceRun
	dev      *gpu.Device
	m        *modelCase
	frozen   *buffers.Tree // nil: everything is trained
	loss     *compile.Program
	figures  []string // the outputs of loss, but for gradients
	backward *gpu.Program
}

func newDeviceModel(ctx context.Context, dev *gpu.Device, m *modelCase) (*deviceModel, error) {
	tx, err := m.transform()
	if err != nil {
		return nil, err
	}
	if m.rounds {
		tx = optim.Unscale(tx)
	}
	run, err := newDeviceRun(ctx, dev, tx, m.initial)
	if err != nil {
		return nil, err
	}
	if m.rounds {
		if err := run.opt.SetScale(float64(m.scale())); err != nil {
			run.release()
			return nil, err
		}
	}
	d := &deviceModel{deviceRun: run, dev: dev, m: m}
	if len(m.frozen) > 0 {
		d.frozen, err = buffers.Upload(dev, "case.frozen", m.frozen, buffers.F32)
	}
	if err == nil {
		err = d.compile(m)
	}
	if err != nil {
		d.release()
		return nil, err
	}
	return d, nil
}

func (d *deviceModel) compile(m *modelCase) error {
	built, err := m.def.Build(m.Batch, m.SeqLen, model.Options{Loss: true, Objective: m.learned})
	if err != nil {
		return err
	}
	paths, values := m.trained(built)
	grads, err := graph.Gradients(built.Graph, built.Learned, values)
	if err != nil {
		return err
	}
	targets := []compile.Target{{Name: "loss", Value: built.Loss}}
	if built.Routed != nil {
		targets = append(targets, compile.Target{Name: routedFigure, Value: built.Routed})
	}
	for _, f := range built.Figures {
		targets = append(targets, compile.Target{Name: f.Name, Value: f.Value})
	}
	for _, t := range targets {
		d.figures = append(d.figures, t.Name)
	}
	for i, path := range paths {
		targets = append(targets, compile.Target{Value: grads[i], Leaf: path})
	}
	if m.storage == buffers.BF16 {
		built.Graph.StoreBF16(append(slices.Clone(grads), built.LossSum)...)
	}
	if m.rounds {
		built.Graph.RoundProducts()
	}
	if d.loss, err = compile.New(d.ctx, d.dev, built.Graph, compile.Options{
		Label: "doctor.loss", Params: d.tree, Beside: []*buffers.Tree{d.frozen}, Grads: d.deviceRun.grads, Targets: targets,
	}); err != nil {
		return err
	}
	rec := d.dev.Record("gputrain.doctor.loss")
	d.loss.Record(rec)
	d.backward, err = rec.Program(d.ctx)
	return err
}

func (d *deviceModel) logits(tokens []int32) ([]float32, error) {
	built, err := d.m.def.Build(d.m.Batch, d.m.SeqLen, model.Options{Logits: true})
	if err != nil {
		return nil, err
	}
	found, err := computed(d.ctx, d.dev, "logits", built.Graph, compile.Options{
		Label: "doctor.logits", Params: d.tree, Beside: []*buffers.Tree{d.frozen}, Targets: []compile.Target{{Name: "logits", Value: built.Logits}},
	}, state.Feed{Batch: data.Batch{Tokens: tokens}}.Write)
	return found["logits"], err
}

func (d *deviceModel) learn(b data.Batch) (map[string][]float32, error) {
	b, err := d.m.ahead(b, d.look)
	if err != nil {
		return nil, err
	}
	f := state.FeedOf(d.m.learned, b)
	f.LossScale, f.Balance = d.m.scale()/float32(max(1, f.Counts.Of)), d.m.scale()
	if err := f.Write(d.loss); err != nil {
		return nil, err
	}
	phase, err := d.opt.Prepare()
	if err != nil {
		return nil, err
	}
	if err := d.dev.Submit(d.ctx, d.backward, d.programs[phase]); err != nil {
		return nil, err
	}
	found, err := outputs(d.ctx, d.dev, d.loss, d.figures)
	if err != nil {
		return nil, err
	}
	found["loss"][0] /= d.m.scale()
	if routed := found[routedFigure]; routed != nil {
		delete(found, routedFigure)
		found[balanceFigure] = []float32{float32(model.RoutingOf(d.m.def).Balance(routed))}
	}
	return found, nil
}

// look is a forward pass for an objective's model.Built.Rows.
func (d *deviceModel) look(o model.Objective, b data.Batch) ([]float32, error) {
	built, err := d.m.def.Build(b.Rows, d.m.SeqLen, model.Options{Loss: true, Objective: o})
	if err != nil {
		return nil, err
	}
	found, err := computed(d.ctx, d.dev, "look", built.Graph, compile.Options{
		Label: "doctor.look", Params: d.tree, Beside: []*buffers.Tree{d.frozen}, Targets: []compile.Target{{Name: "rows", Value: built.Rows}},
	}, state.FeedOf(o, b).Write)
	return found["rows"], err
}

func (d *deviceModel) gradients() ([]buffers.Host, error) {
	grads, err := d.deviceRun.grads.Download(d.ctx)
	return unscaled(grads, d.m.scale()), err
}

// unscaled are gradients of a scaled loss without the scale.
func unscaled(grads []buffers.Host, scale float32) []buffers.Host {
	for _, g := range grads {
		for i := range g.Data {
			g.Data[i] /= scale
		}
	}
	return grads
}

func (d *deviceModel) release() {
	d.backward.Release()
	d.loss.Release()
	d.frozen.Release()
	d.deviceRun.release()
}

// computed are the targets of a graph, by name, of what feed writes.
func computed(ctx context.Context, dev *gpu.Device, what string, g *graph.Graph, o compile.Options, feed func(*compile.Program) error) (map[string][]float32, error) {
	p, err := compile.New(ctx, dev, g, o)
	if err != nil {
		return nil, err
	}
	defer p.Release()
	if err := feed(p); err != nil {
		return nil, err
	}
	rec := dev.Record("gputrain.doctor." + what)
	p.Record(rec)
	if err := rec.Submit(ctx); err != nil {
		return nil, err
	}
	var names []string
	for _, t := range o.Targets {
		names = append(names, t.Name)
	}
	return outputs(ctx, dev, p, names)
}

// outputs reads what a program has computed.
func outputs(ctx context.Context, dev *gpu.Device, p *compile.Program, names []string) (map[string][]float32, error) {
	found := map[string][]float32{}
	for _, name := range names {
		at := p.Output(name)
		raw := make([]byte, at.Bytes)
		if err := dev.Read(ctx, raw, at); err != nil {
			return nil, err
		}
		found[name] = array.Decoded(buffers.F32, raw)
	}
	return found, nil
}
