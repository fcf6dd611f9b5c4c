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
	"gputrain/buffers/safetensors"
	"gputrain/checkpoint"
	"gputrain/gpu"
	"gputrain/internal/suggest"
	"gputrain/model"
	"gputrain/optim"
)

// stored is a tensor as a file of a checkpoint has it, but for Data, and the way to its bytes.
type stored struct {
	safetensors.Tensor
	scan  string // what FirstNonFinite calls it
	dtype buffers.DType
	read  func(ctx context.Context) ([]byte, error)
}

// write reads the tensor and writes it, unless an element is not finite.
func (t stored) write(ctx context.Context, w io.Writer) error {
	raw, err := t.read(ctx)
	if err != nil {
		return err
	}
	if i := nonFinite(t.dtype, raw); i >= 0 {
		return &checkpoint.NonFiniteError{Tensor: t.scan, Element: i}
	}
	if kept, err := storedType(t.dtype); err != nil || kept == t.DType {
		_, err = w.Write(raw)
		return err
	}
	kept := buffers.Tensor{Name: t.Name, DType: t.dtype, Shape: t.Shape, Read: func(context.Context) ([]byte, error) { return raw, nil }}
	floats, err := kept.Floats(ctx)
	if err != nil {
		return err
	}
	return model.WriteFloats(w, t.DType, floats)
}

// tensorsIn are tensors to be written, each read when its turn comes.
func tensorsIn(ctx context.Context, list []stored) []safetensors.Tensor {
	var out []safetensors.Tensor
	for _, t := range list {
		t.Data = func(w io.Writer) error { return t.write(ctx, w) }
		out = append(out, t.Tensor)
	}
	return out
}

// tensors are all that a checkpoint has.
type tensors struct{ weights, other, optimizer []stored }

func (s Snapshot) tensors() (t tensors, err error) {
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

// weights are the parameters, named as in the Hugging Face layout where there is a definition.
func (s Snapshot) weights() ([]stored, error) {
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
func (s Snapshot) named(all []stored) ([]stored, error) {
	byPath := map[string]stored{}
	for _, t := range all {
		byPath[t.Name] = t
	}
	names, err := model.Tensors(s.Definition, "F32", nil)
	if err != nil {
		return nil, err
	}
	if s.adapted() && s.Base == nil {
		return nil, errors.New("found adapters and no base, wanted the directory of the model that they belong to: Config.Base")
	}
	var out []stored
	for i, p := range s.Definition.Params() {
		t, ok := byPath[p.Path]
		switch {
		case s.Base != nil && slices.Contains(s.Frozen, p.Path):
			continue
		case !ok:
			return nil, fmt.Errorf("%q is missing", p.Path)
		case t.dtype != buffers.F32 && (t.dtype != buffers.BF16 || !slices.Contains(s.Frozen, p.Path)):
			return nil, fmt.Errorf("%q: dtype %v, want f32", p.Path, t.dtype)
		}
		if t.Tensor = names[i]; s.adapted() {
			t.Tensor.Name = p.Path
		}
		out = append(out, t)
	}
	return out, nil
}

// optimizer are the optimizer's tensors, "mu/h.0.ln_1.weight", in the type they are kept in.
func (s Snapshot) optimizer() ([]stored, error) {
	whole, err := wholeOf(s.States, s.pieces)
	if err != nil {
		return nil, err
	}
	var out []stored
	for _, t := range whole {
		dtype, err := storedType(t.DType)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", t.Name, err)
		}
		out = append(out, stored{
			Tensor: safetensors.Tensor{Name: t.Name, DType: dtype, Shape: t.Shape},
			scan:   t.Name, dtype: t.DType, read: t.Read,
		})
	}
	return out, nil
}

// leaves are those of trees, of some kind, in the order of their paths and named by them.
func (s Snapshot) leaves(trees []*buffers.Tree, kind string) ([]stored, error) {
	owners, err := leavesOf(trees)
	if err != nil {
		return nil, err
	}
	var out []stored
	for _, path := range slices.Sorted(maps.Keys(owners)) {
		tree := owners[path]
		kept, read := tree.DType(), func(ctx context.Context) ([]byte, error) { return tree.ReadRaw(ctx, path) }
		switch kept {
		case buffers.NF4Nested: // what it stands for is not nested to the same again
			kept, read = buffers.F32, func(context.Context) ([]byte, error) {
				return nil, errors.New("found it in nf4-nested and no base, wanted the directory that has it, Config.Base, or nf4")
			}
		case buffers.NF4: // saved as what it stands for, which is quantized to the same codes and maxima again
			kept, read = buffers.F32, func(ctx context.Context) ([]byte, error) {
				data, err := tree.Read(ctx, path)
				return gpu.Bytes(data), err
			}
		}
		dtype, err := storedType(kept)
		if err != nil {
			return nil, err
		}
		leaf, _ := tree.Layout().Leaf(path)
		one := stored{
			Tensor: safetensors.Tensor{Name: path, DType: dtype, Shape: leaf.Shape},
			scan:   kind + "/" + path, dtype: kept, read: read,
		}
		if s.carry != nil {
			one.read = s.carry(0, s.stages[tree], int(kept.Bytes(uint64(leaf.Elements()))), one.read)
		}
		out = append(out, one)
	}
	return out, nil
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
