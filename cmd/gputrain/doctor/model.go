package doctor

import (
	"context"
	"fmt"
	"io/fs"
	"math"
	"path"
	"slices"
	"strings"

	"gputrain/buffers"
	"gputrain/buffers/array"
	"gputrain/buffers/safetensors"
	"gputrain/gpu"
	"gputrain/graph"
	"gputrain/hub"
	"gputrain/model"
	"gputrain/run/data"
)

// modelCase is case.json of kind model: how it is optimized is told as in an optimizer case.
type modelCase struct {
	optimizerCase
	Batch      int       `json:"batch"`
	SeqLen     int       `json:"seq_len"`
	NamePrefix string    `json:"name_prefix"`
	Storage    string    `json:"storage"`    // train.storage; "": f32
	Products   string    `json:"products"`   // train.products; "": f32
	LossScale  float32   `json:"loss_scale"` // with products of f16
	Losses     []float64 `json:"losses"`
	// Options of the loss of the next token, whose cases have metrics.
	LabelSmoothing float64 `json:"label_smoothing"`
	// Balance is the load-balancing loss of the first step, which is part of what is learned where InLoss says so, times the coefficient.
	Balance *struct {
		Value       float64 `json:"value"`
		Coefficient float64 `json:"coefficient"`
		InLoss      bool    `json:"in_loss"`
	} `json:"load_balancing"`
	ZLoss     float64 `json:"z_loss"`
	Tolerance struct {
		Loss        tolerance `json:"loss"`
		Logits      tolerance `json:"logits"`
		Grads       tolerance `json:"grads"`
		FinalParams tolerance `json:"final_params"`
		Merged      tolerance `json:"merged"`
	} `json:"tolerance"`

	storage buffers.DType
	micro   int  // microbatches that a batch on stages is cut into; 0: 1
	rounds  bool // products round their operands to f16
	def     model.Definition
	initial []buffers.Host // of what is trained
	frozen  []buffers.Host // of what is not
	learned model.Objective
	head    *model.Head    // of the model; nil: what its files say
	tokens  []int32        // [steps, batch, seq_len+1]
	labels  []int32        // [steps, batch, seq_len]; nil: the tokens, shifted by one
	metrics *objectiveCase // its metrics and tolerances, where it has some
	memory  map[string]float64
}

// modelRun is a model and its optimizer at work on the batches of a case.
type modelRun interface {
	logits(tokens []int32) ([]float32, error) // [batch*seq_len, vocab]
	// learn is one forward and backward pass and one update. It tells the loss and the figures of an objective by name: of each of model.Loss.Counts
	// (model.Built.Figures), or their means alone (model.Loss.Figures).
	learn(b data.Batch) (map[string][]float32, error)
	gradients() ([]buffers.Host, error) // of the last step
	params() ([]buffers.Host, error)
}

// newModelRun is one on a device, or on a stage for each of several.
func newModelRun(ctx context.Context, devices []*gpu.Device, m *modelCase) (interface {
	modelRun
	release()
}, error,
) {
	if len(devices) == 1 {
		return newDeviceModel(ctx, devices[0], m)
	}
	return newStagedModel(ctx, devices, m)
}

// trainedCase is a case whose model is trained.
type trainedCase interface {
	network() *modelCase
	train(c *goldenCase, run modelRun) (*comparison, error)
}

// training is a kind of such cases.
func training[C trainedCase](name string, load func(c *goldenCase, dir fs.FS) (C, error)) kind {
	return kind{name, func(ctx context.Context, devices []*gpu.Device, c *goldenCase, dir fs.FS) (*comparison, error) {
		trained, err := load(c, dir)
		if err != nil {
			return nil, err
		}
		run, err := newModelRun(ctx, devices, trained.network())
		if err != nil {
			return nil, err
		}
		defer run.release()
		return trained.train(c, run)
	}}
}

func (m *modelCase) network() *modelCase { return m }

// Names of what a modelRun finds of routers: what they did, and the load-balancing loss.
const routedFigure, balanceFigure = "routed", "load_balancing"

func loadModel(c *goldenCase, dir fs.FS) (*modelCase, error) {
	m := &modelCase{}
	if err := c.decode(m); err != nil {
		return nil, err
	}
	at, err := "", error(nil)
	if _, err := fs.Stat(dir, "base/config.json"); err == nil {
		at = "base"
	}
	if m.def, m.initial, err = readModel(dir, at, nil); err != nil {
		return nil, err
	}
	if b := m.Balance; b != nil {
		coefficient := 0.0
		if b.InLoss {
			coefficient = b.Coefficient
		}
		if m.def, err = model.WithBalance(m.def, coefficient); err != nil {
			return nil, err
		}
	}
	m.fix()
	if m.WeightDecayMask != nil {
		mask := map[string]bool{}
		for name, decays := range m.WeightDecayMask {
			mask[m.path(name)] = decays
		}
		m.WeightDecayMask = mask
	}
	if err := m.loadBatches(c); err != nil {
		return nil, err
	}
	return m, m.loadOptions(c)
}

// fix takes what is never trained out of what is.
func (m *modelCase) fix() {
	fixed := model.Fixed(m.def)
	is := func(h buffers.Host) bool { return slices.Contains(fixed, h.Path) }
	m.frozen = slices.DeleteFunc(slices.Clone(m.initial), func(h buffers.Host) bool { return !is(h) })
	m.initial = slices.DeleteFunc(m.initial, is)
}

// loadOptions reads the options of the loss, and the metrics of each step.
func (m *modelCase) loadOptions(c *goldenCase) error {
	o := &objectiveCase{}
	if err := c.decode(o); err != nil {
		return err
	}
	if err := c.tolerances(&o.Tolerances); err != nil {
		return err
	}
	if o.Metrics == nil && m.LabelSmoothing == 0 && m.ZLoss == 0 {
		return nil
	}
	if len(o.Metrics) != m.Steps {
		return fmt.Errorf("case.json: found %d metrics, wanted those of %d steps", len(o.Metrics), m.Steps)
	}
	if logits, there := o.Tolerances.First["logits"]; there {
		m.Tolerance.Logits = logits
	}
	m.metrics, m.learned = o, model.Objective{Loss: model.CrossEntropy, Numbers: map[string]float64{"label_smoothing": m.LabelSmoothing, "z_loss": m.ZLoss}}
	if err := m.learned.Validate(); err != nil {
		return fmt.Errorf("case.json: %w", err)
	}
	return nil
}

// figures are the metrics of a step, of what a modelRun has found.
func (m *modelCase) figures(b data.Batch, found map[string][]float32, grads []buffers.Host) map[string]numbers {
	metrics := map[string]numbers{"grad_norm": {norm(grads)}}
	counted := m.learned.Inputs(model.Rows{Tokens: b.Tokens, Labels: b.Labels, Count: b.Rows}).Counts.Of
	for i, name := range m.learned.Row().Sums {
		if sums, there := found["sums"]; there {
			metrics[name] = numbers{float64(sums[i]) / float64(counted)}
		}
	}
	for name, values := range found {
		if name != "sums" {
			metrics[name] = numbers{float64(values[0])}
		}
	}
	return metrics
}

// readModel reads config.json and model.safetensors at a path from dir; head is its head, nil: what they say.
func readModel(dir fs.FS, at string, head *model.Head) (def model.Definition, params []buffers.Host, err error) {
	def, stored, err := openModel(dir, at, head)
	if err != nil {
		return nil, nil, err
	}
	params, err = stored.All()
	return def, params, err
}

func openModel(dir fs.FS, at string, head *model.Head) (def model.Definition, stored *model.Stored, err error) {
	config, err := fs.ReadFile(dir, path.Join(at, "config.json"))
	if err != nil {
		return nil, nil, err
	}
	if def, err = model.ParseConfig(config); err != nil {
		return nil, nil, err
	}
	if head != nil {
		if def, err = model.WithHead(def, *head); err != nil {
			return nil, nil, err
		}
	}
	at = path.Join(at, "model.safetensors")
	tensors, err := tensorsIn(dir, at)
	if err != nil {
		return nil, nil, err
	}
	stored, err = model.Bind(def, at, tensors)
	return def, stored, err
}

// tensorsIn are those of a file of dir.
func tensorsIn(dir fs.FS, at string) ([]array.Tensor, error) {
	data, err := fs.ReadFile(dir, at)
	if err != nil {
		return nil, err
	}
	f, err := safetensors.Parse(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path.Base(at), err)
	}
	tensors, err := hub.TensorsOf(f)
	if err != nil {
		return nil, fmt.Errorf("model: weights: %w", err)
	}
	return tensors, nil
}

// path is what package model calls the tensor name.
func (m *modelCase) path(name string) string {
	if known := model.PathOf(m.def, name); slices.ContainsFunc(m.initial, func(h buffers.Host) bool { return h.Path == known }) {
		return known
	}
	return strings.TrimPrefix(name, m.NamePrefix)
}

// counted is how many parameters of the model those of the case are, which may be pieces of some.
func (m *modelCase) counted() int {
	var named []buffers.Host
	for _, p := range m.Params {
		named = append(named, buffers.Host{Path: m.path(p.Name), Data: []float32{0}})
	}
	return len(model.Joined(m.def, named))
}

// trained are the parameters of a graph that are trained, and their paths.
func (m *modelCase) trained(built *model.Built) (paths []string, values []*graph.Value) {
	for i, p := range m.def.Params() {
		if slices.ContainsFunc(m.initial, func(h buffers.Host) bool { return h.Path == p.Path }) {
			paths, values = append(paths, p.Path), append(values, built.Params[i])
		}
	}
	return paths, values
}

// scale is the scale of the loss whose gradient is computed.
func (m *modelCase) scale() float32 {
	if m.rounds {
		return m.LossScale
	}
	return 1
}

func (m *modelCase) loadBatches(c *goldenCase) error {
	if m.Steps < 1 || m.Batch < 1 || m.SeqLen < 1 || len(m.Losses) != m.Steps {
		return fmt.Errorf("case.json: %d steps of batch %d and seq_len %d, %d losses: want all positive, a loss a step",
			m.Steps, m.Batch, m.SeqLen, len(m.Losses))
	}
	switch m.Storage {
	case "", "f32":
	case "bf16":
		m.storage = buffers.BF16
	default:
		return fmt.Errorf("case.json: storage %q, want f32 or bf16", m.Storage)
	}
	switch m.Products {
	case "", "f32":
	case "f16":
		m.rounds = true
	default:
		return fmt.Errorf("case.json: products %q, want f32 or f16", m.Products)
	}
	if fraction, _ := math.Frexp(float64(m.scale())); fraction != 0.5 {
		return fmt.Errorf("case.json: loss_scale %g, want a power of two", m.LossScale)
	}
	if m.counted() != len(m.initial) {
		return fmt.Errorf("case.json: %d params, want the model's %d", len(m.Params), len(m.initial))
	}
	var err error
	if m.tokens, err = c.integers("tokens", m.Steps, m.Batch, m.SeqLen+1); err != nil {
		return err
	}
	if slices.Contains(c.tensors.Names(), "labels") {
		m.labels, err = c.integers("labels", m.Steps, m.Batch, m.SeqLen)
	}
	return err
}

// integers reads a tensor that must have the given shape.
func (c *goldenCase) integers(name string, shape ...int) ([]int32, error) {
	if _, found, ok := c.tensors.Info(name); ok && !slices.Equal(found, shape) {
		return nil, fmt.Errorf("tensor %s: shape %v, want %v", name, found, shape)
	}
	return c.tensors.Int32(name)
}

// batch is the input of a step.
func (m *modelCase) batch(step int) data.Batch {
	var tokens, labels []int32
	for row := step * m.Batch; row < (step+1)*m.Batch; row++ {
		window := m.tokens[row*(m.SeqLen+1) : (row+1)*(m.SeqLen+1)]
		tokens = append(tokens, window[:m.SeqLen]...)
		if m.labels != nil {
			labels = append(labels, m.labels[row*m.SeqLen:(row+1)*m.SeqLen]...)
		} else {
			labels = append(labels, window[1:]...)
		}
	}
	return data.Batch{Rows: m.Batch, Tokens: tokens, Labels: labels}
}

// train makes all steps of a case and compares what is expected of the first, of the losses and at the end.
func (m *modelCase) train(c *goldenCase, run modelRun) (*comparison, error) {
	seen := &comparison{}
	for step := range m.Steps {
		batch := m.batch(step)
		if step == 0 {
			got, err := run.logits(batch.Tokens)
			if err != nil {
				return nil, err
			}
			seen.tensor("step 0 logits", got, c.floats("expect/0/logits"), m.Tolerance.Logits)
		}
		found, err := run.learn(batch)
		if err != nil {
			return nil, fmt.Errorf("step %d: %w", step, err)
		}
		loss := float64(found["loss"][0])
		if balance, b := found[balanceFigure], m.Balance; b != nil && len(balance) == 1 {
			if step == 0 {
				seen.near("step 0 load balancing", float64(balance[0]), b.Value, m.Tolerance.Loss)
			}
			if b.InLoss {
				loss += b.Coefficient * float64(balance[0])
			}
		}
		delete(found, balanceFigure)
		seen.near(fmt.Sprintf("step %d loss", step), loss, m.Losses[step], m.Tolerance.Loss)
		if m.metrics != nil {
			grads, err := run.gradients()
			if err != nil {
				return nil, err
			}
			if err := m.metrics.compareMetrics(seen, step, m.figures(batch, found, grads), false); err != nil {
				return nil, err
			}
		}
		if step == 0 {
			c.compareTree(m, seen, "step 0 grads", "expect/0/grads", run.gradients, m.Tolerance.Grads)
		}
	}
	c.compareTree(m, seen, "final params", "expect/final/params", run.params, m.Tolerance.FinalParams)
	return seen, c.err
}

func (c *goldenCase) compareTree(m *modelCase, seen *comparison, where, prefix string, read func() ([]buffers.Host, error), tol tolerance) {
	got, err := read()
	c.note(err)
	want := c.leaves(m.Params, prefix)
	for i := range want {
		want[i].Path = m.path(want[i].Path)
	}
	seen.leaves(where, got, model.Joined(m.def, want), tol)
}
