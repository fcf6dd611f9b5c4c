package optim

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"

	"gputrain/buffers"
)

// An Element is one step of a chain that maps each number of the running update u on its own: one equation, written twice. WGSL runs
// on the device, fused with its neighbours, on four numbers at a time: u and every slot are vec4<f32> variables to be assigned, and
//
//	$NAME            a slot (vec4<f32>) or a scalar (f32) of this element
//	$p               the parameter from before the update (vec4<f32>)
//	$left            whether the update is left out, as a transformation that skips knows by the last segment (bool)
//	$norm, $bad      the L2 norm (f32) of u before this element over all leaves, and whether a number of it is not finite (bool)
//	$leaf_squares    the sum of squares of u before this element over the leaf at hand (f32)
//	$param_squares   the sum of squares of the leaf's parameter (f32)
//	$leaf_elements   the size of the leaf (f32)
//	$row_pull, $row_stretch   what a rowRule makes of the row at hand (vec4<f32>)
//
// Twin is the same on one number, in float64: the definition that the device is held to. What an element asks for besides costs passes:
// $norm, $bad, $leaf_squares and $param_squares read the update up to here once more.
type Element struct {
	Name    string // in messages, and of its count: scale_by_lion
	Slots   []Slot
	Scalars []Scalar
	WGSL    string
	Twin    func(c *Cell)
	FLOPs   int // operations a parameter

	columns   []column
	keeps     bool     // u is left as it is
	operator  Operator // instead of the equations; it has no slots
	rows      *rowRule
	alongside bool         // its slots have their names whatever others have: those of another route
	aside     bool         // it acts on a copy of u, up to the operator that is aside too: behind that, u is what it was. It has no slots
	behind    bool         // it stands behind the update, which it leaves as it is but where that is left out
	restores  bool         // params are stored where the update is left out, too: u is then the way back
	apart     string       // WGSL of a kernel of its own, whose u is added to the params; "": none
	from      int64        // the update from which on there is state; 0: there always is
	blend     float64      // the share of the state in the params that are evaluated
	routes    []membership // all of which a leaf must meet for the element to act on it
}

// A Slot is a tree of state, shaped like the params that the element acts on, and Initial everywhere at first. State names it after the
// slot: "mu/h.0.ln_1.weight".
type Slot struct {
	Name string
	// DType is f32, bf16, or U8: codes of leaves of 4,096 elements or more, f32 of others (levels.go). The variable is f32 whatever it is, and
	// rounded when it is stored.
	DType buffers.DType
	// Dither rounds stochastically when storing bf16, not to nearest even; the random bits depend on path, element and count alone.
	Dither   bool
	Unsigned bool // no number is below 0, so that codes need no sign
	Initial  float64

	kept bool // it is stored where the update is left out, too: the equation says what then
}

// A Scalar is the same for all leaves and may change by the update. At gets the number of updates before this one, on the host, in
// float64; its value is rounded to f32 on the way to the device.
type Scalar struct {
	Name string
	At   func(count int64) float64
	of   func(count int64, rate float64) float64 // what it is of the learning rate; nil where it is nothing of it

	inverse bool // it is the inverse of State.SetScale's
	staged  bool // it is 1 in calls of State.SetStageLocal, else 0
	first   bool // it is 0 but in the first call of an update
}

// Fixed is a scalar that does not change.
func Fixed(name string, value float64) Scalar {
	return Scalar{Name: name, At: func(int64) float64 { return value }}
}

// rated is a multiple of the learning rate.
func rated(name string, lr Schedule, factor float64) Scalar {
	of := func(_ int64, rate float64) float64 { return rate * factor }
	return Scalar{Name: name, At: func(t int64) float64 { return of(t, lr(t)) }, of: of}
}

// A column is a value of each leaf.
type column struct {
	name   string
	values func(leaves []buffers.Leaf, whole []string) ([]float32, error)
}

// A Cell is a Twin's view of one number: it reads all, and writes U and Slots. Norm, Bad and the rest are there where
// the WGSL asks for them.
type Cell struct {
	U, P    float64
	Slots   []float64 // of this element, in its order
	Scalars []float64 // likewise
	Norm    float64
	Bad     bool
	Left    bool

	LeafSquares, ParamSquares, LeafElements float64

	row rowNorms

	columns []float64
}

// Elementwise makes a transformation of an element. Errors come out where other constructors' errors do: an invalid
// name, a name that is taken or the kernel's own, $NAME of nothing, a slot of another type, a missing
// equation. The device reports errors in the WGSL itself when it compiles the kernel.
func Elementwise(e Element) Transform {
	if err := e.validate(); err != nil {
		return failed(e.Name, "%w", err)
	}
	return Transform{name: e.Name, elements: []Element{e}}
}

var (
	identifier = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)
	asked      = []string{"p", "left", "norm", "bad", "leaf_squares", "param_squares", "leaf_elements", "row_pull", "row_stretch"}
	// kernelNames are the variables of optim_update.wgsl and optim_norm.wgsl, which a slot of that name would hide.
	kernelNames = regexp.MustCompile(`^(u|g|p|next|i|k|entry|block|used|live|values|lane|workgroups?|group|words|vecs|begin|total|flags?|sums?` +
		`|params|scalars|table|statistics|pairs|partials|main|(i|route)_[0-9]+|.*_data` +
		`|word|second|known|mine|home|plain|at|row|row_.*|.*_(top|live|largest))$`)
)

func (e Element) validate() error {
	known := slices.Clone(asked)
	add := func(kind, name string) error {
		if !identifier.MatchString(name) || slices.Contains(known, name) {
			return fmt.Errorf("%s: found the name %q, wanted one of lower case letters, digits and _ that is not taken", kind, name)
		}
		known = append(known, name)
		return nil
	}
	if !identifier.MatchString(e.Name) {
		return fmt.Errorf("element: found the name %q, wanted lower case letters, digits and _", e.Name)
	}
	for _, s := range e.Slots {
		if err := add("slot", s.Name); err != nil {
			return err
		}
		switch {
		case kernelNames.MatchString(s.Name):
			return fmt.Errorf("slot: found the name %q, wanted one that is no variable of the kernel", s.Name)
		case s.DType != buffers.F32 && s.DType != buffers.BF16 && s.DType != buffers.U8:
			return fmt.Errorf("slot %s: found %s, wanted f32, bf16 or u8", s.Name, s.DType)
		case s.Dither && s.DType != buffers.BF16:
			return fmt.Errorf("slot %s: found stochastic rounding of %s, wanted it of bf16", s.Name, s.DType)
		case math.IsNaN(s.Initial) || math.IsInf(s.Initial, 0):
			return fmt.Errorf("slot %s: found the initial value %g, wanted a finite one", s.Name, s.Initial)
		case s.DType == buffers.U8 && s.Initial != 0:
			return fmt.Errorf("slot %s: found the initial value %g, wanted 0 in eight bits", s.Name, s.Initial)
		}
	}
	for _, s := range e.Scalars {
		if err := add("scalar", s.Name); err != nil {
			return err
		}
		if s.At == nil {
			return fmt.Errorf("scalar %s: found no function, wanted one of the count", s.Name)
		}
	}
	for _, c := range e.columns {
		known = append(known, c.name)
	}
	for _, name := range placeholder.FindAllString(e.WGSL, -1) {
		if !slices.Contains(known, name[1:]) {
			return fmt.Errorf("wgsl: found %s, wanted a slot, a scalar or one of %v", name, asked)
		}
	}
	if e.operator == nil && (e.Twin == nil || e.WGSL == "" && len(e.columns) == 0) {
		return errors.New("equation: found none or one of its two forms, wanted WGSL and Twin")
	}
	return nil
}
