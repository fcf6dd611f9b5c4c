package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"gputrain/gpu"
)

// MemoryError says that the stages on one adapter, or those that take of the machine's memory, do not fit. Nothing was taken.
type MemoryError struct {
	Stages    []int         // that share the memory
	Adapter   string        // "" where they are on several
	Memory    []StageMemory // of these stages
	Available uint64
	Bound     string // what bounds it
	Hint      string // what to change, with figures; "" where nothing was found that fits
}

// Error gives the figures and what to change.
func (e *MemoryError) Error() string {
	var each []string
	for i, m := range e.Memory {
		each = append(each, fmt.Sprintf("stage %d: %s (%s)", e.Stages[i], gpu.SizeText(m.Total()), m))
	}
	of, hint := "", "lower train.batch, raise pipeline.microbatches or set pipeline.recompute"
	switch {
	case e.Hint != "":
		hint = e.Hint
	case e.Adapter == "":
		hint += ", or choose a smaller model"
	case len(e.Stages) > 1:
		hint = "give one of the stages another adapter (pipeline.adapters), or " + hint
	default:
		hint += ", or use more stages"
	}
	if e.Adapter != "" {
		of = " of " + e.Adapter
	}
	return fmt.Sprintf("pipeline: memory%s: %s wanted for %s, %s is %s; %s: %s",
		of, gpu.SizeText(e.total()), stagesText(len(e.Stages)), e.Bound, gpu.SizeText(e.Available), strings.Join(each, "; "), hint)
}

// total is what the stages take together.
func (e *MemoryError) total() uint64 {
	total := uint64(0)
	for _, m := range e.Memory {
		total += m.Total()
	}
	return total
}

func stagesText(n int) string {
	if n == 1 {
		return "1 stage"
	}
	return fmt.Sprintf("%d stages", n)
}

// Unwrap is gpu.ErrOutOfMemory.
func (e *MemoryError) Unwrap() error { return gpu.ErrOutOfMemory }

// fits compares what everything takes with the devices before anything is taken of them. It returns the kernels of each stage.
func (c Config) fits(ctx context.Context, devices []*gpu.Device) ([][]*gpu.Kernel, error) {
	var adapters []gpu.Adapter
	var limits []gpu.Limits
	for _, d := range devices {
		adapters, limits = append(adapters, d.Adapter()), append(limits, d.Limits())
	}
	rehearsal, err := c.rehearse(ctx, adapters, limits)
	if err != nil {
		return nil, err
	}
	defer rehearsal.Release()
	rooms := make([]room, len(devices))
	for i, d := range devices {
		rooms[i].bytes, rooms[i].bound, rooms[i].known = d.Available()
	}
	machine := room{bound: "the machine's available memory"}
	machine.bytes, machine.known = gpu.MachineMemory()
	fit := func(memory []StageMemory) error { return compare(adapters, rooms, machine, memory) }
	err = fit(rehearsal.Memory())
	var e *MemoryError
	if errors.As(err, &e) {
		e.Hint = c.hint(ctx, adapters, limits, e, fit)
	}
	return rehearsal.passes.kernels(), err
}

// room is what a device has left to give.
type room struct {
	bytes uint64
	bound string
	known bool
}

// compare finds stages that do not fit. Those on one adapter share what it has, and a memory limit holds for an adapter, however many devices
// of it are open. Software adapters share the machine's memory.
func compare(adapters []gpu.Adapter, rooms []room, machine room, memory []StageMemory) error {
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
	if e := together(memory, func(i int) bool { return adapters[i].Limits.Software }); e.exceeds(machine) {
		return e
	}
	return nil
}

// together are some of the stages.
func together(memory []StageMemory, in func(stage int) bool) *MemoryError {
	e := &MemoryError{}
	for i, m := range memory {
		if in(i) {
			e.Stages, e.Memory = append(e.Stages, i), append(e.Memory, m)
		}
	}
	return e
}

// exceeds tells whether the stages take more than there is, which it notes.
func (e *MemoryError) exceeds(r room) bool {
	e.Available, e.Bound = r.bytes, r.bound
	return r.known && e.total() > r.bytes
}
