package state

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"gputrain/gpu"
	"gputrain/internal/system"
	"gputrain/model"
)

// MemoryError says that a training state does not fit: on one device, on one adapter with several stages, or in the machine's memory, which
// software adapters share. Nothing was taken.
type MemoryError struct {
	Stages    []int        // that share the memory; nil: the state is on one device
	Adapter   string       // "" where the stages are on several
	Memory    []MemoryPlan // of these stages
	Available uint64
	Bound     string // what bounds it
	Hint      string // what to change, with figures; "" where nothing was found that fits
}

// Error gives the figures and what to change.
func (e *MemoryError) Error() string {
	of, wanted := "", ""
	if e.Adapter != "" {
		of = " of " + e.Adapter
	}
	switch n := len(e.Stages); n {
	case 0:
	case 1:
		wanted = " for 1 stage"
	default:
		wanted = fmt.Sprintf(" for %d stages", n)
	}
	var each []string
	for i, m := range e.Memory {
		text := m.String()
		if len(e.Stages) > 0 {
			text = fmt.Sprintf("stage %d: %s (%s)", e.Stages[i], gpu.SizeText(m.Total()), m)
		}
		each = append(each, text)
	}
	return fmt.Sprintf("state: memory%s: %s wanted%s, %s is %s; %s: %s",
		of, gpu.SizeText(e.total()), wanted, e.Bound, gpu.SizeText(e.Available), strings.Join(each, "; "), cmp.Or(e.Hint, e.last()))
}

// Unwrap is gpu.ErrOutOfMemory.
func (e *MemoryError) Unwrap() error { return gpu.ErrOutOfMemory }

// last is what to do where no other configuration fits.
func (e *MemoryError) last() string {
	switch {
	case len(e.Stages) == 0 || e.Adapter == "":
		return "choose a smaller model, or one of the ways to train this one that gputrain plan lists"
	case len(e.Stages) > 1:
		return "give one of the stages another adapter (pipeline.adapters), or choose a smaller model"
	}
	return "use more stages, or choose a smaller model"
}

// total is what the stages take together.
func (e *MemoryError) total() (bytes uint64) {
	for _, m := range e.Memory {
		bytes += m.Total()
	}
	return bytes
}

// Kept is what of that is there from step to step, whatever the batch and the context.
func (e *MemoryError) Kept() (bytes uint64) {
	for _, m := range e.Memory {
		bytes += m.kept()
	}
	return bytes
}

// CheckMemory refuses stages that their devices have no room for: a *MemoryError, which advises the least change that fits. memory is what they
// take by plan; taken of its bytes are on the device already. plan tells what another configuration would take.
func (j Job) CheckMemory(devices []*gpu.Device, memory []MemoryPlan, taken uint64, plan func(smaller Job) ([]MemoryPlan, error)) error {
	compare := comparison(devices, taken)
	e := compare(memory)
	if e == nil {
		return nil
	}
	e.Hint = j.hint(e, plan, func(memory []MemoryPlan) bool { return compare(memory) == nil })
	return e
}

// FitsMemory tells whether devices have room for stages, taken of whose bytes are there already.
func FitsMemory(devices []*gpu.Device, memory []MemoryPlan, taken uint64) bool {
	return comparison(devices, taken)(memory) == nil
}

// comparison compares plans with what devices have, with bytes of it that are taken already.
func comparison(devices []*gpu.Device, taken uint64) func(memory []MemoryPlan) *MemoryError {
	adapters, rooms := make([]gpu.Adapter, len(devices)), make([]room, len(devices))
	for i, d := range devices {
		adapters[i] = d.Adapter()
		rooms[i].bytes, rooms[i].bound, rooms[i].known = d.Available()
		rooms[i].bytes += taken
	}
	machine := room{bound: fmt.Sprintf("the machine's available memory, without %s for others and what the program itself takes,", gpu.SizeText(system.MemoryReserve()))}
	machine.bytes, machine.known = hostRoom()
	machine.bytes += taken
	return func(memory []MemoryPlan) *MemoryError { return compare(adapters, rooms, machine, memory) }
}

// room is what a device has left to give.
type room struct {
	bytes uint64
	bound string
	known bool
}

// compare finds stages that do not fit. Those on one adapter share what it has, and a memory limit holds for an adapter, however many devices
// of it are open. Software adapters, and integrated ones, share the machine's memory with the program.
func compare(adapters []gpu.Adapter, rooms []room, machine room, memory []MemoryPlan) *MemoryError {
	var done []int
	for _, a := range adapters {
		if slices.Contains(done, a.Index) {
			continue
		}
		done = append(done, a.Index)
		share := room{}
		e := together(memory, func(i int) bool {
			if adapters[i].Index != a.Index {
				return false
			}
			if r := rooms[i]; r.known && (!share.known || r.bytes < share.bytes) {
				share = r
			}
			return true
		})
		e.Adapter = a.String()
		if e.exceeds(share) {
			return e
		}
	}
	if e := together(memory, func(i int) bool { return shares(adapters[i]) }); e.exceeds(machine) {
		return e
	}
	return nil
}

// together are some of the stages.
func together(memory []MemoryPlan, in func(stage int) bool) *MemoryError {
	e := &MemoryError{}
	for i, m := range memory {
		if !in(i) {
			continue
		}
		e.Memory = append(e.Memory, m)
		if len(memory) > 1 {
			e.Stages = append(e.Stages, i)
		}
	}
	return e
}

// exceeds tells whether the stages take more than there is, which it notes.
func (e *MemoryError) exceeds(r room) bool {
	e.Available, e.Bound = r.bytes, r.bound
	return r.known && e.total() > r.bytes
}

// hint finds the least change that fits: the same updates with more computed again or from smaller microbatches, or a shorter context.
func (j Job) hint(e *MemoryError, plan func(smaller Job) ([]MemoryPlan, error), fits func([]MemoryPlan) bool) string {
	if kept := e.Kept(); kept >= e.Available {
		what := "params, gradients and optimizer"
		if slices.ContainsFunc(e.Memory, func(m MemoryPlan) bool { return m.Scorers > 0 }) {
			what = "params, gradients, optimizer and reward models"
		}
		return fmt.Sprintf("%s alone take %s: %s", what, gpu.SizeText(kept), e.last())
	}
	more := model.Recomputes[max(0, slices.Index(model.Recomputes, j.Recompute)):]
	smaller := j
	for smaller.Sequence = j.Sequence; smaller.Sequence >= 1; smaller.Sequence /= 2 {
		for cut := 1; cut <= j.Batch; cut++ {
			if j.Batch%cut != 0 {
				continue
			}
			smaller.Batch, smaller.Microbatches, smaller.Accumulation = j.Batch/cut, j.Microbatches*cut, j.Accumulation
			ways := smaller.lesser()
			smaller.Accumulation, smaller.Recompute = ways[len(ways)-1], more[len(more)-1]
			if memory, err := plan(smaller); err != nil || !fits(memory) { // then nothing of this size fits
				continue
			}
			for _, smaller.Accumulation = range ways {
				for _, smaller.Recompute = range more {
					memory, err := plan(smaller)
					if err != nil || !fits(memory) {
						continue
					}
					found := together(memory, func(stage int) bool { return len(memory) == 1 || slices.Contains(e.Stages, stage) })
					return fmt.Sprintf("%s: %s instead of %s", j.changes(smaller, len(memory)), gpu.SizeText(found.total()), gpu.SizeText(e.total()))
				}
			}
		}
	}
	return ""
}

// lesser are the ways to add up gradients that take no more memory than that of the configuration.
func (j Job) lesser() []string {
	if _, replicas := j.replicas(); j.Accumulation == AccumulateTree && j.Microbatches > 1 && replicas == 1 {
		return accumulations
	}
	return []string{j.Accumulation}
}

// changes says what to set for a smaller configuration.
func (j Job) changes(to Job, stages int) string {
	var out []string
	switch cut := j.Batch / to.Batch; {
	case cut > 1 && stages > 1:
		out = append(out, fmt.Sprintf("raise pipeline.microbatches %d times (microbatches of %d sequences instead of %d)", cut, to.Batch, j.Batch))
	case cut > 1:
		out = append(out, fmt.Sprintf("lower batch from %d to %d (and raise accumulate from %d to %d for the same updates)", j.Batch, to.Batch, j.Microbatches, to.Microbatches))
	}
	if to.Accumulation != j.Accumulation {
		out = append(out, "set train.accumulation to "+to.Accumulation)
	}
	if to.Recompute != j.Recompute {
		out = append(out, "set train.recompute to "+to.Recompute)
	}
	if to.Sequence < j.Sequence {
		out = append(out, fmt.Sprintf("lower context from %d to %d", j.Sequence, to.Sequence))
	}
	return strings.Join(out, " and ")
}
