package state

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"gputrain/buffers"
	"gputrain/buffers/safetensors"
	"gputrain/model"
	"gputrain/optim"
)

// Snapshot is a training state as a checkpoint has it, wherever its tensors lie: on one device or over the stages of a pipeline, which the
// files do not tell apart. While a method runs no step is in flight.
type Snapshot struct {
	Definition    model.Definition
	Optimizer     optim.Config
	Step, Skipped int64
	Adapter       string          // AdapterName of all devices
	Params        []*buffers.Tree // f32; each parameter of the definition is in one of them
	Grads         []*buffers.Tree // of the last step, for FirstNonFinite; none where there are none
	States        []*optim.State  // of one transformation, in the same step
	FS            FileSystem      // of checkpoints; nil is OS
}

// Save writes the checkpoint directory path, whole or not at all, in the Hugging Face layout with the optimizer and the record beside it; run
// is what the loop wants to find again. A parameter or an optimizer value that is not finite is refused with ErrNonFinite, no room with a
// *SpaceError; every error is a *SaveError.
func (s Snapshot) Save(ctx context.Context, path string, run Run) error {
	sources, err := s.sources(ctx, run)
	if err != nil {
		return &SaveError{path, err}
	}
	return commit(s.fs(), path, s.Step, sources)
}

// CheckSpace tells whether a checkpoint below dir, which is there, would fit the disk: a *SaveError with a *SpaceError where it would not.
func (s Snapshot) CheckSpace(ctx context.Context, dir string) error {
	sources, err := s.sources(ctx, Run{})
	if err != nil {
		return &SaveError{dir, err}
	}
	wanted := uint64(spaceMargin)
	for _, f := range sources {
		wanted += f.bytes
	}
	if err := enough(s.fs(), dir, wanted); err != nil {
		return &SaveError{dir, err}
	}
	return nil
}

// FirstNonFinite names the first tensor that has an element that is not finite: parameters in the order of their paths
// ("params/h.0.ln_1.weight"), then gradients ("grads/..."), then the optimizer's in the order of their names. "" for none.
func (s Snapshot) FirstNonFinite(ctx context.Context) (string, error) {
	for _, kind := range []struct {
		name  string
		trees []*buffers.Tree
	}{{"params", s.Params}, {"grads", s.Grads}} {
		owners, err := leavesOf(kind.trees)
		if err != nil {
			return "", fmt.Errorf("state: scan: %s: %w", kind.name, err)
		}
		for _, path := range slices.Sorted(maps.Keys(owners)) {
			raw, err := owners[path].ReadRaw(ctx, path)
			if err != nil {
				return "", fmt.Errorf("state: scan: %w", err)
			}
			if finiteBytes(owners[path].DType(), raw) != nil {
				return kind.name + "/" + path, nil
			}
		}
	}
	tensors, err := tensorsOf(s.States)
	if err != nil {
		return "", fmt.Errorf("state: scan: %w", err)
	}
	for _, t := range tensors {
		raw, err := t.Read(ctx)
		if err != nil {
			return "", fmt.Errorf("state: scan: %w", err)
		}
		if finiteBytes(t.DType, raw) != nil {
			return t.Name, nil
		}
	}
	return "", nil
}

func (s Snapshot) fs() FileSystem {
	if s.FS == nil {
		return OS
	}
	return s.FS
}

// headerBytes is about what a tensor takes of a safetensors header and of the manifest.
const headerBytes = 400

// sources are the files of the checkpoint; tensors are read when their turn to be written comes.
func (s Snapshot) sources(ctx context.Context, run Run) ([]source, error) {
	config, err := model.ConfigJSON(s.Definition, "F32")
	if err != nil {
		return nil, err
	}
	weights, elements, err := s.weights(ctx)
	if err != nil {
		return nil, err
	}
	optimizer, stored, err := s.optimizerTensors(ctx)
	if err != nil {
		return nil, err
	}
	record, err := s.record(run)
	if err != nil {
		return nil, err
	}
	return []source{
		{configName, uint64(len(config)), func(w io.Writer) error { _, err := w.Write(config); return err }},
		{"model.safetensors", 4*elements + uint64(len(weights))*headerBytes, func(w io.Writer) error {
			return safetensors.Write(w, weights, model.Metadata())
		}},
		{optimizerName, stored + uint64(len(optimizer))*headerBytes, func(w io.Writer) error {
			return safetensors.Write(w, optimizer, nil)
		}},
		{recordName, 16 << 10, writeJSON(record)},
	}, nil
}

func (s Snapshot) record(run Run) (Record, error) {
	config, err := canonical(s.Optimizer)
	if err != nil {
		return Record{}, err
	}
	if len(s.States) == 0 {
		return Record{}, errors.New("optimizer: no state")
	}
	counts := s.States[0].Counts()
	for i, other := range s.States[1:] {
		if !maps.Equal(counts, other.Counts()) {
			return Record{}, fmt.Errorf("optimizer: counts %v in the first state, %v in state %d: they are not of one step", counts, other.Counts(), i+1)
		}
	}
	return Record{
		Format: recordFormat, Step: s.Step, Optimizer: OptimizerRecord{Config: config, Counts: counts},
		Skipped: s.Skipped, Adapter: s.Adapter, Run: run,
	}, nil
}

// weights are the parameters and the number of their elements.
func (s Snapshot) weights(ctx context.Context) (tensors []safetensors.Tensor, elements uint64, err error) {
	owners, err := leavesOf(s.Params)
	if err != nil {
		return nil, 0, fmt.Errorf("params: %w", err)
	}
	for _, p := range s.Definition.Params() {
		tree, ok := owners[p.Path]
		if !ok {
			return nil, 0, fmt.Errorf("params: %q is missing", p.Path)
		}
		leaf, _ := tree.Layout().Leaf(p.Path)
		elements += uint64(leaf.Elements())
	}
	tensors, err = model.Tensors(s.Definition, "F32", func(path string) ([]float32, error) {
		data, err := owners[path].Read(ctx, path)
		if err == nil {
			err = allFinite(data)
		}
		return data, err
	})
	return tensors, elements, err
}

// optimizerTensors are the optimizer's, "mu/h.0.ln_1.weight", in the type they are kept in, and their size in bytes.
func (s Snapshot) optimizerTensors(ctx context.Context) (tensors []safetensors.Tensor, stored uint64, err error) {
	whole, err := tensorsOf(s.States)
	if err != nil {
		return nil, 0, fmt.Errorf("optimizer: %w", err)
	}
	for _, t := range whole {
		dtype, err := storedType(t.DType)
		if err != nil {
			return nil, 0, fmt.Errorf("optimizer: %s: %w", t.Name, err)
		}
		size := uint64(t.DType.Bits()) / 8
		for _, d := range t.Shape {
			size *= uint64(d)
		}
		stored += size
		tensors = append(tensors, safetensors.Tensor{Name: t.Name, DType: dtype, Shape: t.Shape, Data: func(w io.Writer) error {
			raw, err := t.Read(ctx)
			if err != nil {
				return err
			}
			if err := finiteBytes(t.DType, raw); err != nil {
				return err
			}
			_, err = w.Write(raw)
			return err
		}})
	}
	return tensors, stored, nil
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
