package state

import (
	"context"
	"fmt"
	"math"
	"slices"

	"gputrain/gpu"
	"gputrain/internal/system"
	"gputrain/state/checkpoint"
)

// hostCopy is memory of the host that has the bytes of tensors, one after the other.
type hostCopy struct {
	memory  []byte // nil once it is released
	release func()
	counted *staging
}

func (h *hostCopy) Release() {
	if h.memory != nil {
		h.counted.count(-len(h.memory))
		h.memory = nil
		h.release()
	}
}

// copied is a part of a tensor's copy; nil: it has none.
func (t *stored) copied(at, n int) []byte {
	if t.copy == nil {
		return nil
	}
	return t.copy.memory[t.copyAt+at:][:n]
}

// CopyToHost copies the state to the host; see TrainState.
func (s snapshot) CopyToHost(ctx context.Context, run checkpoint.Run) (checkpoint.HostCopy, error) {
	out, err := s.copyToHost(ctx, run)
	if err != nil {
		return checkpoint.HostCopy{}, fmt.Errorf("state: copy of step %d: %w", s.Step, err)
	}
	return out, nil
}

func (s snapshot) copyToHost(ctx context.Context, run checkpoint.Run) (out checkpoint.HostCopy, err error) {
	s = s.withStaging()
	t, err := s.tensors()
	if err != nil {
		return out, err
	}
	memory, release, err := system.Hold(int(t.bytes()))
	if err != nil {
		return out, fmt.Errorf("%s of the host's memory: %w: %w", gpu.SizeText(t.bytes()), err, gpu.ErrOutOfMemory)
	}
	h := &hostCopy{memory, release, s.staging}
	s.staging.count(len(memory))
	order, err := s.inOrder(t)
	at := 0
	for _, one := range order {
		if one.still {
			continue
		}
		if err == nil {
			step := s.staging.pieces(one.bytes, one.whole)
			for from := 0; from < one.bytes && err == nil; from += step {
				err = one.read(ctx, memory[at+from:][:min(step, one.bytes-from)], from)
			}
			if err != nil {
				err = fmt.Errorf("%s: %w", one.scan, err)
			}
			one.copy, one.copyAt = h, at
			at += one.bytes
		}
	}
	if err == nil {
		out.Sources, err = s.files(context.WithoutCancel(ctx), t, run)
	}
	if err != nil {
		h.Release()
		return checkpoint.HostCopy{}, err
	}
	out.Step, out.Release = s.Step, h.Release
	return out, nil
}

// HostPlan is what a run takes of the host's memory beside what its devices have, in bytes.
type HostPlan struct {
	Program uint64 // code, drivers, compiled kernels, data in hand
	Staging uint64 // what checkpoints are written and read through
	Copy    uint64 // what CopyToHost takes
	Free    uint64 // what is left for a copy; math.MaxUint64: nothing tells
	Reserve uint64 // what is left to others
}

// programBytes is what the program takes beside buffers: on lavapipe a run of SmolLM2-135M took 303 MiB more than the plan of its device, 130 of them before
// anything was planned.
const programBytes = 320 << 20

// PlanHost is the plan of a run whose stages take memory on devices, and whose copy of a checkpoint takes so many bytes.
func PlanHost(devices []*gpu.Device, memory []MemoryPlan, copied uint64) HostPlan {
	h := HostPlan{Program: programBytes, Staging: hostStagingBytes, Copy: copied, Free: math.MaxUint64, Reserve: system.MemoryReserve()}
	if left, known := hostRoom(); known {
		for i, m := range memory {
			if shares(devices[i].Adapter()) {
				left -= min(left, m.Total())
			}
		}
		h.Free = left
	}
	return h
}

// Copies tells whether training goes on while a checkpoint is written: async asks for that, and there is room for the copy.
func (h HostPlan) Copies(async bool) bool { return async && h.Copy <= h.Free }

// Bytes is what the run takes; async says that it asks for copies.
func (h HostPlan) Bytes(async bool) uint64 {
	if h.Copies(async) {
		return h.Program + h.Staging + h.Copy
	}
	return h.Program + h.Staging
}

// String is the plan in one line.
func (h HostPlan) String() string {
	return fmt.Sprintf("program %s, staging of checkpoints %s, copy of a checkpoint %s", gpu.SizeText(h.Program), gpu.SizeText(h.Staging), gpu.SizeText(h.Copy))
}

// hostRoom is what the machine has for the buffers of devices that share its memory, and for copies: what it can still give, without the reserve, what the program
// is yet to take, and staging.
func hostRoom() (bytes uint64, known bool) {
	bytes, known = gpu.MachineMemory()
	taken := system.MemoryReserve() + programBytes - min(programBytes, system.ResidentMemory()) + hostStagingBytes
	return bytes - min(bytes, taken), known
}

// shares tells whether an adapter's buffers are in this machine's memory. One of another machine has a number below 0.
func shares(a gpu.Adapter) bool { return a.Index >= 0 && a.Shares() }

// CopyBytes is what CopyToHost takes of the host: on ranks that do not lead, nothing.
func (s *TrainState) CopyBytes() (bytes uint64, err error) {
	if !s.job.Mesh.Leads() {
		return 0, nil
	}
	params, frozen, other := trees(s.stages)
	kept := slices.Concat(params, other)
	if s.job.Base == "" {
		kept = append(kept, frozen...)
	}
	for _, tree := range kept {
		for _, leaf := range tree.Layout().Leaves() {
			bytes += uint64(tree.Tensor(leaf.Path, leaf).Bytes())
		}
	}
	pieces, err := s.most()
	if err != nil {
		return 0, err
	}
	whole, err := wholeOf(nil, pieces)
	for _, t := range whole {
		bytes += uint64(t.Bytes())
	}
	return bytes, err
}
