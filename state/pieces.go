package state

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/model"
)

// pieces are the optimizer's tensors of all replicas and stages, in one order everywhere, each read through what is made of its own way. Those that other replicas
// have are without their numbers, as states on devices without hardware tell, and are not written.
func (s *TrainState) pieces(through func(replica, stage int, read reader) reader) (out []buffers.Tensor, err error) {
	own, replicas := 0, 1 // each has all of them
	if s.job.sharded() {
		own, replicas = s.job.replicas()
	}
	for replica := range replicas {
		for stage, r := range s.stages {
			list := r.State.Tensors()
			if replica != own {
				if list, err = s.tensorsLike(r, replica); err != nil {
					return nil, err
				}
			}
			for _, t := range list {
				read, bytes := through(replica, stage, t.Fill), t.Bytes()
				t.Read = func(ctx context.Context) ([]byte, error) {
					raw := make([]byte, bytes)
					return raw, read(ctx, raw, 0)
				}
				if t.ReadAt != nil {
					t.ReadAt = read
				}
				if replica != own {
					t.Write = func([]byte) error { return nil }
					if t.WriteAt != nil {
						t.WriteAt = func([]byte, int) error { return nil }
					}
				}
				out = append(out, t)
			}
		}
	}
	return out, nil
}

// most are the pieces of a checkpoint once all that an optimizer remembers has begun.
func (s *TrainState) most() ([]buffers.Tensor, error) {
	for _, o := range s.Optimizers() {
		counts := o.Counts()
		if err := o.SetCounts(countsAt(o, math.MaxInt64)); err != nil {
			return nil, err
		}
		defer func() { _ = o.SetCounts(counts) }() // which it had
	}
	return s.pieces(unread)
}

// unread is for pieces whose numbers do not matter.
func unread(_, _ int, read reader) reader { return read }

// tensorsLike are the tensors that a replica has of the optimizer on a stage.
func (s *TrainState) tensorsLike(r Resident, replica int) ([]buffers.Tensor, error) {
	params, err := buffers.NewTree(gpu.Dry(r.Params.Device().Limits()), "params", r.Params.Layout().Group(replica), r.Params.DType())
	if err != nil {
		return nil, err
	}
	defer params.Release()
	opt, err := s.own.Transform.InitStage(params, model.Specs(s.job.Definition))
	if err != nil {
		return nil, err
	}
	defer opt.Release()
	if err := opt.SetCounts(r.State.Counts()); err != nil {
		return nil, err
	}
	return opt.Tensors(), nil
}

// firstOf is the first of the names that several have found, "" for none, in the order of FirstNonFinite.
func firstOf(all [][]byte) (first string) {
	kinds := []string{"params/", "grads/", "other/"}
	order := func(name string) int {
		kind := slices.IndexFunc(kinds, func(kind string) bool { return strings.HasPrefix(name, kind) })
		return (kind + len(kinds) + 1) % (len(kinds) + 1) // the optimizer's come last
	}
	for _, found := range all {
		name := string(found)
		if name != "" && (first == "" || cmp.Or(cmp.Compare(order(name), order(first)), cmp.Compare(name, first)) < 0) {
			first = name
		}
	}
	return first
}
