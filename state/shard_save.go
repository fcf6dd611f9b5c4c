package state

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"gputrain/buffers"
	"gputrain/checkpoint"
	"gputrain/gpu"
	"gputrain/model"
)

// deliverBytes is how much of a tensor goes from one replica to another at once.
const deliverBytes = 16 << 20

// elsewhere are the tensors of the optimizer that other replicas have, in the order of replicas and stages: what they are without their numbers, as
// states on devices without hardware tell. read is where these come from; nothing is written.
func (s *TrainState) elsewhere(read func(rank int, t buffers.Tensor) ([]byte, error)) (out []buffers.Tensor, err error) {
	if !s.config.sharded() {
		return nil, nil
	}
	rank, replicas := s.config.replicas()
	for other := range replicas {
		if other == rank {
			continue
		}
		for _, r := range s.stages {
			list, err := s.tensorsLike(r, other)
			if err != nil {
				return nil, err
			}
			for _, t := range list {
				t.Read = func(context.Context) ([]byte, error) { return read(other, t) }
				t.Write = func([]byte) error { return nil }
				out = append(out, t)
			}
		}
	}
	return out, nil
}

// tensorsLike are the tensors that a replica has of the optimizer on a stage.
func (s *TrainState) tensorsLike(r Resident, replica int) ([]buffers.Tensor, error) {
	params, err := buffers.NewTree(gpu.Dry(r.Params.Device().Limits()), "params", r.Params.Layout().Group(replica), r.Params.DType())
	if err != nil {
		return nil, err
	}
	defer params.Release()
	opt, err := s.own.Transform.InitStage(params, model.Specs(s.config.Definition))
	if err != nil {
		return nil, err
	}
	defer opt.Release()
	return opt.Tensors(), nil
}

// nothing stands for the numbers of others where they do not matter.
func nothing(_ int, t buffers.Tensor) ([]byte, error) { return make([]byte, t.Bytes()), nil }

// copyShards is CopyToHost where replicas divide the update: the others hand what they remember to replica 0, tensor by tensor, in pieces.
func (s *TrainState) copyShards(ctx context.Context, run checkpoint.Run) (checkpoint.HostCopy, error) {
	fail := func(err error) (checkpoint.HostCopy, error) {
		return checkpoint.HostCopy{}, fmt.Errorf("state: copy of step %d: %w", s.own.Step, err)
	}
	if rank, _ := s.config.replicas(); rank > 0 {
		for _, r := range s.stages {
			for _, t := range r.State.Tensors() {
				raw, err := t.Read(ctx)
				if err == nil {
					err = s.deliver(ctx, rank, raw)
				}
				if err != nil {
					return fail(fmt.Errorf("%s: %w", t.Name, err))
				}
			}
		}
		return checkpoint.HostCopy{Step: s.own.Step}, nil
	}
	shot := s.snapshot()
	others, err := s.elsewhere(func(rank int, t buffers.Tensor) ([]byte, error) {
		raw := make([]byte, t.Bytes())
		return raw, s.deliver(ctx, rank, raw)
	})
	if err != nil {
		return fail(err)
	}
	for i, t := range others {
		raw, err := t.Read(ctx) // now, in the order in which they are sent
		if err != nil {
			return fail(fmt.Errorf("%s: %w", t.Name, err))
		}
		others[i].Read = func(context.Context) ([]byte, error) { return raw, nil }
	}
	shot.others = others
	return shot.CopyToHost(ctx, run)
}

// deliver hands bytes to replica 0.
func (s *TrainState) deliver(ctx context.Context, from int, raw []byte) error {
	for piece := range slices.Chunk(raw, deliverBytes) {
		if err := s.config.Reducer.Deliver(ctx, from, piece); err != nil {
			return fmt.Errorf("reduce: optimizer: %w", err)
		}
	}
	return nil
}

// saveShards is Save where replicas divide the update.
func (s *TrainState) saveShards(ctx context.Context, path string, run checkpoint.Run) error {
	all, err := s.copyShards(context.WithoutCancel(ctx), run)
	if rank, _ := s.config.replicas(); err != nil || rank > 0 {
		return err
	}
	return checkpoint.Commit(s.config.FS, path, all.Step, all.Sources)
}

// firstOfShards is FirstNonFinite where replicas divide the update: each looks through what it has, and the first of what they find is what all say.
func (s *TrainState) firstOfShards(ctx context.Context) (string, error) {
	shot := s.snapshot()
	var err error
	if shot.others, err = s.elsewhere(nothing); err != nil {
		return "", fmt.Errorf("state: scan: %w", err)
	}
	for i, grads := range shot.Grads {
		shot.Grads[i] = s.config.Own(grads)
	}
	own, err := shot.FirstNonFinite(ctx)
	if err != nil {
		return "", err
	}
	all, err := s.config.Reducer.Gather(ctx, []byte(own))
	if err != nil {
		return "", fmt.Errorf("state: scan: %w", err)
	}
	return firstOf(all), nil
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
