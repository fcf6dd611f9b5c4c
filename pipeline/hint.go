package pipeline

import (
	"context"
	"fmt"

	"gputrain/gpu"
)

// hint finds what would make stages fit that do not: activations computed again, smaller microbatches, or both; "" where not even all of it
// does. compare is what found e.
func (c Config) hint(ctx context.Context, adapters []gpu.Adapter, limits []gpu.Limits, e *MemoryError, compare func([]StageMemory) error) string {
	c = c.withDefaults()
	for cut := 1; cut <= c.State.Batch; cut++ {
		if c.State.Batch%cut != 0 {
			continue
		}
		for _, recompute := range []bool{false, true} {
			if c.Recompute && !recompute || cut == 1 && recompute == c.Recompute { // more memory, or what there is
				continue
			}
			smaller := c
			smaller.Recompute = recompute
			smaller.State.Batch, smaller.State.Microbatches = c.State.Batch/cut, c.State.Microbatches*cut
			memory, err := PlanMemory(ctx, smaller, adapters, limits)
			if err != nil || compare(memory) != nil {
				continue
			}
			text := ""
			if cut > 1 {
				text = fmt.Sprintf("raise pipeline.microbatches %d times (microbatches of %d sequences instead of %d)", cut, smaller.State.Batch, c.State.Batch)
			}
			if recompute && !c.Recompute {
				if text != "" {
					text += " and "
				}
				text += "set pipeline.recompute"
			}
			total := uint64(0)
			for _, stage := range e.Stages {
				total += memory[stage].Total()
			}
			return fmt.Sprintf("%s: %s instead of %s", text, gpu.SizeText(total), gpu.SizeText(e.total()))
		}
	}
	return ""
}
