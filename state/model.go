package state

import (
	"context"
	"fmt"

	"gputrain/buffers"
	"gputrain/buffers/array"
	"gputrain/gpu"
	"gputrain/graph"
	"gputrain/graph/compile"
	"gputrain/hub"
	"gputrain/model"
	"gputrain/state/checkpoint"
)

// Model is a language model on a device: its definition and its parameters, and the programs that evaluate and continue text, each made
// on first use. It is used from one goroutine.
type Model struct {
	Reader
	passes   *passes
	borrowed bool // params are another's to release

	notFinite []*model.NotFiniteError
}

// NewModel uploads parameters in f32.
func NewModel(dev *gpu.Device, def model.Definition, params []buffers.Host) (*Model, error) {
	return newModelOn(dev, def, params, nil, buffers.F32)
}

// newModelOn uploads parameters in f32, besides those at the paths of frozen, which are kept in a type.
func newModelOn(dev *gpu.Device, def model.Definition, params []buffers.Host, frozen []string, dtype buffers.DType) (*Model, error) {
	if dev == nil {
		return nil, errNoDevice
	}
	if def.Vocab() == 0 {
		return nil, fmt.Errorf("state: new model: %s has no tokens, want a language model", def.Kind())
	}
	own, rest, err := Job{Config{Definition: def, Frozen: frozen, FrozenDType: dtype}}.upload(dev, params)
	if err != nil {
		return nil, fmt.Errorf("state: new model: %w", err)
	}
	m := borrowing(def, own, rest, def.Context())
	m.borrowed = false
	return m, nil
}

// borrowing is the model with parameters that stay another's, which sees so many tokens.
func borrowing(def model.Definition, params, frozen *buffers.Tree, window int) *Model {
	p := &passes{device: params.Device(), def: def, params: params, frozen: frozen, window: window}
	return &Model{Reader: Reader{forward: p, vocab: def.Vocab(), window: window, recurrent: model.Recurrent(def)}, passes: p, borrowed: true}
}

// LoadModel reads any directory in the Hugging Face layout, such as a checkpoint, also where weights are not finite: NotFinite names them. It first compares the
// files with the manifest, where there is one. What a run had from its base is kept in the type in which that run kept it, so that the model computes what the
// run did.
func LoadModel(dev *gpu.Device, dir string) (*Model, error) {
	if err := checkpoint.VerifyModel(checkpoint.OS, dir); err != nil {
		return nil, err
	}
	files := hub.Open(dir)
	defer files.Close()
	def, weights, err := files.Partial(nil)
	if err != nil {
		return nil, loadError(dir, "%w", err)
	}
	weights.AllowNotFinite()
	return LoadStored(dev, dir, def, weights)
}

// LoadStored is LoadModel of the weights of dir, which are open and stay so.
func LoadStored(dev *gpu.Device, dir string, def model.Definition, weights *model.Stored) (_ *Model, err error) {
	hosts, _ := weights.Params(0)
	kept, dtype, err := keptAs(def, weights)
	if err != nil {
		return nil, loadError(dir, "%w", err)
	}
	m, err := newModelOn(dev, def, hosts, kept, dtype)
	if err != nil {
		return nil, err
	}
	m.notFinite = weights.NotFinite()
	return m, nil
}

// NotFinite are the parameters that LoadModel has found not to be finite.
func (m *Model) NotFinite() []*model.NotFiniteError { return m.notFinite }

// Narrow makes the model see at most so many tokens, before it has seen any: the keys and values of samples take memory for each. See
// model.Window.
func (m *Model) Narrow(window int) error {
	switch {
	case window < 1 || window > m.passes.def.Context():
		return fmt.Errorf("state: narrow: window: found %d, wanted 1 to the context %d", window, m.passes.def.Context())
	case m.passes.generator != nil || m.paging.Rows > 0:
		return fmt.Errorf("state: narrow: found a window of %d tokens begun, wanted none yet", m.window)
	}
	m.window, m.passes.window = window, window
	return nil
}

// Widen makes the model continue so many texts at once, before it has continued several, and once its window is known: see Paging.
func (m *Model) Widen(rows int) error { return m.WidenAs(rows, buffers.F32) }

// WidenAs is Widen with keys and values in F32 or BF16: a run's model draws as the run does with its storage.
func (m *Model) WidenAs(rows int, storage buffers.DType) error {
	if rows < 1 || m.paging.Rows > 0 {
		return fmt.Errorf("state: widen: found %d rows after %d, wanted 1 or more once", rows, m.paging.Rows)
	}
	m.paging = paging(rows, 0, m.window, storage)
	m.paging.Apart = m.recurrent
	m.passes.paging = m.paging
	return nil
}

// Definition is the model's.
func (m *Model) Definition() model.Definition { return m.passes.def }

// Params is the device-resident tree of parameters, f32; of a model that a value trains, or whose base is kept in fewer bytes, of those that are trained. Writing to it changes the model.
func (m *Model) Params() *buffers.Tree { return m.passes.params }

// Release gives the memory back.
func (m *Model) Release() {
	if m == nil {
		return
	}
	if !m.borrowed {
		m.passes.params.Release()
		m.passes.frozen.Release()
	}
	m.passes.release()
}

// passes are the forward passes of a model on one device.
type passes struct {
	device    *gpu.Device
	def       model.Definition
	objective model.Objective
	params    *buffers.Tree
	frozen    *buffers.Tree // nil: none
	window    int           // tokens it sees at most
	paging    Paging

	evaluator, looker, scorer shaped
	documents                 bool // batches are made of documents
	generator                 *generator
}

// pass is a program without gradients and the ring that its result is read back through.
type pass struct {
	graph *compile.Program
	run   *gpu.Program
	ring  *gpu.Readback
}

// compile compiles a graph of which a value is read back, by the name of target, through a ring of that depth.
func (m *passes) compile(ctx context.Context, target string, depth int, g *graph.Graph, wanted *graph.Value, o compile.Options) (*pass, error) {
	o.Params, o.Beside, o.Targets = m.params, []*buffers.Tree{m.frozen}, []compile.Target{{Name: target, Value: wanted}}
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

// A shaped pass is for batches of a shape.
type shaped struct {
	*pass
	of batchShape
}

// batchShape is what a pass over batches is made for.
type batchShape struct {
	rows, sequence int
	documents      bool
}

// prepare makes a pass for a shape, in the place of one for another.
func (m *passes) prepare(ctx context.Context, s *shaped, of batchShape, label string, depth int, build func() (*model.Built, *graph.Value, error)) error {
	if s.pass != nil && s.of == of {
		return nil
	}
	s.pass.release()
	s.pass, s.of = nil, of
	built, wanted, err := build()
	if err == nil {
		s.pass, err = m.compile(ctx, lossTarget, depth, built.Graph, wanted, compile.Options{Label: label})
	}
	return err
}

// once runs the program once, to its end.
func (f *pass) once(ctx context.Context, in Feed) ([]float32, error) {
	if err := in.Write(f.graph); err != nil {
		return nil, err
	}
	ctx = context.WithoutCancel(ctx)
	if err := f.run.Submit(ctx); err != nil {
		return nil, err
	}
	raw, err := f.ring.Next(ctx)
	return array.Decoded(buffers.F32, raw), err
}

func (f *pass) release() {
	if f == nil {
		return
	}
	f.run.Release()
	f.ring.Release()
	f.graph.Release()
}

func (m *passes) release() {
	m.evaluator.release()
	m.looker.release()
	m.scorer.release()
	m.generator.release()
	m.evaluator, m.looker, m.scorer, m.generator = shaped{}, shaped{}, shaped{}, nil
}
