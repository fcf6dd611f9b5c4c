package model

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"gputrain/buffers/array"
	"gputrain/graph"
)

// MLPConfig is a chain of linear layers, y = x W^T + b with W [out, in], with an activation
// between each two.
type MLPConfig struct {
	Sizes      []int  // features, hidden layers, outputs
	Activation string // default "relu"; or silu, tanh, sigmoid, gelu_tanh, gelu_erf
	// Loss is "cross_entropy" (default) of the outputs as logits against integer labels, or
	// "mse", the mean over the outputs of the squared difference from the targets. Either is summed
	// over the batch.
	Loss string
}

func init() { Register(Family{Kind: "mlp", Read: readMLP}) }

type mlp struct{ c MLPConfig }

var (
	mlpActivations = []string{"relu", "silu", "tanh", "sigmoid", "gelu_tanh", "gelu_erf"}
	mlpLosses      = []string{"cross_entropy", "mse"}
)

// NewMLP fills in the defaults and checks the result.
func NewMLP(c MLPConfig) (Definition, error) {
	c.Activation = cmp.Or(c.Activation, "relu")
	c.Loss = cmp.Or(c.Loss, "cross_entropy")
	c.Sizes = slices.Clone(c.Sizes)
	switch {
	case len(c.Sizes) < 2:
		return nil, fmt.Errorf("model: mlp: sizes: %v, want at least features and outputs", c.Sizes)
	case !slices.Contains(mlpActivations, c.Activation):
		return nil, fmt.Errorf("model: mlp: activation: %q, want one of %q", c.Activation, mlpActivations)
	case !slices.Contains(mlpLosses, c.Loss):
		return nil, fmt.Errorf("model: mlp: loss: %q, want one of %q", c.Loss, mlpLosses)
	}
	for i, n := range c.Sizes {
		if err := sizes("mlp", fmt.Sprintf("size %d", i), n); err != nil {
			return nil, err
		}
	}
	return mlp{c}, nil
}

func (mlp) Kind() string { return "mlp" }
func (mlp) Vocab() int   { return 0 }
func (mlp) Context() int { return 1 }

// readMLP reads this package's own form; Hugging Face has none.
func readMLP(c *ConfigReader) (Definition, error) {
	config := MLPConfig{Activation: c.text("activation", ""), Loss: c.text("loss", "")}
	if err := json.Unmarshal(c.fields["sizes"], &config.Sizes); err != nil {
		c.wrong("sizes", "a list of whole numbers")
		return nil, nil
	}
	return NewMLP(config)
}

func (m mlp) Settings() map[string]any {
	return map[string]any{"sizes": m.c.Sizes, "activation": m.c.Activation, "loss": m.c.Loss}
}

func (m mlp) Params() []Param {
	var params []Param
	for i := range len(m.c.Sizes) - 1 {
		in, out := m.c.Sizes[i], m.c.Sizes[i+1]
		params = append(params,
			Param{Path: fmt.Sprintf("layers.%d.weight", i), Shape: []int{out, in}, Std: math.Sqrt(2 / float64(in))}, // He et al. 2015
			Param{Path: fmt.Sprintf("layers.%d.bias", i), Shape: []int{out}})
	}
	return sortParams(params)
}

func (m mlp) Build(batch, seq int, o Options) (*Built, error) {
	b, err := NewBuilder(m, batch, seq, o)
	if err != nil {
		return nil, err
	}
	if o.Rows > 0 || o.Window > 0 {
		return nil, fmt.Errorf("model: mlp: build: rows %d, window %d: want 0", o.Rows, o.Window)
	}
	last := len(m.c.Sizes) - 1
	x := b.Input(inputFeatures, graph.Type{Shape: []int{batch, m.c.Sizes[0]}, DType: array.F32})
	for i := range last {
		if i > 0 {
			x = b.Apply(m.c.Activation, x)
		}
		x = b.Add(b.Linear(x, fmt.Sprintf("layers.%d.weight", i)), b.Read(fmt.Sprintf("layers.%d.bias", i)))
	}
	built := &Built{Graph: b.Graph}
	switch {
	case o.Loss && m.c.Loss == "mse":
		targets := b.Input(inputTargets, graph.Type{Shape: []int{batch, m.c.Sizes[last]}, DType: array.F32})
		squares := b.Sum(b.Apply("square", b.Sub(x, targets)))
		b.scaled(built, b.Scale(squares, 1/float64(m.c.Sizes[last])))
	case o.Loss:
		labels := b.Input(InputLabels, graph.Type{Shape: []int{batch}, DType: array.I32})
		b.scaled(built, b.CrossEntropy(x, labels))
	}
	if o.Logits {
		built.Logits = x
	}
	return b.end(built)
}
