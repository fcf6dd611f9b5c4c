package state

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"

	"gputrain/buffers"
	"gputrain/buffers/safetensors"
	"gputrain/model"
	"gputrain/optim"
	"gputrain/state/checkpoint"
)

// snapshot is a training state as a checkpoint has it, wherever its tensors lie: on one device or over the stages of a pipeline, which the
// files do not tell apart. While a method runs no step is in flight.
type snapshot struct {
	Definition    model.Definition // nil: weights have the names of their leaves, and there is no config.json
	Optimizer     optim.Config     // its zero value: Transform is no registered one, or there is none
	Transform     string           // its name, where Optimizer has none
	Step, Skipped int64
	Memory        map[string]float64    // of the objective
	Adapter       string                // AdapterName of all devices
	Params        []*buffers.Tree       // each parameter of the definition, f32, is in one of them
	Frozen        []string              // paths of those that are not trained, sorted
	Base          *model.Base           // that has the frozen ones, which are then not saved; nil: all are
	FrozenAs      buffers.DType         // how the frozen ones are saved: F32, or BF16 where they are kept so
	Other         []*buffers.Tree       // variables without gradients
	Grads         []*buffers.Tree       // of the last step, for FirstNonFinite; none where there are none
	States        []*optim.State        // of one transformation, in the same step; none where nothing is remembered
	DType         string                // "F32", "BF16" or "F16": how the weights are saved; "": as they are kept
	Ends          []int32               // tokens that end an answer, for config.json; nil: those of the definition
	Companions    []checkpoint.Source   // files for other programs, such as those of the tokenizer
	FS            checkpoint.FileSystem // nil is checkpoint.OS

	pieces     []buffers.Tensor                             // of the optimizer's, where other processes have some; nil: those of States
	carry      func(replica, stage int, read reader) reader // of parameters, where other processes have some; nil: none have
	stages     map[*buffers.Tree]int                        // of the parameters
	staging    *staging                                     // nil: one of its own
	shardBytes uint64                                       // weights that take more are in several files; 0: as Hugging Face does it
}

// Save is TrainState.Save of what is known. Every error is a *checkpoint.SaveError.
func (s snapshot) Save(ctx context.Context, path string, run checkpoint.Run) error {
	sources, err := s.sources(ctx, run)
	if err != nil {
		return &checkpoint.SaveError{Path: path, Err: err}
	}
	return checkpoint.Commit(s.fs(), path, s.Step, sources)
}

// CheckSpace tells whether so many checkpoints below dir, which is there, would fit the disk, as checkpoint.Store does.
func (s snapshot) CheckSpace(ctx context.Context, dir string, count int) (each, free uint64, err error) {
	sources, err := s.sources(ctx, checkpoint.Run{})
	if err != nil {
		return 0, 0, &checkpoint.SaveError{Path: dir, Err: err}
	}
	return checkpoint.Store{FS: s.fs(), Dir: dir}.CheckSpace(sources, count)
}

// FirstNonFinite is that of a TrainState.
func (s snapshot) FirstNonFinite(ctx context.Context) (string, error) {
	var all []*stored
	for _, kind := range []struct {
		name  string
		trees []*buffers.Tree
	}{{"params", s.Params}, {"grads", s.Grads}, {"other", s.Other}} {
		list, err := s.leaves(kind.trees, kind.name)
		if err != nil {
			return "", fmt.Errorf("state: scan: %s: %w", kind.name, err)
		}
		all = append(all, list...)
	}
	optimizer, err := s.optimizer()
	if err != nil {
		return "", fmt.Errorf("state: scan: %w", err)
	}
	through := s.withStaging().staging
	for _, t := range append(all, optimizer...) {
		found := false
		err := t.each(ctx, through, func(raw []byte, _ int) error {
			found = found || nonFinite(t.dtype, raw) >= 0
			return nil
		})
		if err != nil {
			return "", fmt.Errorf("state: scan: %w", err)
		}
		if found {
			return t.scan, nil
		}
	}
	return "", nil
}

// withStaging is the snapshot with memory that its tensors are read through.
func (s snapshot) withStaging() snapshot {
	if s.staging == nil {
		s.staging = &staging{piece: stagingBytes}
	}
	return s
}

// stored is the definition as the checkpoint has it: what stands alone, without the base that may have other parts beside a network of text, is a model of
// its own.
func (s snapshot) stored() model.Definition {
	if s.Base == nil {
		return model.TextPart(s.Definition)
	}
	return s.Definition
}

func (s snapshot) fs() checkpoint.FileSystem {
	if s.FS == nil {
		return checkpoint.OS
	}
	return s.FS
}

// headerBytes is about what a tensor takes of a safetensors header and of the manifest.
const headerBytes = 400

// sources are the files of the checkpoint; tensors are read when their turn to be written comes.
func (s snapshot) sources(ctx context.Context, run checkpoint.Run) ([]checkpoint.Source, error) {
	t, err := s.tensors()
	if err != nil {
		return nil, err
	}
	return s.files(ctx, t, run)
}

// files are the sources of a checkpoint of these tensors.
func (s snapshot) files(ctx context.Context, t tensors, run checkpoint.Run) ([]checkpoint.Source, error) {
	s = s.withStaging()
	record, err := s.record(run)
	if err != nil {
		return nil, err
	}
	recordSource, err := record.Source()
	if err != nil {
		return nil, err
	}
	out, err := s.modelFiles(ctx, t.weights)
	if err != nil {
		return nil, err
	}
	if s.Definition != nil {
		config, err := model.ConfigEnding(s.stored(), cmp.Or(s.DType, "F32"), s.Ends)
		if err != nil {
			return nil, err
		}
		out = append(out, checkpoint.TextFile(checkpoint.ConfigFile, config))
	}
	if s.Base != nil {
		text, err := s.Base.Text()
		if err != nil {
			return nil, err
		}
		out = append(out, checkpoint.TextFile(model.BaseFile, text))
	}
	if len(s.Other) > 0 {
		out = append(out, safetensorsFile(checkpoint.OtherFile, s.tensorsIn(ctx, t.other), nil))
	}
	if len(s.States) > 0 {
		out = append(out, safetensorsFile(checkpoint.OptimizerFile, s.tensorsIn(ctx, t.optimizer), nil))
	}
	return append(append(out, s.Companions...), recordSource), nil
}

// modelFiles are those of the weights: adapters as other programs read them, or a model.
func (s snapshot) modelFiles(ctx context.Context, weights []*stored) (out []checkpoint.Source, err error) {
	if s.adapted() {
		config, err := model.AdapterConfig(s.Definition, s.Base.Directory)
		if err != nil {
			return nil, err
		}
		out = append(out, checkpoint.TextFile(model.AdapterConfigFile, config))
	}
	shards, index, err := s.shards(ctx, weights)
	if err != nil {
		return nil, err
	}
	for _, shard := range shards {
		out = append(out, safetensorsFile(shard.Name, shard.Tensors, model.Metadata()))
	}
	if index != nil {
		out = append(out, checkpoint.TextFile(checkpoint.IndexFile, index))
	}
	return out, nil
}

// shards divide the weights over files; those of adapters are one.
func (s snapshot) shards(ctx context.Context, weights []*stored) (shards []safetensors.Shard, index []byte, err error) {
	list := s.tensorsIn(ctx, weights)
	if s.adapted() {
		return []safetensors.Shard{{Name: model.AdapterWeightsFile, Tensors: list}}, nil, nil
	}
	return safetensors.Split("model", list, s.shardBytes)
}

func safetensorsFile(name string, tensors []safetensors.Tensor, metadata map[string]string) checkpoint.Source {
	bytes := uint64(0)
	for _, t := range tensors {
		bytes += t.Bytes() + headerBytes
	}
	return checkpoint.Source{Name: name, Bytes: bytes, Write: func(w io.Writer) error { return safetensors.Write(w, tensors, metadata) }}
}

func (s snapshot) record(run checkpoint.Run) (checkpoint.Record, error) {
	out := checkpoint.Record{Step: s.Step, Skipped: s.Skipped, Memory: s.Memory, Frozen: s.Frozen, Adapter: s.Adapter, Run: run}
	if len(s.States) == 0 {
		if name := cmp.Or(s.Optimizer.Name, s.Transform); name != "" {
			return out, fmt.Errorf("optimizer: no state of %s", name)
		}
		return out, nil
	}
	out.Optimizer.Transform = s.Transform
	if s.Optimizer.Name != "" {
		config, err := canonical(s.Optimizer)
		if err != nil {
			return out, err
		}
		out.Optimizer = checkpoint.OptimizerRecord{Config: jsonText(config)}
	}
	counts := s.States[0].Counts()
	for i, other := range s.States[1:] {
		if !maps.Equal(counts, other.Counts()) {
			return out, fmt.Errorf("optimizer: counts %v in the first state, %v in state %d: they are not of one step", counts, other.Counts(), i+1)
		}
	}
	out.Optimizer.Counts = counts
	return out, nil
}
