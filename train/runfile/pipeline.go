package runfile

import "fmt"

// validatePipeline checks what the keys below pipeline say together; each alone is in its range.
func (c *Config) validatePipeline() error {
	p := c.Pipeline
	if c.Train.Batch%p.Microbatches != 0 {
		return c.invalid("pipeline.microbatches", p.Microbatches, fmt.Sprintf("a divisor of the %d sequences of train.batch", c.Train.Batch))
	}
	switch {
	case p.Schedule == Interleaved && p.Chunks == 1:
		return c.invalid("pipeline.chunks", p.Chunks, "2 or more with the interleaved schedule, or pipeline.schedule 1f1b")
	case p.Schedule != Interleaved && p.Chunks > 1:
		return c.invalid("pipeline.chunks", p.Chunks, fmt.Sprintf("1 with pipeline.schedule %s; several parts a stage are the interleaved schedule", p.Schedule))
	case p.Schedule != "1f1b" && p.Ahead > 0:
		return c.invalid("pipeline.ahead", p.Ahead, fmt.Sprintf("0 with pipeline.schedule %s; only 1f1b can run ahead", p.Schedule))
	}
	if err := c.validateAdapters(); err != nil {
		return err
	}
	for i, rule := range p.Rules {
		if rule.Stage >= p.Stages {
			return c.invalid(fmt.Sprintf("pipeline.rules[%d].stage", i), rule.Stage, fmt.Sprintf("0 to %d, the last of pipeline.stages", p.Stages-1))
		}
	}
	return nil
}
