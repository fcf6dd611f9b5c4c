package state

import (
	"context"
	"fmt"
	"io"

	"gputrain/buffers"
	"gputrain/buffers/safetensors"
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
		return &NonFiniteError{Tensor: t.scan, Element: i}
	}
	_, err = w.Write(raw)
	return err
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

// weights are the parameters, named as in the Hugging Face layout.
func (s Snapshot) weights() ([]stored, error) {
	owners, err := leavesOf(s.Params)
	if err != nil {
		return nil, err
	}
	named, err := model.Tensors(s.Definition, "F32", nil)
	if err != nil {
		return nil, err
	}
	var out []stored
	for i, p := range s.Definition.Params() {
		tree, ok := owners[p.Path]
		if !ok {
			return nil, fmt.Errorf("%q is missing", p.Path)
		}
		if tree.DType() != buffers.F32 {
			return nil, fmt.Errorf("%q: dtype %v, want f32", p.Path, tree.DType())
		}
		t := leafOf(tree, p.Path, "params")
		t.Tensor = named[i]
		out = append(out, t)
	}
	return out, nil
}

// optimizer are the optimizer's tensors, "mu/h.0.ln_1.weight", in the type they are kept in.
func (s Snapshot) optimizer() ([]stored, error) {
	whole, err := tensorsOf(s.States)
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

// leafOf is a leaf of a tree, which is one of kind.
func leafOf(tree *buffers.Tree, path, kind string) stored {
	return stored{
		scan: kind + "/" + path, dtype: tree.DType(),
		read: func(ctx context.Context) ([]byte, error) { return tree.ReadRaw(ctx, path) },
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

// tensorsOf are the whole tensors of states that may each have some of their rows.
func tensorsOf(states []*optim.State) ([]buffers.Tensor, error) {
	var pieces []buffers.Tensor
	for _, s := range states {
		pieces = append(pieces, s.Tensors()...)
	}
	return buffers.Join(pieces)
}
