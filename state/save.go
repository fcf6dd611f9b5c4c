package state

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/state/checkpoint"
)

// Save writes the state of this step to the checkpoint directory path, whole or not at all, in the Hugging Face layout with the optimizer and the record
// beside it; run is what the loop wants to find again. A checkpoint that is there is replaced. What else is there stays, and is fs.ErrExist; a parameter or
// an optimizer value that is not finite is refused with checkpoint.ErrNonFinite, no room with a *checkpoint.SpaceError. It waits for the steps in flight; an
// error of the device is no *checkpoint.SaveError, and all others are. Where replicas divide the update, or
// the stages are on several ranks, all of them call it, and the first writes.
func (s *TrainState) Save(ctx context.Context, path string, run checkpoint.Run) error {
	if err := s.usable(); err != nil {
		return &checkpoint.SaveError{Path: path, Err: err}
	}
	if err := s.settle(); err != nil {
		return fmt.Errorf("state: save %q: %w", path, err)
	}
	if !s.divided() {
		return s.snapshot().Save(context.WithoutCancel(ctx), path, run)
	}
	var failed error
	err := s.streamDivided(context.WithoutCancel(ctx), run, func(c checkpoint.HostCopy) { failed = checkpoint.Commit(s.job.FS, path, c.Step, c.Sources) })
	return errors.Join(err, failed)
}

// Stream hands write the files of a checkpoint of this step, which read each tensor from its device when its turn comes: it takes hostStagingBytes of the host. They
// are good until write returns. It waits for the steps in flight. Where replicas divide the update, or the stages are on several ranks, all of
// them call it, and write is the first's; what write does not read is read after it.
func (s *TrainState) Stream(ctx context.Context, run checkpoint.Run, write func(checkpoint.HostCopy)) error {
	if err := s.settle(); err != nil {
		return fmt.Errorf("state: step %d: %w", s.own.Step, err)
	}
	ctx = context.WithoutCancel(ctx)
	if s.divided() {
		return s.streamDivided(ctx, run, write)
	}
	sources, err := s.snapshot().sources(ctx, run)
	if err != nil {
		return fmt.Errorf("state: step %d: %w", s.own.Step, err)
	}
	write(checkpoint.HostCopy{Step: s.own.Step, Sources: sources})
	return nil
}

// CopyToHost copies the state of this step to the host, to be written while training goes on: CopyBytes until the result is released. What of it is not
// finite is found when it is written, as in Save. It waits for the steps
// in flight. Where replicas divide the update, or the stages are on several ranks, all of them call it: the first gets the copy, the others one without files.
func (s *TrainState) CopyToHost(ctx context.Context, run checkpoint.Run) (checkpoint.HostCopy, error) {
	if err := s.settle(); err != nil {
		return checkpoint.HostCopy{}, fmt.Errorf("state: copy of step %d: %w", s.own.Step, err)
	}
	if s.divided() {
		return s.copyDivided(context.WithoutCancel(ctx), run)
	}
	return s.snapshot().CopyToHost(context.WithoutCancel(ctx), run)
}

// CheckSpace tells, before training begins, whether so many checkpoints below dir, which is there, would fit the disk, as checkpoint.Store does.
func (s *TrainState) CheckSpace(ctx context.Context, dir string, count int) (each, free uint64, err error) {
	shot := s.snapshot()
	if err = s.usable(); err == nil {
		shot.pieces, err = s.most()
	}
	if err != nil {
		return 0, 0, &checkpoint.SaveError{Path: dir, Err: err}
	}
	return shot.CheckSpace(ctx, dir, count)
}

// FirstNonFinite waits for the steps in flight and names the first tensor that has an element that is not finite: parameters in the order of their paths
// ("params/h.0.ln_1.weight"), then gradients ("grads/..."), other variables ("other/..."), and the optimizer's in the order of their names. "" for none. Where replicas divide the update, or the stages are on several ranks, all of them call it.
func (s *TrainState) FirstNonFinite(ctx context.Context) (string, error) {
	if err := s.settle(); err != nil {
		return "", fmt.Errorf("state: scan: %w", err)
	}
	if s.divided() {
		return s.firstDivided(context.WithoutCancel(ctx))
	}
	return s.snapshot().FirstNonFinite(context.WithoutCancel(ctx))
}

func (s *TrainState) snapshot() snapshot {
	out := s.own.snapshot(s.stages)
	out.Adapter, out.Companions, out.FS, out.Base = cmp.Or(s.job.Adapter, out.Adapter), s.job.Companions, s.job.FS, s.job.BaseRecord
	out.Ends = s.job.Ends
	_, out.Grads = s.Trees()
	out.FrozenAs = s.job.SaveFrozenAs
	s.staging.piece, out.staging = s.job.PieceBytes, &s.staging
	out.stages = map[*buffers.Tree]int{}
	for i, r := range s.stages {
		out.stages[r.Params], out.stages[r.Frozen] = i, i
	}
	if s.own.Other != nil {
		out.Other = []*buffers.Tree{s.own.Other}
	}
	return out
}

// devices are those of the stages, in their order.
func devices(stages []Resident) (all []*gpu.Device) {
	for _, r := range stages {
		all = append(all, r.Params.Device())
	}
	return all
}

// AdapterName tells adapters and their drivers apart, wherever they stand in the list, and what slices of products follow from: a card with some of its
// multiprocessors computes other bits. Of several devices each kind is named once, in order of the names.
func AdapterName(devs ...*gpu.Device) string {
	var names []string
	for _, dev := range devs {
		a := dev.Adapter()
		name := fmt.Sprintf("%s, %s, %s", a.Name, a.Backend, a.Driver)
		if n := dev.Limits().Multiprocessors; n > 0 {
			name += fmt.Sprintf(", %d multiprocessors", n)
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return strings.Join(slices.Compact(names), "; ")
}

// nonFinite is the first element of a leaf as a tree keeps it that is not finite, or -1; in f32 and bf16 alike the upper half of an element
// has the exponent. Integers are finite.
func nonFinite(d buffers.DType, raw []byte) int {
	size := d.Bits() / 8
	if d != buffers.F32 && d != buffers.BF16 {
		return -1
	}
	for i := size - 2; i < len(raw); i += size {
		if raw[i+1]&0x7f == 0x7f && raw[i]&0x80 == 0x80 {
			return i / size
		}
	}
	return -1
}
