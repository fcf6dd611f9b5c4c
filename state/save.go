package state

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"path/filepath"

	"gputrain/buffers"
	"gputrain/buffers/safetensors"
	"gputrain/gpu"
	"gputrain/model"
)

const configName = "config.json"

func manifestPath(dir string) string { return filepath.Join(dir, manifestName) }

// Save writes the state of this step to the checkpoint directory path, whole or not at all, in the Hugging Face layout with the optimizer
// and the record beside it; run is what the loop wants to find again. It waits for the steps in flight. A parameter or an optimizer value
// that is not finite is refused with ErrNonFinite, no room with a *SpaceError; every error but these of the device is a *SaveError.
func (s *TrainState) Save(ctx context.Context, path string, run Run) error {
	if s.broken != nil {
		return &SaveError{path, fmt.Errorf("the state is not usable after: %w", s.broken)}
	}
	ctx = context.WithoutCancel(ctx)
	if err := s.read(ctx, 0); err != nil {
		s.broken = err
		return fmt.Errorf("state: save %q: %w", path, err)
	}
	sources, err := s.sources(ctx, run)
	if err != nil {
		return &SaveError{path, err}
	}
	return commit(s.config.FS, path, s.step, sources)
}

// CheckSpace tells, before training begins, whether a checkpoint below dir, which is there, would fit the disk: a *SaveError with a
// *SpaceError where it would not.
func (s *TrainState) CheckSpace(ctx context.Context, dir string) error {
	sources, err := s.sources(ctx, Run{})
	if err != nil {
		return &SaveError{dir, err}
	}
	wanted := uint64(spaceMargin)
	for _, f := range sources {
		wanted += f.bytes
	}
	if err := enough(s.config.FS, dir, wanted); err != nil {
		return &SaveError{dir, err}
	}
	return nil
}

// headerBytes is about what a tensor takes of a safetensors header and of the manifest.
const headerBytes = 400

func (s *TrainState) sources(ctx context.Context, run Run) ([]source, error) {
	config, err := model.ConfigJSON(s.def, "F32")
	if err != nil {
		return nil, err
	}
	weights, err := model.Tensors(s.def, "F32", func(path string) ([]float32, error) {
		data, err := s.params.Read(ctx, path)
		if err == nil {
			err = allFinite(data)
		}
		return data, err
	})
	if err != nil {
		return nil, err
	}
	optimizer, stored, err := s.optimizerTensors(ctx)
	if err != nil {
		return nil, err
	}
	record := Record{
		Format: recordFormat, Step: s.step, Optimizer: OptimizerRecord{Config: s.config.Optimizer, Counts: s.opt.Counts()},
		Skipped: s.skipped, Adapter: AdapterName(s.device), Run: run,
	}
	leaves := uint64(len(weights))
	elements := uint64(s.params.Layout().Elements())
	return []source{
		{configName, uint64(len(config)), func(w io.Writer) error { _, err := w.Write(config); return err }},
		{"model.safetensors", 4*elements + leaves*headerBytes, func(w io.Writer) error {
			return safetensors.Write(w, weights, model.Metadata())
		}},
		{optimizerName, stored + uint64(len(optimizer))*headerBytes, func(w io.Writer) error {
			return safetensors.Write(w, optimizer, nil)
		}},
		{recordName, 16 << 10, writeJSON(record)},
	}, nil
}

// optimizerTensors are the optimizer's, "mu/h.0.ln_1.weight", in the type they are kept in, and their size in bytes.
func (s *TrainState) optimizerTensors(ctx context.Context) (tensors []safetensors.Tensor, stored uint64, err error) {
	for _, t := range s.opt.Tensors() {
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

// storedType is a tree's type in the words of safetensors.
func storedType(d buffers.DType) (string, error) {
	switch d {
	case buffers.F32:
		return "F32", nil
	case buffers.BF16:
		return "BF16", nil
	case buffers.I32:
		return "I32", nil
	case buffers.U32:
		return "U32", nil
	}
	return "", fmt.Errorf("dtype %v: not known to safetensors", d)
}

func allFinite(data []float32) error {
	for i, v := range data {
		if math.Float32bits(v)&0x7f800000 == 0x7f800000 {
			return fmt.Errorf("element %d is %v: %w", i, v, ErrNonFinite)
		}
	}
	return nil
}

// finiteBytes is allFinite for a leaf as a tree keeps it; in f32 and bf16 alike the upper half of an element has the exponent.
func finiteBytes(d buffers.DType, raw []byte) error {
	size := d.Bits() / 8
	if d != buffers.F32 && d != buffers.BF16 {
		return nil
	}
	for i := size - 2; i < len(raw); i += size {
		if raw[i+1]&0x7f == 0x7f && raw[i]&0x80 == 0x80 {
			return fmt.Errorf("element %d: %w", i/size, ErrNonFinite)
		}
	}
	return nil
}

// FirstNonFinite waits for the steps in flight and names the first tensor that has an element that is not finite: parameters in the
// order of their paths ("params/h.0.ln_1.weight"), then the last gradients ("grads/..."), then the optimizer's. "" for none.
func (s *TrainState) FirstNonFinite(ctx context.Context) (string, error) {
	ctx = context.WithoutCancel(ctx)
	if err := s.read(ctx, 0); err != nil {
		return "", fmt.Errorf("state: scan: %w", err)
	}
	for _, t := range []struct {
		name string
		tree *buffers.Tree
	}{{"params", s.params}, {"grads", s.grads}} {
		for _, leaf := range t.tree.Layout().Leaves() {
			raw, err := t.tree.ReadRaw(ctx, leaf.Path)
			if err != nil {
				return "", fmt.Errorf("state: scan: %w", err)
			}
			if finiteBytes(t.tree.DType(), raw) != nil {
				return t.name + "/" + leaf.Path, nil
			}
		}
	}
	for _, t := range s.opt.Tensors() {
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

// firstDifference compares two JSON values and names the first key, in order, in which they differ; found and wanted are JSON, "" where
// the key is absent.
func firstDifference(found, wanted []byte) (key, foundValue, wantedValue string, err error) {
	var a, b any
	if err := json.Unmarshal(found, &a); err != nil {
		return "", "", "", err
	}
	if err := json.Unmarshal(wanted, &b); err != nil {
		return "", "", "", err
	}
	key, foundValue, wantedValue = differ("", a, b)
	return key, foundValue, wantedValue, nil
}

func differ(at string, a, b any) (key, found, wanted string) {
	x, isX := a.(map[string]any)
	y, isY := b.(map[string]any)
	if !isX || !isY {
		p, q := jsonText(a), jsonText(b)
		if bytes.Equal(p, q) {
			return "", "", ""
		}
		return at, string(p), string(q)
	}
	for _, k := range unionOfKeys(x, y) {
		inner := k
		if at != "" {
			inner = at + "." + k
		}
		u, hasU := x[k]
		v, hasV := y[k]
		switch {
		case !hasU:
			return inner, "", string(jsonText(v))
		case !hasV:
			return inner, string(jsonText(u)), ""
		}
		if key, found, wanted := differ(inner, u, v); key != "" {
			return key, found, wanted
		}
	}
	return "", "", ""
}

// AdapterName tells adapters and their drivers apart, wherever they stand in the list.
func AdapterName(dev *gpu.Device) string {
	a := dev.Adapter()
	return fmt.Sprintf("%s, %s, %s", a.Name, a.Backend, a.Driver)
}
