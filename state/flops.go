package state

import (
	"fmt"

	"gputrain/graph"
	"gputrain/model"
)

// FLOPs counts the floating point operations of an update but for the optimizer's: forward and backward pass of all its microbatches, at their
// real shape, padding included, by kind of operation ("matmul"). What is computed a second time to save memory does not count.
func (c Config) FLOPs() (map[string]int64, error) {
	c = c.WithDefaults()
	c.Recompute = model.RecomputeNone
	t, err := c.Training(nil)
	if err != nil {
		return nil, fmt.Errorf("state: flops: %w", err)
	}
	flops := t.Graph.FLOPsByKind(t.values()...)
	for kind := range flops {
		flops[kind] *= int64(c.Microbatches)
	}
	return flops, nil
}

// Again is the share of a forward pass that a backward pass computes again, by operations: 0 where Recompute is none.
func (c Config) Again() (float64, error) {
	c = c.WithDefaults()
	again, err := c.Training(nil)
	if err != nil {
		return 0, fmt.Errorf("state: flops: %w", err)
	}
	c.Recompute = model.RecomputeNone
	once, err := c.Training(nil)
	if err != nil {
		return 0, fmt.Errorf("state: flops: %w", err)
	}
	more := again.Graph.FLOPs(again.values()...) - once.Graph.FLOPs(once.values()...)
	return float64(more) / float64(once.Graph.FLOPs(once.LossSum)), nil
}

// values are what is wanted of the graph.
func (t Training) values() []*graph.Value {
	out := []*graph.Value{t.LossSum}
	for _, g := range t.Gradients {
		out = append(out, g.Value)
	}
	return out
}
