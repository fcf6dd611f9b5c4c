package runfile

import (
	"fmt"
	"regexp"
	"strconv"
)

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
	if n := len(p.Adapters); n > 1 && n != p.Stages {
		wanted := fmt.Sprintf("one for each of the %d stages of pipeline.stages, or one for all", p.Stages)
		if p.Stages == 1 {
			wanted = "one adapter for the one stage of pipeline.stages"
		}
		return c.invalid("pipeline.adapters", p.Adapters, wanted)
	}
	for _, adapter := range p.Adapters {
		if adapter < 0 {
			return c.invalid("pipeline.adapters", p.Adapters, "numbers of adapters, 0 or more, as gputrain devices lists them")
		}
	}
	for i, rule := range p.Rules {
		key := fmt.Sprintf("rule %d of pipeline.rules", i)
		invalid := func(found any, wanted string) error {
			return fmt.Errorf("run file: %s (%s): found %v, wanted %s", key, c.Origin("pipeline.rules"), found, wanted)
		}
		if rule.Match == "" {
			return invalid("an empty match", "a regular expression on parameter paths; .* matches all")
		}
		if _, err := regexp.Compile(rule.Match); err != nil {
			return invalid("match "+strconv.Quote(rule.Match), fmt.Sprintf("a regular expression: %v", err))
		}
		if rule.Stage < 0 || rule.Stage >= p.Stages {
			return invalid(fmt.Sprintf("stage %d", rule.Stage), fmt.Sprintf("0 to %d, the last of pipeline.stages", p.Stages-1))
		}
	}
	return nil
}

// free are the keys whose values may change when a run goes on: they do not change what it computes.
var free = map[string]bool{
	"data.prefetch": true, "data.timeout": true, "train.log_every": true, "train.nan_patience": true,
	"train.spike_patience": true, "train.time_limit": true,
	"train.histogram_every": true, "train.histogram_match": true,
	"train.save_every": true, "train.save_interval": true, "train.save_async": true, "train.keep": true, "train.keep_best": true,
	"train.memory_limit": true, "pipeline.stages": true, "pipeline.adapters": true, "pipeline.schedule": true, "pipeline.chunks": true,
	"pipeline.ahead": true, "pipeline.recompute": true, "pipeline.devices": true, "pipeline.rules": true,
}

// Free tells whether a run that goes on may have another value of a key.
func Free(key string) bool { return free[key] }
