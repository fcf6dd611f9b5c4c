package state

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"

	"gputrain/buffers/safetensors"
	"gputrain/gpu"
	"gputrain/model"
	"gputrain/optim"
)

// Load restores a state to the bits that Save wrote, and returns the record that was saved with it. Definition and Optimizer may be left out of
// the configuration: the checkpoint's own are used. Where they are given and differ the error wraps ErrMismatch and names the first
// difference; a file or tensor that is not as it was written is ErrCorrupt.
func Load(ctx context.Context, dev *gpu.Device, c Config, dir string) (*TrainState, Record, error) {
	c = c.withDefaults()
	if err := Verify(c.FS, dir); err != nil {
		return nil, Record{}, err
	}
	record, err := ReadRecord(c.FS, dir)
	if err != nil {
		return nil, record, err
	}
	if c, err = c.reconcile(dir, record); err != nil {
		return nil, record, err
	}
	hosts, err := model.ReadWeights(dir, c.Definition)
	if err != nil {
		return nil, record, loadError(dir, "%w", err)
	}
	s, err := CreateFrom(ctx, dev, c, hosts)
	if err != nil {
		return nil, record, err
	}
	if err := s.restore(dir, record); err != nil {
		s.Release()
		return nil, record, loadError(dir, "%w", err)
	}
	return s, record, nil
}

// reconcile fills in what the configuration leaves out and compares the rest.
func (c Config) reconcile(dir string, record Record) (Config, error) {
	saved, err := model.ReadConfig(dir)
	if err != nil {
		return c, loadError(dir, "%w", err)
	}
	if c.Definition == nil {
		c.Definition = saved
		c = c.withDefaults()
	}
	found, err := model.ConfigJSON(saved, "F32")
	if err != nil {
		return c, loadError(dir, "%w", err)
	}
	wanted, err := model.ConfigJSON(c.Definition, "F32")
	if err != nil {
		return c, loadError(dir, "%w", err)
	}
	if err := mismatch(dir, "model", found, wanted); err != nil {
		return c, err
	}
	if c.Optimizer.Name == "" {
		c.Optimizer = record.Optimizer.Config
		return c, nil
	}
	stored, err := canonical(record.Optimizer.Config)
	if err != nil {
		return c, loadError(dir, "%s: %w", recordName, err)
	}
	if c.Optimizer, err = canonical(c.Optimizer); err != nil {
		return c, err
	}
	return c, mismatch(dir, "optimizer", jsonText(stored), jsonText(c.Optimizer))
}

// canonical is an optimizer's configuration with every parameter written out.
func canonical(c optim.Config) (optim.Config, error) {
	raw, err := json.Marshal(c)
	if err != nil {
		return c, fmt.Errorf("state: optimizer: %w", err)
	}
	return optim.ParseConfig(raw)
}

func mismatch(dir, what string, found, wanted []byte) error {
	key, f, w, err := firstDifference(found, wanted)
	if err != nil {
		return loadError(dir, "%s: %w", what, err)
	}
	if key == "" {
		return nil
	}
	show := func(s string) string {
		if s == "" {
			return "nothing"
		}
		return s
	}
	return loadError(dir, "%s: %s: found %s, wanted %s: %w", what, key, show(f), show(w), ErrMismatch)
}

// restore puts the optimizer's state and the counts in place.
func (s *TrainState) restore(dir string, record Record) error {
	f, err := safetensors.Open(filepath.Join(dir, optimizerName))
	if err != nil {
		return fmt.Errorf("%w: %w", err, ErrCorrupt)
	}
	defer f.Close()
	known := map[string]bool{}
	for _, t := range s.opt.Tensors() {
		dtype, err := storedType(t.DType)
		if err != nil {
			return err
		}
		known[t.Name] = true
		stored, shape, ok := f.Info(t.Name)
		switch {
		case !ok:
			return fmt.Errorf("%s: tensor %q is missing: %w", optimizerName, t.Name, ErrMismatch)
		case stored != dtype || !slices.Equal(shape, t.Shape):
			return fmt.Errorf("%s: tensor %q: %s %v, want %s %v: %w", optimizerName, t.Name, stored, shape, dtype, t.Shape, ErrMismatch)
		}
		section, err := f.Bytes(t.Name)
		if err != nil {
			return err
		}
		raw := make([]byte, section.Size())
		if _, err := io.ReadFull(section, raw); err != nil {
			return fmt.Errorf("%s: tensor %q: %w", optimizerName, t.Name, err)
		}
		if err := t.Write(raw); err != nil {
			return fmt.Errorf("%s: tensor %q: %w", optimizerName, t.Name, err)
		}
	}
	for _, name := range f.Names() {
		if !known[name] {
			return fmt.Errorf("%s: tensor %q is not one of this optimizer's: %w", optimizerName, name, ErrMismatch)
		}
	}
	if err := s.opt.SetCounts(record.Optimizer.Counts); err != nil {
		return fmt.Errorf("%s: %w: %w", recordName, err, ErrMismatch)
	}
	s.step, s.skipped = record.Step, record.Skipped
	return nil
}

func unionOfKeys(a, b map[string]any) []string {
	keys := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	slices.Sort(keys)
	return slices.Compact(keys)
}

// jsonText is v in JSON; v came out of it.
func jsonText(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("state: a JSON value that cannot be written: %v", err))
	}
	return text
}
