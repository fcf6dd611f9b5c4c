package state

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"

	"gputrain/buffers"
	"gputrain/buffers/safetensors"
	"gputrain/gpu"
	"gputrain/hub"
	"gputrain/model"
	"gputrain/optim"
	"gputrain/state/checkpoint"
)

// savedTrees are the trees of a checkpoint, in its files.
type savedTrees struct {
	definition model.Definition // nil: the checkpoint has none
	frozen     []string         // parameters of the definition that are not trained
	weights    *model.Stored    // of the definition
	files      *hub.Bundle      // that have the weights, or params
	params     *treeFiles       // where there is none
	other      *treeFiles       // nil: none
}

// openTrees finds the trees of a checkpoint, with those parameters frozen.
func openTrees(dir string, frozen []string) (s *savedTrees, err error) {
	s = &savedTrees{frozen: frozen, files: hub.Open(dir).Trained()}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	if present(dir, checkpoint.ConfigFile) {
		if s.definition, s.weights, err = s.files.Partial(nil); err != nil {
			return nil, err
		}
	} else {
		files, err := s.files.WeightFiles()
		if err != nil {
			return nil, err
		}
		if s.params, err = openTree("params", files...); err != nil {
			return nil, err
		}
	}
	if present(dir, checkpoint.OtherFile) {
		s.other, err = openTree("other", filepath.Join(dir, checkpoint.OtherFile))
	}
	return s, err
}

// Close closes the files.
func (s *savedTrees) Close() {
	s.files.Close()
	s.params.Close()
	s.other.Close()
}

// load makes the trees of those leaves that are here on a device, which has none of them after an error.
func (s *savedTrees) load(dev *gpu.Device, here func(path string) bool) (r Resident, err error) {
	defer func() {
		if err != nil {
			Fields{Stages: []Resident{r}}.releaseUnless(Fields{})
			r = Resident{}
		}
	}()
	if s.definition != nil {
		hosts, _ := s.weights.Params(0)
		hosts = slices.DeleteFunc(hosts, func(h buffers.Host) bool { return !here(h.Path) })
		r.Params, r.Frozen, err = Job{Config{Definition: s.definition, Frozen: s.frozen}}.upload(dev, hosts)
	} else {
		r.Params, err = s.params.load(dev, here)
	}
	if err == nil && s.other != nil {
		r.Other, err = s.other.load(dev, here)
	}
	return r, err
}

func present(dir, name string) bool {
	_, err := checkpoint.OS.Size(filepath.Join(dir, name))
	return !errors.Is(err, fs.ErrNotExist)
}

// treeFiles are the files that have the leaves of a tree, all of one type.
type treeFiles struct {
	label  string
	files  []*safetensors.File
	stored string // the type, in the words of safetensors
	specs  []buffers.Spec
	owners map[string]*safetensors.File
}

func openTree(label string, paths ...string) (_ *treeFiles, err error) {
	t := &treeFiles{label: label, owners: map[string]*safetensors.File{}}
	defer func() {
		if err != nil {
			t.Close()
		}
	}()
	for _, path := range paths {
		f, err := safetensors.Open(path)
		if err != nil {
			return nil, err
		}
		t.files = append(t.files, f)
		for _, name := range f.Names() {
			dtype, shape, _ := f.Info(name)
			if t.stored != "" && dtype != t.stored {
				return nil, fmt.Errorf("%s: tensor %q: found %s, wanted %s as the others: %w", filepath.Base(path), name, dtype, t.stored, checkpoint.ErrMismatch)
			}
			t.stored, t.owners[name] = dtype, f
			t.specs = append(t.specs, buffers.Spec{Path: name, Shape: shape})
		}
	}
	return t, nil
}

// Close closes the files.
func (t *treeFiles) Close() {
	if t == nil {
		return
	}
	for _, f := range t.files {
		f.Close()
	}
}

// load makes a tree of those leaves that are here, of the type that the files have, but for F16, which is widened; nil where others are
// elsewhere and none is here.
func (t *treeFiles) load(dev *gpu.Device, here func(path string) bool) (*buffers.Tree, error) {
	specs := slices.DeleteFunc(slices.Clone(t.specs), func(s buffers.Spec) bool { return !here(s.Path) })
	if len(specs) == 0 && len(t.specs) > 0 {
		return nil, nil
	}
	dtype := buffers.F32
	for _, d := range []buffers.DType{buffers.BF16, buffers.I32, buffers.U32} {
		if d.Format().File == t.stored {
			dtype = d
		}
	}
	layout, err := buffers.NewLayout(specs, dev.Limits())
	if err != nil {
		return nil, err
	}
	tree, err := buffers.NewTree(dev, t.label, layout, dtype)
	if err != nil || dev.Dry() {
		return tree, err
	}
	for _, s := range specs {
		if err := loadLeaf(tree, s.Path, t.owners[s.Path]); err != nil {
			tree.Release()
			return nil, fmt.Errorf("tensor %q: %w", s.Path, err)
		}
	}
	return tree, nil
}

// loadOther makes the tree of a checkpoint's variables without gradients, all of them on a device.
func loadOther(dev *gpu.Device, dir string) (*buffers.Tree, error) {
	files, err := openTree("other", filepath.Join(dir, checkpoint.OtherFile))
	if err != nil {
		return nil, err
	}
	defer files.Close()
	return files.load(dev, everywhere)
}

// everywhere is said of leaves that all go to one device.
func everywhere(string) bool { return true }

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

// Save writes the value to the checkpoint directory path, whole or not at all: what TrainState.Save writes, other.safetensors beside it where there
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
func (f Fields) snapshot(stages []Resident) snapshot {
	params, frozen, other := trees(stages)
	return snapshot{
		Definition: model.Student(f.Definition), Optimizer: f.Optimizer, Transform: f.Transform.Name(), Step: f.Step, Skipped: f.Skipped, Memory: f.Memory, Adapter: AdapterName(devices(stages)...),
		Params: append(params, frozen...), Frozen: saved(pathsOf(frozen...)), Other: other, States: states(stages),
	}
}
