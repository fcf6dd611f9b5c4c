package state

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"gputrain/buffers"
	"gputrain/buffers/array"
	"gputrain/buffers/safetensors"
	"gputrain/internal/suggest"
	"gputrain/model"
	"gputrain/optim"
	"gputrain/state/checkpoint"
)

// stored is a tensor as a file of a checkpoint has it, but for Data, and the way to its bytes.
type stored struct {
	safetensors.Tensor
	scan  string // what FirstNonFinite calls it
	dtype buffers.DType
	bytes int  // as it is kept
	whole bool // it is only to be had at once
	read  reader

	still  bool      // it is the host's, and nothing changes it: no copy is made
	copy   *hostCopy // that has its bytes; nil: none has
	copyAt int
}

// write reads the tensor and writes it, a piece at a time, unless an element is not finite.
func (t *stored) write(ctx context.Context, w io.Writer, through *staging) error {
	narrowed := t.dtype.Format().File != t.DType
	return t.each(ctx, through, func(raw []byte, at int) error {
		if i := nonFinite(t.dtype, raw); i >= 0 {
			return &checkpoint.NonFiniteError{Tensor: t.scan, Element: at/(t.dtype.Bits()/8) + i}
		}
		if !narrowed {
			_, err := w.Write(raw)
			return err
		}
		return model.WriteFloats(w, t.DType, array.Decoded(t.dtype, raw))
	})
}

// tensorsIn are tensors to be written, each read when its turn comes.
func (s snapshot) tensorsIn(ctx context.Context, list []*stored) []safetensors.Tensor {
	var out []safetensors.Tensor
	for _, t := range list {
		one := t.Tensor
		one.Data = func(w io.Writer) error { return t.write(ctx, w, s.staging) }
		out = append(out, one)
	}
	return out
}

// tensors are all that a checkpoint has.
type tensors struct{ weights, other, optimizer []*stored }

// bytes are those of a copy.
func (t tensors) bytes() (sum uint64) {
	for _, one := range slices.Concat(t.weights, t.other, t.optimizer) {
		if !one.still {
			sum += uint64(one.bytes)
		}
	}
	return sum
}

func (s snapshot) tensors() (t tensors, err error) {
	if t.weights, err = s.weights(); err != nil {
		return t, fmt.Errorf("params: %w", err)
	}
	if t.other, err = s.leaves(s.Other, "other"); err != nil {
		return t, fmt.Errorf("other: %w", err)
	}
	if t.optimizer, err = s.optimizer(); err != nil {
		return t, fmt.Errorf("optimizer: %w", err)
	}
	return t, nil
}

// inOrder are the tensors in the order in which the files are written: all processes read them in this one.
func (s snapshot) inOrder(t tensors) (out []*stored, err error) {
	byName := map[string]*stored{}
	for _, one := range t.weights {
		byName[one.Name] = one
	}
	shards, _, err := s.shards(context.Background(), t.weights)
	for _, shard := range shards {
		for _, one := range slices.SortedFunc(slices.Values(shard.Tensors), func(a, b safetensors.Tensor) int { return strings.Compare(a.Name, b.Name) }) {
			out = append(out, byName[one.Name])
		}
	}
	return slices.Concat(out, t.other, t.optimizer), err
}

// weights are the parameters, named as in the Hugging Face layout where there is a definition.
func (s snapshot) weights() ([]*stored, error) {
	out, err := s.leaves(s.Params, "params")
	if err != nil {
		return nil, err
	}
	if s.Definition != nil {
		if out, err = s.named(out); err != nil {
			return nil, err
		}
	}
	if s.DType != "" {
		if known := []string{"F32", "BF16", "F16"}; !slices.Contains(known, s.DType) {
			return nil, fmt.Errorf("dtype: found %q, wanted one of %s%s", s.DType, strings.Join(known, ", "), suggest.DidYouMean(strings.ToUpper(s.DType), known))
		}
		for i := range out {
			out[i].DType = s.DType
		}
	}
	return out, nil
}

// named are the weights of the definition, in its order.
func (s snapshot) named(all []*stored) ([]*stored, error) {
	byPath := map[string]*stored{}
	for _, t := range all {
		byPath[t.Name] = t
	}
	names, err := model.Tensors(s.stored(), "F32", nil)
	if err != nil {
		return nil, err
	}
	if s.adapted() && s.Base == nil {
		return nil, errors.New("found adapters and no base, wanted the directory of the model that they belong to: Config.Base")
	}
	var out []*stored
	frozen := setOf(s.Frozen)
	for i, p := range s.Definition.Params() {
		t, ok := byPath[p.Path]
		switch {
		case s.Base != nil && frozen[p.Path]:
			continue
		case !ok:
			return nil, fmt.Errorf("%q is missing", p.Path)
		case t.dtype != buffers.F32 && (t.dtype != buffers.BF16 || !frozen[p.Path]):
			return nil, fmt.Errorf("%q: dtype %v, want f32", p.Path, t.dtype)
		}
		t.Tensor = names[i]
		if t.dtype == buffers.BF16 && s.FrozenAs == buffers.BF16 {
			t.DType = "BF16"
		}
		out = append(out, t)
	}
	return out, nil
}

// optimizer are the optimizer's tensors, "mu/h.0.ln_1.weight", in the type they are kept in.
func (s snapshot) optimizer() (out []*stored, err error) {
	whole, err := wholeOf(s.States, s.pieces)
	if err != nil {
		return nil, err
	}
	for _, t := range whole {
		out = append(out, newStored(t, t.Name))
	}
	return out, nil
}

// leaves are those of trees, of some kind, in the order of their paths and named by them.
func (s snapshot) leaves(trees []*buffers.Tree, kind string) (out []*stored, err error) {
	owners, err := leavesOf(trees)
	if err != nil {
		return nil, err
	}
	for _, path := range slices.Sorted(maps.Keys(owners)) {
		tree := owners[path]
		leaf, _ := tree.Layout().Leaf(path)
		one := newStored(tree.Tensor(path, leaf), kind+"/"+path)
		one.still = leaf.Table && s.carry == nil
		if d := tree.DType(); d.Format().File == "" {
			one.read = func(context.Context, []byte, int) error {
				return fmt.Errorf("found it in %v and no base, wanted the directory that has it, Config.Base, or %s", d, d.Format().Load)
			}
		}
		if s.carry != nil {
			one.read = s.carry(0, s.stages[tree], one.read)
		}
		out = append(out, one)
	}
	return out, nil
}

// newStored is a tensor in the type that it is kept in.
func newStored(t buffers.Tensor, scan string) *stored {
	return &stored{
		Tensor: safetensors.Tensor{Name: t.Name, DType: t.DType.Format().File, Shape: t.Shape},
		scan:   scan, dtype: t.DType, bytes: t.Bytes(), whole: t.ReadAt == nil, read: t.Fill,
	}
}

// leavesOf finds the tree of each path; one that is in two trees is refused.
func leavesOf(trees []*buffers.Tree) (map[string]*buffers.Tree, error) {
	owners := map[string]*buffers.Tree{}
	for _, tree := range trees {
		for _, leaf := range tree.Layout().Leaves() {
			if owners[leaf.Path] != nil {
				return nil, fmt.Errorf("%q is in two trees", leaf.Path)
			}
			owners[leaf.Path] = tree
		}
	}
	return owners, nil
}

// wholeOf are the whole tensors of pieces; nil: of states.
func wholeOf(states []*optim.State, pieces []buffers.Tensor) ([]buffers.Tensor, error) {
	if pieces != nil {
		return buffers.Join(pieces)
	}
	return tensorsOf(states)
}

// tensorsOf are the whole tensors of states that may each have some of their rows.
func tensorsOf(states []*optim.State) ([]buffers.Tensor, error) {
	var pieces []buffers.Tensor
	for i, s := range states {
		if s.Released() {
			return nil, fmt.Errorf("state %d of the optimizer is released", i)
		}
		pieces = append(pieces, s.Tensors()...)
	}
	return buffers.Join(pieces)
}
