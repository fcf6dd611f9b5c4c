package state

import (
	"fmt"

	"gputrain/graph"
)

// FLOPs counts the floating point operations of an update but for the optimizer's: forward and backward pass of all its microbatches, at their
// real shape, padding included, by kind of operation ("matmul"). What is computed a second time to save memory does not count.
func (c Config) FLOPs() (map[string]int64, error) {
	c = c.WithDefaults()
	g, targets, err := c.step()
	if err != nil {
		return nil, fmt.Errorf("state: flops: %w", err)
	}
	var values []*graph.Value
	for _, t := range targets {
		values = append(values, t.Value)
	}
	flops := g.FLOPsByKind(values...)
	for kind := range flops {
		flops[kind] *= int64(c.Microbatches)
	}
	return flops, nil
}
