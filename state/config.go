package state

import (
	"errors"
	"fmt"

	"gputrain/graph"
	"gputrain/model"
	"gputrain/optim"
)

// Config is what a training state is made of.
type Config struct {
	Definition model.Definition // a language model
	// Optimizer is built with the gradient norm measured and updates that are not finite left out, whatever it says of these.
	Optimizer  optim.Config
	Batch      int    // sequences a micro-batch
	Accumulate int    // micro-batches an update; 0 is 1
	Sequence   int    // tokens a sequence; 0 is the definition's context
	Seed       uint64 // of the first parameters and of dropout
	// Evaluation and Sampling are planned for: their buffers count in the memory plan.
	Evaluation, Sampling bool

	FS       FileSystem                         // of checkpoints; nil is OS
	Progress func(what string, done, total int) // of kernel compilation; may be nil
}

// Validate reports the first value that cannot be meant, after the defaults.
func (c Config) Validate() error {
	c = c.withDefaults()
	switch {
	case c.Definition == nil:
		return errors.New("state: config: definition: none")
	case c.Definition.Vocab() == 0:
		return fmt.Errorf("state: config: definition: %s has no tokens, want a language model", c.Definition.Kind())
	case c.Batch < 1:
		return fmt.Errorf("state: config: batch: %d, want at least 1", c.Batch)
	case c.Accumulate < 1:
		return fmt.Errorf("state: config: accumulate: %d, want at least 1", c.Accumulate)
	case c.Sequence < 1 || c.Sequence > c.Definition.Context():
		return fmt.Errorf("state: config: sequence: %d, want 1 to the context %d", c.Sequence, c.Definition.Context())
	case c.Optimizer.Options.AccumulationSteps > 1:
		return fmt.Errorf("state: config: optimizer: accumulation_steps: %d: use accumulate here, which weighs by tokens", c.Optimizer.Options.AccumulationSteps)
	}
	_, err := c.transform()
	return err
}

func (c Config) withDefaults() Config {
	if c.Accumulate == 0 {
		c.Accumulate = 1
	}
	if c.Sequence == 0 && c.Definition != nil {
		c.Sequence = c.Definition.Context()
	}
	if c.FS == nil {
		c.FS = OS
	}
	if c.Progress == nil {
		c.Progress = func(string, int, int) {}
	}
	return c
}

// transform is the optimizer with what a training state needs of it.
func (c Config) transform() (optim.Transform, error) {
	o := c.Optimizer
	o.Options.SkipNonFinite, o.Options.MeasureNorm = true, true
	return o.Build()
}

// step is the graph of one micro-batch and what is wanted of it: the sum of the losses as "loss", and each parameter's gradient.
func (c Config) step() (*graph.Graph, []graph.Target, error) {
	built, err := c.Definition.Build(c.Batch, c.Sequence, model.Options{Loss: true, Training: true})
	if err != nil {
		return nil, nil, err
	}
	grads, err := graph.Gradients(built.Graph, built.Loss, built.Params)
	if err != nil {
		return nil, nil, err
	}
	targets := []graph.Target{{Name: lossTarget, Value: built.LossSum}}
	for i, p := range c.Definition.Params() {
		targets = append(targets, graph.Target{Value: grads[i], Leaf: p.Path})
	}
	return built.Graph, targets, nil
}

// Names of targets that are read back.
const (
	lossTarget   = "loss"
	logitsTarget = "logits"
)

// evaluation is the graph of the loss alone.
func evaluation(def model.Definition, batch, sequence int) (*graph.Graph, []graph.Target, error) {
	built, err := def.Build(batch, sequence, model.Options{Loss: true})
	if err != nil {
		return nil, nil, err
	}
	return built.Graph, []graph.Target{{Name: lossTarget, Value: built.LossSum}}, nil
}

// sampling is the graph of the logits of one position of one sequence.
func sampling(def model.Definition, sequence int) (*graph.Graph, []graph.Target, error) {
	built, err := def.Build(1, sequence, model.Options{Logits: true, Rows: 1})
	if err != nil {
		return nil, nil, err
	}
	return built.Graph, []graph.Target{{Name: logitsTarget, Value: built.Logits}}, nil
}
