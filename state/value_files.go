package state

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"gputrain/buffers"
	"gputrain/buffers/safetensors"
	"gputrain/checkpoint"
	"gputrain/gpu"
	"gputrain/model"
	"gputrain/optim"
)

// loadTrees makes the trees of a checkpoint, with those parameters frozen, and finds the definition where it has one. After an error the fields
// have the trees that were made.
func loadTrees(dev *gpu.Device, dir string, frozen []string) (f Fields, err error) {
	if present(dir, checkpoint.ConfigFile) {
		var weights *model.Stored
		if f.Definition, weights, err = model.OpenPartial(dir, nil); err != nil {
			return f, err
		}
		defer weights.Close()
		hosts, _ := weights.Params(0)
		if f.Params, f.Frozen, err = (Config{Definition: f.Definition, Frozen: frozen}).upload(dev, hosts); err != nil {
			return Fields{}, err
		}
	} else {
		files, err := model.WeightFiles(dir)
		if err != nil {
			return f, err
		}
		if f.Params, err = loadTree(dev, "params", files...); err != nil {
			return f, err
		}
	}
	if present(dir, checkpoint.OtherFile) {
		f.Other, err = loadTree(dev, "other", filepath.Join(dir, checkpoint.OtherFile))
	}
	return f, err
}

func present(dir, name string) bool {
	_, err := checkpoint.OS.Size(filepath.Join(dir, name))
	return !errors.Is(err, fs.ErrNotExist)
}

// loadTree makes a tree of all tensors in files, of the type that they all have; F16 is widened.
func loadTree(dev *gpu.Device, label string, paths ...string) (*buffers.Tree, error) {
	owners := map[string]*safetensors.File{}
	var specs []buffers.Spec
	stored := ""
	for _, path := range paths {
		f, err := safetensors.Open(path)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		for _, name := range f.Names() {
			dtype, shape, _ := f.Info(name)
			if stored != "" && dtype != stored {
				return nil, fmt.Errorf("%s: tensor %q: found %s, wanted %s as the others: %w", filepath.Base(path), name, dtype, stored, checkpoint.ErrMismatch)
			}
			stored, owners[name] = dtype, f
			specs = append(specs, buffers.Spec{Path: name, Shape: shape})
		}
	}
	dtype := buffers.F32
	for _, d := range []buffers.DType{buffers.BF16, buffers.I32, buffers.U32} {
		if name, _ := storedType(d); name == stored {
			dtype = d
		}
	}
	layout, err := buffers.NewLayout(specs, dev.Limits())
	if err != nil {
		return nil, err
	}
	tree, err := buffers.NewTree(dev, label, layout, dtype)
	if err != nil {
		return nil, err
	}
	for _, s := range specs {
		if err := loadLeaf(tree, s.Path, owners[s.Path]); err != nil {
			tree.Release()
			return nil, fmt.Errorf("tensor %q: %w", s.Path, err)
		}
	}
	return tree, nil
}

func loadLeaf(tree *buffers.Tree, path string, from *safetensors.File) error {
	if tree.DType() == buffers.F32 {
		data, err := from.Float32(path)
		if err != nil {
			return err
		}
		return tree.Write(path, data)
	}
	section, err := from.Bytes(path)
	if err != nil {
		return err
	}
	raw, err := io.ReadAll(section)
	if err != nil {
		return err
	}
	return tree.WriteRaw(path, raw)
}

// SaveOptions say what of a value is saved, and how.
type SaveOptions struct {
	Run              checkpoint.Run // what a loop wants to find again
	WithoutOptimizer bool           // leave the optimizer state out
	DType            string         // of the weights: "F32", "BF16" or "F16", as an export has them; "": as the tree keeps them, with every bit
}

// Save writes the value to the checkpoint directory path, whole or not at all: what Snapshot.Save writes, other.safetensors beside it where there
// are other variables, and no config.json where there is no definition. It waits for the device. Every error is a *checkpoint.SaveError.
func (v Value) Save(ctx context.Context, path string, o SaveOptions) error {
	h, err := v.use("save")
	if err != nil {
		return &checkpoint.SaveError{Path: path, Err: err}
	}
	shot := h.snapshot(h.residents())
	shot.DType = o.DType
	if o.WithoutOptimizer || len(shot.States) == 0 {
		shot.Optimizer, shot.Transform, shot.States = optim.Config{}, "", nil
	}
	return shot.Save(ctx, path, o.Run)
}

// snapshot is what the fields say and stages have, as a checkpoint has it.
func (f Fields) snapshot(stages []Resident) Snapshot {
	params, frozen, other := trees(stages)
	return Snapshot{
		Definition: f.Definition, Optimizer: f.Optimizer, Transform: f.Transform.Name(), Step: f.Step, Skipped: f.Skipped, Adapter: AdapterName(devices(stages)...),
		Params: append(params, frozen...), Frozen: Paths(frozen...), Other: other, States: states(stages),
	}
}
