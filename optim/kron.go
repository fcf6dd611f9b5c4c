package optim

import (
	"fmt"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/kron"
)

func init() {
	for _, o := range []Optimizer{
		{
			Name: "quad", Doc: "blocked Kronecker factors on both sides of each matrix, followed by a quadratic step (PSGD Quad)",
			New: kronOf(kron.Quad),
		},
		{
			Name: "skew", Doc: "blocked Kronecker factors on both sides of each matrix, followed by a step and a rotation (PSGD Procrustes)",
			New: kronOf(kron.Skew),
		},
	} {
		o.Rate, o.Small, o.Tolerance = 0.006, `{"block_size":16,"max_size_dense":300}`, 2e-4
		o.First = map[Numerics]string{EFormer: "leaves draw in the order of their paths, and the momentum is not rounded before the factors"}
		o.CountedFor = "full blocks of 128, with a refresh in every update"
		builtin(o)
	}
}

// Kron are the parameters of eformer's quad and skew, with its defaults; in stable numerics blocks are smaller. See ScaleByKron for the equations.
type Kron struct {
	B1               float64      `json:"b1" default:"0.95" range:"[0,1)" doc:"decay of the momentum before preconditioning; 0 = no momentum and no mu"`
	BlockSize        int          `json:"block_size" default:"128" eformer:"256" doc:"largest side of a block; cost and state of dense factors grow with it"`
	MaxSizeDense     int          `json:"max_size_dense" default:"16384" doc:"longest side of a matrix with a dense factor; a longer one has a diagonal factor"`
	PreconditionerLR float64      `json:"preconditioner_lr" default:"0.7" doc:"step of the factors"`
	InitScale        float64      `json:"preconditioner_init_scale" default:"1" doc:"initial factors are this times the identity"`
	DType            string       `json:"dtype" range:"f32|bf16|" doc:"storage of the factors, with eformer numerics of the momentum too: f32, 16 bytes a parameter with what is derived, or bf16, 4 bytes and a tenth more work; \"\" = f32, with eformer numerics bf16"`
	Damping          float64      `json:"damping" default:"0.03" numerics:"stable" doc:"noise on the gradient, relative to its running RMS"`
	NoiseScale       float64      `json:"noise_scale" default:"1e-9" numerics:"eformer" doc:"standard deviation of the noise on the gradient"`
	NormalizeGrads   bool         `json:"normalize_grads" doc:"divide the momentum of each leaf by its norm first"`
	LRStyle          string       `json:"lr_style" default:"adam" range:"adam|none|" doc:"\"adam\" divides updates by 5, so that rates are like Adam's; \"none\" does not"`
	Whiten           string       `json:"whiten" default:"momentum" range:"momentum|gradient|" doc:"what the factors follow: the momentum, which they multiply, or the gradient, after which directions are smaller (b1 0.95: a sixth) and rates larger"`
	Refresh          kron.Cadence `json:"refresh" doc:"updates that refresh the factors; the others only apply them"`
	ScannedLayers    *Mask        `json:"scanned_layers" doc:"leaves whose first axis counts independent matrices: patterns or paths; null = none"`
	WeightDecay      *float64     `json:"weight_decay" range:"[0,inf)" doc:"decay inside of the optimizer, before the rate, as in eformer; null = 0, with eformer numerics 0.1; prefer the options' weight_decay"`
	WeightDecayMask  *Mask        `json:"weight_decay_mask" doc:"leaves that decay inside of the optimizer; null = all"`

	method kron.Method
}

func kronOf(method kron.Method) func() Parameters {
	return func() Parameters { return &Kron{method: method, Refresh: kron.DefaultCadence()} }
}

// Transform is chain(scale_by_quad or scale_by_skew, add_decayed_weights, scale_by_learning_rate).
func (c *Kron) Transform(lr Schedule, o Options) (Transform, error) {
	decay := o.rules().kronDecay
	if c.WeightDecay != nil {
		decay = *c.WeightDecay
	}
	if err := o.oneDecay(decay); err != nil {
		return Transform{}, err
	}
	parts := []Transform{scaleByKron(c.method, *c, o)}
	if decay > 0 {
		parts = append(parts, AddDecayedWeights(decay, c.WeightDecayMask))
	}
	t := Chain(append(parts, ScaleByLearningRate(lr, o.Rates...))...)
	return t, t.err
}

// ScaleByKron preconditions a momentum by Kronecker factors (eformer's scale_by_quad and scale_by_skew):
//
//	with whiten "gradient" the factors follow u here, rounded and divided as below, but u stays
//	u <- EMA(u), divided by the sum of its weights           without b1: u as it is
//	u <- u rounded to the type of the factors                in eformer numerics
//	u <- u / (|u| + 1e-6) of each leaf                       with normalize_grads
//	u <- QlᵀQl u QrᵀQr of each block, as package kron has it
//	u <- u 1.1 / max(RMS(u), 1.1) of each leaf
//	u <- u / 5                                               with lr_style "adam"
//
// State: "mu", and the state of the factors.
func ScaleByKron(method kron.Method, c Kron, n Numerics) Transform {
	return scaleByKron(method, c, Options{Numerics: n})
}

func scaleByKron(method kron.Method, c Kron, o Options) Transform {
	name := "scale_by_" + string(method)
	if err := checkRanges(&c); err != nil {
		return failed(name, "%w", err)
	}
	config, err := c.kron(method, o)
	if err != nil {
		return failed(name, "%w", err)
	}
	var shaped []Transform // what comes before the factors
	if config.DType == buffers.BF16 && o.rules().kronRounds {
		shaped = append(shaped, round())
	}
	if c.NormalizeGrads {
		shaped = append(shaped, normalizeByLeaf(1e-6))
	}
	var parts []Transform
	engine := kronOperator{config: config, cadence: c.Refresh, scanned: c.ScannedLayers}
	if c.Whiten == "gradient" && c.B1 > 0 { // without a momentum it is the same
		engine.work = following
		parts = append(parts, asideOf("follow", engine, shaped...))
		engine.work = applying
	}
	if c.B1 > 0 {
		ema := EMAOptions{Decay: c.B1, Debias: true, DType: config.DType, Numerics: o.Numerics}
		if o.rules().kronMomentumF32 {
			ema.DType = buffers.F32
		}
		parts = append(parts, EMA(ema))
	}
	parts = append(append(parts, shaped...), Operate("precondition", engine), ClipByLeafRMS(1.1))
	if c.LRStyle != "none" {
		parts = append(parts, Scale(1.0/5))
	}
	t := Chain(parts...)
	t.name = name
	return t
}

// Config is that of the engine, of parameters that Config.Decode gives.
func (c *Kron) Config(o Options) (kron.Config, error) { return c.kron(c.method, o) }

// kron is the configuration of the engine.
func (c Kron) kron(method kron.Method, o Options) (kron.Config, error) {
	numerics := o.rules()
	out := kron.Config{
		Method: method, BlockSize: c.BlockSize, MaxSizeDense: c.MaxSizeDense, PreconditionerLR: c.PreconditionerLR, InitScale: c.InitScale,
		NoiseScale: c.NoiseScale, Damping: c.Damping, Rules: numerics.kron, DType: numerics.kronDType,
	}
	if c.DType != "" {
		out.DType = storage(c.DType)
	}
	if err := c.Refresh.Validate(); err != nil {
		return out, fmt.Errorf("refresh: %w", err)
	}
	return out, out.Validate()
}

// kronOperator puts package kron between two fused kernels.
type kronOperator struct {
	config  kron.Config
	cadence kron.Cadence
	scanned *Mask
	work    kronWork
}

// kronWork is what an operator does: both, or one of two operators that have one state, which is the first one's.
type kronWork int

const (
	both kronWork = iota
	following
	applying
)

func (o kronOperator) plan(s Scene) (*kron.Plan, error) {
	leaves := make([]kron.Leaf, len(s.Whole))
	for i, spec := range s.Whole {
		leaves[i] = kron.Leaf{Path: spec.Path, Shape: spec.Shape, Frozen: s.Frozen(spec.Path)}
	}
	if o.scanned != nil {
		in, err := o.scanned.resolve(unplaced(s.Whole), pathsOf(s.Whole))
		if err != nil {
			return nil, fmt.Errorf("scanned_layers: %w", err)
		}
		for i := range leaves {
			leaves[i].Scanned = in[i]
		}
	}
	return kron.NewPlan(leaves, o.config)
}

// check finds stacked leaves that are none.
func (o kronOperator) Check(s Scene) error {
	_, err := o.plan(s)
	return err
}

// Work counts an update with a refresh.
func (o kronOperator) Work(s Scene) ([]float64, error) {
	plan, err := o.plan(s)
	if err != nil {
		return nil, err
	}
	out := make([]float64, len(s.Leaves))
	if o.work == applying {
		return out, nil // the first one counts for both
	}
	for i, l := range s.Leaves {
		if m, ok := plan.Leaf(l.Path); ok && s.Chosen[i] {
			out[i] = plan.Work(m)
		}
	}
	return out, nil
}

func (o kronOperator) Open(s Scene) (Operation, error) {
	if o.work == applying {
		return kronApplied{s.earlier[len(s.earlier)-1].(*kronOperation)}, nil
	}
	plan, err := o.plan(s)
	if err != nil {
		return nil, err
	}
	state, err := kron.NewState(s.Device, plan, s.Layout)
	if err != nil {
		return nil, err
	}
	return &kronOperation{state, o.cadence, o.work == following}, nil
}

type kronOperation struct {
	*kron.State
	cadence kron.Cadence
	follows bool
}

func (o *kronOperation) Reuses() bool { return o.cadence.Anneal || o.cadence.Every > 1 }

func (o *kronOperation) Prepare(t int64) (bool, error) {
	return !o.cadence.Refreshes(t + 1), o.State.Prepare(t + 1)
}

func (o *kronOperation) Record(rec *gpu.Recording, c OperatorCall) {
	switch {
	case !o.follows:
		o.State.Record(rec, c.Updates, c.Flag, c.Reuse)
	case !c.Reuse:
		o.Follow(rec, c.Updates, c.Flag)
	}
}

// kronApplied applies the factors that follow something else.
type kronApplied struct{ of *kronOperation }

func (o kronApplied) Reuses() bool                { return false }
func (o kronApplied) Prepare(int64) (bool, error) { return false, nil }
func (o kronApplied) Tensors() []buffers.Tensor   { return nil }
func (o kronApplied) Bytes() uint64               { return 0 }
func (o kronApplied) Release()                    {}

func (o kronApplied) Record(rec *gpu.Recording, c OperatorCall) {
	o.of.State.Record(rec, c.Updates, c.Flag, true)
}

func (o kronOperator) Twin(s Scene) (OperatorTwin, error) {
	if o.work == applying {
		return kronAppliedTwin{s.twins[len(s.twins)-1].(*kronTwin)}, nil
	}
	plan, err := o.plan(s)
	if err != nil {
		return nil, err
	}
	t, err := kron.NewTwin(plan, s.chosenPaths())
	return &kronTwin{s, o.cadence, t, o.work == following}, err
}

type kronTwin struct {
	Scene
	cadence kron.Cadence
	*kron.Twin
	follows bool
}

func (w *kronTwin) Update(t int64, u, _ [][]float64, skip bool) {
	reuse := !w.cadence.Refreshes(t + 1)
	if w.follows {
		checkTwin(w.Follow(t+1, w.chosen(u), reuse || skip))
		return
	}
	checkTwin(w.Twin.Update(t+1, w.chosen(u), reuse, skip))
}

// chosenPaths are those of the operator's leaves.
func (s Scene) chosenPaths() []string {
	paths := []string{}
	for i, l := range s.Leaves {
		if s.Chosen[i] {
			paths = append(paths, l.Path)
		}
	}
	return paths
}

// chosen is the updates of the operator's leaves, by path.
func (s Scene) chosen(u [][]float64) map[string][]float64 {
	leaves := map[string][]float64{}
	for i, l := range s.Leaves {
		if s.Chosen[i] {
			leaves[l.Path] = u[i]
		}
	}
	return leaves
}

func checkTwin(err error) {
	if err != nil {
		panic("optim: twin: " + err.Error()) // leaves are those that the twin was made for
	}
}

type kronAppliedTwin struct{ of *kronTwin }

func (w kronAppliedTwin) Tensors() []buffers.Host { return nil }

func (w kronAppliedTwin) Update(t int64, u, _ [][]float64, skip bool) {
	checkTwin(w.of.Twin.Update(t+1, w.of.chosen(u), true, skip))
}

// cost counts full blocks of b² parameters, with a refresh in every update: the bytes that products read and write once
// (tiles that read again do not count), and 10 b³ multiply-adds for Quad, 12 for Skew.
//
//	gather 8, noise 8, two products each before and after the refresh 2 (16 + 8 of squares), two Grams 12
//	bounds 8, W Q 24, W Q W or the turn 32, squares 16, scatter 8; with factors in bf16 squares once more, b³ and 12
func (o kronOperator) Cost() Cost {
	if o.work == applying { // what it does is counted with the refresh, except for the gather
		return Cost{TrafficBytes: 8}
	}
	b, factor := float64(o.config.BlockSize), float64(o.config.DType.Bits())/8
	c := Cost{StateBytes: 2 * factor, TrafficBytes: 8 + 8 + 2*24 + 12 + 8 + 24 + 32 + 16 + 8, FLOPs: 2 * 10 * b}
	if o.config.Method == kron.Skew {
		c.FLOPs = 2 * 12 * b
	}
	if o.config.DType == buffers.BF16 {
		c.FLOPs += 2 * b
		c.TrafficBytes += 12
	}
	return c
}
