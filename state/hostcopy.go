package state

import (
	"context"
	"fmt"

	"gputrain/checkpoint"
	"gputrain/gpu"
	"gputrain/internal/system"
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

// CopyToHost copies the state to the host, which takes CopyBytes there until the result is released; run is what the loop wants to find
// again. What of it is not finite is found when it is written, as in Save.
func (s Snapshot) CopyToHost(ctx context.Context, run checkpoint.Run) (checkpoint.HostCopy, error) {
	out, err := s.copyToHost(ctx, run)
	if err != nil {
		return checkpoint.HostCopy{}, fmt.Errorf("state: copy of step %d: %w", s.Step, err)
	}
	return out, nil
}

func (s Snapshot) copyToHost(ctx context.Context, run checkpoint.Run) (out checkpoint.HostCopy, err error) {
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
