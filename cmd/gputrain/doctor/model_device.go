package doctor

import (
	"context"
	"slices"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/graph"
	"gputrain/graph/compile"
	"gputrain/model"
	"gputrain/optim"
	"gputrain/run/data"
	"gputrain/state"
)

// deviceModel is a modelRun on a device: one program for the loss and all gradients, submitted together with the
// optimizer's, and one for the logits.
type deviceModel struct {
	*deviceRun
	dev           *gpu.Device
	m             *modelCase
	frozen        *buffers.Tree // nil: everything is trained
	loss, forward *compile.Program
	figures       []string // the outputs of loss, but for gradients
	backward      *gpu.Program
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
	grads, err := graph.Gradients(built.Graph, built.Loss, values)
	if err != nil {
		return err
	}
	targets := []compile.Target{{Name: "loss", Value: built.Loss}}
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
	if d.backward, err = rec.Program(d.ctx); err != nil {
		return err
	}
	if built, err = m.def.Build(m.Batch, m.SeqLen, model.Options{Logits: true}); err != nil {
		return err
	}
	d.forward, err = compile.New(d.ctx, d.dev, built.Graph, compile.Options{
		Label: "doctor.logits", Params: d.tree, Beside: []*buffers.Tree{d.frozen}, Targets: []compile.Target{{Name: "logits", Value: built.Logits}},
	})
	return err
}

func (d *deviceModel) logits(tokens []int32) ([]float32, error) {
	if err := (state.Feed{Batch: data.Batch{Tokens: tokens}}).Write(d.forward); err != nil {
		return nil, err
	}
	rec := d.dev.Record("gputrain.doctor.logits")
	d.forward.Record(rec)
	if err := rec.Submit(d.ctx); err != nil {
		return nil, err
	}
	return d.read(d.forward.Output("logits"))
}

func (d *deviceModel) step(tokens, labels []int32, scale float32) (float32, error) {
	if err := (state.Feed{Batch: data.Batch{Tokens: tokens, Labels: labels}, LossScale: scale * d.m.scale()}).Write(d.loss); err != nil {
		return 0, err
	}
	if err := d.update(); err != nil {
		return 0, err
	}
	loss, err := d.read(d.loss.Output("loss"))
	if err != nil {
		return 0, err
	}
	return loss[0] / d.m.scale(), nil
}

// update computes the gradients and applies them.
func (d *deviceModel) update() error {
	phase, err := d.opt.Prepare()
	if err != nil {
		return err
	}
	return d.dev.Submit(d.ctx, d.backward, d.programs[phase])
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

func (d *deviceModel) read(r gpu.Range) ([]float32, error) { return floatsAt(d.ctx, d.dev, r) }

func (d *deviceModel) release() {
	d.backward.Release()
	for _, p := range []*compile.Program{d.loss, d.forward} {
		p.Release()
	}
	d.frozen.Release()
	d.deviceRun.release()
}
