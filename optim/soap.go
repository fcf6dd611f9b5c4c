package optim

import (
	"fmt"
	"math"
	"strings"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/kron"
)

func init() {
	builtin(Optimizer{
		Name: "soap", Doc: "SOAP: Adam in the coordinates in which a matrix's gradients are least correlated, AdamW for the rest", Rate: 0.006,
		New:   func() Parameters { return &soap{Refresh: soapRefresh{Every: 10}} },
		Small: `{"block_size":16,"max_size_dense":300,"refresh":{"every":2},"basis_damping":0.01}`,
		// A basis is known to some roundings over the damping.
		Tolerance: 1e-3, CountedFor: "full blocks of 128 with both sides, with a refresh in every update",
	})
}

// soap are the parameters of SOAP (Vyas et al. 2024, arXiv:2409.11321), with the names and defaults of kron.SOAP's equations where the published
// code has none: the published defaults are b1 0.95, b2 0.95, a refresh in one of ten updates.
type soap struct {
	B1             float64     `json:"b1" default:"0.95" range:"[0,1)" doc:"decay of the first moment"`
	B2             float64     `json:"b2" default:"0.95" range:"[0,1)" doc:"decay of the second moment, which is kept in turned coordinates"`
	Eps            float64     `json:"eps" default:"1e-8" range:"[0,inf)" doc:"added to the root of the second moment"`
	BasisDecay     *float64    `json:"basis_decay" range:"[0,1)" doc:"decay of the covariances whose bases turn the coordinates; null = b2"`
	BasisDamping   float64     `json:"basis_damping" range:"[0,inf)" doc:"added to a covariance before its basis, as a part of its mean eigenvalue; 0.01 makes bases of few gradients sure"`
	BiasCorrection bool        `json:"bias_correction" default:"true" doc:"divide both moments by the sums of their weights"`
	Whiten         string      `json:"whiten" default:"gradient" range:"gradient|momentum|" doc:"what the second moment of turned leaves is of"`
	BlockSize      int         `json:"block_size" default:"128" doc:"largest side of a block, each with bases of its own; cost and state grow with it"`
	MaxSizeDense   int         `json:"max_size_dense" default:"16384" doc:"longest side that is turned; matrices with none are AdamW's"`
	Refresh        soapRefresh `json:"refresh" doc:"updates that refresh the bases"`
	MuDType        string      `json:"mu_dtype" default:"f32" range:"f32|bf16|" doc:"storage of the first moment: f32 or bf16"`
	B21D           *float64    `json:"b2_1d" range:"[0,1)" doc:"decay of the second moment of vectors and scalars; null = b2"`
}

type soapRefresh struct {
	Every int `json:"every" doc:"one update in this many refreshes the bases; 0 and 1: every update"`
}

// Transform is chain(route(scale_by_soap, scale_by_adam), scale_by_learning_rate): matrices with a side that is turned go to SOAP. See kron.SOAP
// for the equations. State: "mu", "nu" of all leaves, and "Cl", "Cr", "Ql", "Qr" of the sides that are turned.
func (c *soap) Transform(lr Schedule, o Options) (Transform, error) {
	engine := kron.SOAP{
		BlockSize: c.BlockSize, MaxSizeDense: c.MaxSizeDense, B2: c.B2, Decay: c.B2, Damping: c.BasisDamping, Eps: c.Eps,
		Momentum: c.Whiten == "momentum", Uncorrected: !c.BiasCorrection,
	}
	if c.BasisDecay != nil {
		engine.Decay = *c.BasisDecay
	}
	if err := engine.Validate(); err != nil {
		return Transform{}, err
	}
	if c.Refresh.Every < 0 {
		return Transform{}, fmt.Errorf("refresh: every: found %d, wanted 0 or more", c.Refresh.Every)
	}
	work := soapOperator{SOAP: engine, every: int64(max(c.Refresh.Every, 1))}
	turned := Chain(
		Elementwise(Element{Name: "follow", operator: work, keeps: true}),
		EMA(EMAOptions{Decay: c.B1, Debias: c.BiasCorrection, DType: storage(c.MuDType), Numerics: o.Numerics}),
		Operate("precondition", soapTurning{work}),
	)
	turned.name = "scale_by_soap"
	adam := ScaleByAdam(Adam{B1: c.B1, B2: c.B2, B21D: c.B21D, Eps: c.Eps, MuDType: c.MuDType, uncorrected: !c.BiasCorrection}, o.Numerics)
	for i := range adam.elements {
		adam.elements[i].alongside = true
	}
	t := Chain(Route(&Mask{choose: func(l buffers.Leaf) bool { return engine.Turns(soapLeaf(l)) }}, turned, adam), ScaleByLearningRate(lr, o.Rates...))
	return t, t.err
}

// soapLeaf is a leaf as the blocks see it. Matrices of adapters have the rank for one side.
func soapLeaf(l buffers.Leaf) kron.Leaf {
	return kron.Leaf{Path: l.Path, Shape: l.Shape, Scanned: l.Scanned, LowRank: strings.Contains(l.Path, ".lora_")}
}

// soapOperator takes the gradients, and has the state; soapTurning behind it turns the momentum.
type soapOperator struct {
	kron.SOAP
	every int64
}

func (o soapOperator) refreshes(n int64) bool { return n%o.every == 0 }

func (o soapOperator) plan(s Scene) (*kron.Plan, error) {
	var leaves []kron.Leaf
	for _, spec := range s.Whole {
		l := soapLeaf(buffers.Leaf{Path: spec.Path, Shape: spec.Shape, Scanned: spec.Scanned})
		l.Frozen = s.Frozen(spec.Path)
		leaves = append(leaves, l)
	}
	return kron.NewSOAPPlan(leaves, o.SOAP)
}

// Work counts an update with a refresh.
func (o soapOperator) Work(s Scene) ([]float64, error) {
	plan, err := o.plan(s)
	if err != nil {
		return nil, err
	}
	out := make([]float64, len(s.Leaves))
	for i, l := range s.Leaves {
		if m, ok := plan.Leaf(l.Path); ok && s.Chosen[i] {
			out[i] = o.SOAP.Work(plan, m)
		}
	}
	return out, nil
}

// cost counts full blocks of b² parameters with both sides, as kronOperator's does: gather 8, two products 24, nu 12, two Grams and two mixes 32; a
// refresh of two bases, two products 24 and 16 for reflections.
func (o soapOperator) Cost() Cost {
	b := float64(o.BlockSize)
	c := Cost{StateBytes: 4 + 8 + 8, TrafficBytes: 8 + 32 + 24 + 16, FLOPs: math.Round(2 * b * (1 + 2 + 8./3))}
	if !o.Momentum {
		c.TrafficBytes, c.FLOPs = c.TrafficBytes+36, c.FLOPs+2*b*2
	}
	return c
}

func (o soapOperator) Open(s Scene) (Operation, error) {
	plan, err := o.plan(s)
	if err != nil {
		return nil, err
	}
	state, err := kron.NewSOAPState(s.Device, plan, o.SOAP, s.Layout)
	if err != nil {
		return nil, err
	}
	return &soapOperation{state}, nil
}

func (o soapOperator) Twin(s Scene) (OperatorTwin, error) {
	plan, err := o.plan(s)
	if err != nil {
		return nil, err
	}
	t, err := kron.NewSOAPTwin(plan, o.SOAP, s.chosenPaths())
	return &soapTwin{t, s}, err
}

type soapOperation struct{ *kron.SOAPState }

func (o *soapOperation) Reuses() bool                  { return false }
func (o *soapOperation) Prepare(t int64) (bool, error) { return false, o.SOAPState.Prepare(t + 1) }

func (o *soapOperation) Record(rec *gpu.Recording, c OperatorCall) { o.Follow(rec, c.Updates, c.Flag) }

type soapTwin struct {
	*kron.SOAPTwin
	Scene
}

func (w *soapTwin) Update(_ int64, u, _ [][]float64, skip bool) { w.Follow(w.chosen(u), skip) }

// soapTurning turns the momentum and back, by the state of the operator before it.
type soapTurning struct{ soapOperator }

func (o soapTurning) Cost() Cost {
	return Cost{TrafficBytes: 8 + 24 + 12 + 24 + 8, FLOPs: 2 * float64(o.BlockSize) * 4}
}

// Work is counted by the operator before it.
func (o soapTurning) Work(s Scene) ([]float64, error) { return make([]float64, len(s.Leaves)), nil }

func (o soapTurning) Open(s Scene) (Operation, error) {
	return soapTurns{o.soapOperator, s.earlier[len(s.earlier)-1].(*soapOperation)}, nil
}

func (o soapTurning) Twin(s Scene) (OperatorTwin, error) {
	return soapTurningTwin{o.soapOperator, s.twins[len(s.twins)-1].(*soapTwin)}, nil
}

type soapTurns struct {
	soapOperator
	of *soapOperation
}

func (o soapTurns) Reuses() bool                  { return o.every > 1 }
func (o soapTurns) Prepare(t int64) (bool, error) { return !o.refreshes(t + 1), nil }
func (o soapTurns) Tensors() []buffers.Tensor     { return nil }
func (o soapTurns) Bytes() uint64                 { return 0 }
func (o soapTurns) Release()                      {}

func (o soapTurns) Record(rec *gpu.Recording, c OperatorCall) {
	o.of.Turn(rec, c.Updates, c.Flag, !c.Reuse)
}

type soapTurningTwin struct {
	soapOperator
	of *soapTwin
}

func (w soapTurningTwin) Tensors() []buffers.Host { return nil }

func (w soapTurningTwin) Update(t int64, u, _ [][]float64, skip bool) {
	w.of.Turn(t+1, w.of.chosen(u), w.refreshes(t+1), skip)
}
