package state

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"gputrain/buffers"
	"gputrain/buffers/safetensors"
	"gputrain/hub"
	"gputrain/model"
	"gputrain/optim"
	"gputrain/state/checkpoint"
)

// savedState is a whole checkpoint, read but for the optimizer's tensors. It does not know how many stages wrote it, or how many will go on
// from it.
type savedState struct {
	Dir    string
	Job    Job // of the given configuration, with what that left out
	Record checkpoint.Record
	Params []buffers.Host // in the order of the definition, to be read from the files until Close

	files *hub.Bundle
}

// Close closes the files of the parameters.
func (c *savedState) Close() error { return c.files.Close() }

// ReadCheckpoint verifies and reads the checkpoint in dir. Definition and Optimizer may be left out of the configuration, and Frozen with the latter: the
// checkpoint's own are used. Where they are given and differ the error wraps checkpoint.ErrMismatch and names the first difference; a file or tensor that is not
// as it was written is checkpoint.ErrCorrupt.
func ReadCheckpoint(c Config, dir string) (*savedState, error) {
	out, err := Job{c}.complete().readOptimizer(dir)
	if err != nil {
		return nil, err
	}
	out.files = hub.OpenOn(dir, c.BaseAt).Trained()
	weights, err := out.files.Weights(model.Student(out.Job.Definition))
	if err != nil {
		return nil, errors.Join(loadError(dir, "%w", err), out.Close())
	}
	out.Params, _ = weights.Params(0)
	if out.Job.BaseRecord = weights.Base(); out.Job.BaseRecord == nil {
		out.Job, err = out.Job.leftToBase(out.Params)
	}
	if err != nil {
		return nil, errors.Join(loadError(dir, "%w", err), out.Close())
	}
	return out, nil
}

// HasOther tells whether the checkpoint has variables without gradients, as one of a Value may.
func (c *savedState) HasOther() bool { return present(c.Dir, checkpoint.OtherFile) }

// readOptimizer is ReadCheckpoint without the parameters: for Restore alone.
func (j Job) readOptimizer(dir string) (*savedState, error) {
	record, err := verified(j.FS, dir)
	if err != nil {
		return nil, err
	}
	if j, err = j.reconcile(dir, record); err != nil {
		return nil, err
	}
	return &savedState{Dir: dir, Job: j, Record: record}, nil
}

// verified is what a checkpoint says of itself, after a look at all of its files.
func verified(fs checkpoint.FileSystem, dir string) (checkpoint.Record, error) {
	if err := checkpoint.Verify(fs, dir); err != nil {
		return checkpoint.Record{}, err
	}
	return checkpoint.ReadRecord(fs, dir)
}

// Restore puts the optimizer's tensors and counts into states that together are those of the whole model. A tensor that is missing, of
// another type or shape, or none of theirs is an error that wraps checkpoint.ErrMismatch; what the states then hold is not defined.
func (c *savedState) Restore(states ...*optim.State) error { return c.restorePart(states, nil) }

// restorePart is Restore of states that are not those of the whole model: pieces are all of it, and those of other states are neither read nor written.
func (c *savedState) restorePart(states []*optim.State, pieces []buffers.Tensor) error {
	if err := c.restore(states, pieces); err != nil {
		return loadError(c.Dir, "%w", err)
	}
	return nil
}

func (c *savedState) restore(states []*optim.State, pieces []buffers.Tensor) error {
	f, err := safetensors.Open(filepath.Join(c.Dir, checkpoint.OptimizerFile))
	if err != nil {
		return fmt.Errorf("%w: %w", err, checkpoint.ErrCorrupt)
	}
	defer f.Close()
	c.count(states)
	tensors, err := wholeOf(states, pieces)
	if err != nil {
		return err
	}
	known, own := map[string]bool{}, map[string]bool{}
	for _, s := range states {
		for _, t := range s.Tensors() {
			own[t.Name] = true
		}
	}
	for _, t := range tensors {
		known[t.Name] = true
		if err := restoreTensor(f, t, own[t.Name], c.Job.PieceBytes); err != nil {
			return fmt.Errorf("%s: tensor %q: %w", checkpoint.OptimizerFile, t.Name, err)
		}
	}
	for _, name := range f.Names() {
		if !known[name] {
			return fmt.Errorf("%s: tensor %q is not one of this optimizer's: %w", checkpoint.OptimizerFile, name, checkpoint.ErrMismatch)
		}
	}
	for _, s := range states {
		if err := s.SetCounts(c.Record.Optimizer.Counts); err != nil {
			return fmt.Errorf("%s: %w: %w", checkpoint.RecordFile, err, checkpoint.ErrMismatch)
		}
	}
	return nil
}

// count gives states the counts of the checkpoint, which say what tensors there are; what does not count alike is refused with the tensors.
func (c *savedState) count(states []*optim.State) {
	for _, s := range states {
		_ = s.SetCounts(c.Record.Optimizer.Counts)
	}
}

// restoreTensor checks that a tensor is there, and writes it if it is wanted, about so many bytes at a time.
func restoreTensor(f *safetensors.File, t buffers.Tensor, wanted bool, piece int) error {
	dtype := t.DType.Format().File
	stored, shape, ok := f.Info(t.Name)
	switch {
	case !ok:
		return fmt.Errorf("missing: %w", checkpoint.ErrMismatch)
	case stored != dtype || !slices.Equal(shape, t.Shape):
		return fmt.Errorf("%s %v, want %s %v: %w", stored, shape, dtype, t.Shape, checkpoint.ErrMismatch)
	}
	if !wanted {
		return nil
	}
	section, err := f.Bytes(t.Name)
	if err != nil {
		return err
	}
	step := t.Bytes()
	if t.WriteAt != nil && step > 0 && len(t.Shape) > 0 {
		rows := 4 * step / t.Shape[0] // four rows, which are whole words of any type
		step = min(step, max(1, piece/rows)*rows)
	}
	raw := make([]byte, step)
	for at := 0; ; at += step {
		part := raw[:min(step, t.Bytes()-at)]
		if _, err := io.ReadFull(section, part); err != nil {
			return err
		}
		if len(part) == t.Bytes() {
			return t.Write(part)
		}
		if err := t.WriteAt(part, at); err != nil || at+len(part) == t.Bytes() {
			return err
		}
	}
}

// modelJSON is what a model is: without the tokens that end its answers, which a run may teach it.
func modelJSON(def model.Definition) ([]byte, error) {
	return model.ConfigEnding(model.TextPart(def), "F32", []int32{})
}

// reconcileModel fills in the definition, or compares it.
func (j Job) reconcileModel(dir string, files *hub.Bundle) (Job, error) {
	saved, err := files.Definition()
	if err != nil {
		return j, loadError(dir, "%w", err)
	}
	if j.Definition == nil {
		j.Definition = saved
		j = j.complete()
	}
	own := model.Student(j.Definition)
	for _, part := range []struct {
		name string
		json func(model.Definition) ([]byte, error)
	}{{"model", modelJSON}, {"adapters", adaptersJSON}} {
		found, err := part.json(saved)
		if err != nil {
			return j, loadError(dir, "%w", err)
		}
		wanted, err := part.json(own)
		if err != nil {
			return j, loadError(dir, "%w", err)
		}
		if err := sameJSON(part.name, found, wanted); err != nil && !model.Same(saved, own) {
			return j, loadError(dir, "%w", err)
		}
	}
	return j, nil
}

// reconcile fills in what the configuration leaves out and compares the rest.
func (j Job) reconcile(dir string, record checkpoint.Record) (Job, error) {
	files := hub.OpenOn(dir, j.BaseAt)
	j, err := j.reconcileModel(dir, files)
	if err = errors.Join(err, files.Close()); err != nil {
		return j, err
	}
	stored, err := SavedOptimizer(record)
	if err != nil {
		return j, loadError(dir, "%w", err)
	}
	if j.Optimizer.Name == "" && slices.Equal(j.Frozen, Frozen(j.Definition, nil)) {
		j.Frozen = Frozen(j.Definition, record.Frozen)
	}
	if err := sameFrozen(record.Frozen, saved(j.Frozen)); err != nil {
		return j, loadError(dir, "%w", err)
	}
	if j.Optimizer.Name == "" {
		j.Optimizer = stored
		return j, nil
	}
	if stored.Name == "" {
		return j, loadError(dir, "%s: optimizer: found no registered one, wanted %s: %w", checkpoint.RecordFile, j.Optimizer.Name, checkpoint.ErrMismatch)
	}
	if j.Optimizer, err = canonical(j.Optimizer.Following(stored)); err != nil {
		return j, err
	}
	if j.Reschedule {
		stored.Options.Schedule = j.Optimizer.Options.Schedule
	}
	if err := sameOptimizer(stored, j.Optimizer); err != nil {
		return j, loadError(dir, "%w", err)
	}
	return j, nil
}

// sameOptimizer compares a saved configuration with the one that is wanted, each with every parameter written out.
func sameOptimizer(saved, wanted optim.Config) error {
	saved, err := canonical(saved)
	if err != nil {
		return fmt.Errorf("%s: %w", checkpoint.RecordFile, err)
	}
	if wanted, err = canonical(wanted); err != nil {
		return err
	}
	return sameJSON("optimizer", jsonText(saved), jsonText(wanted))
}

// SavedOptimizer is the configuration of the optimizer whose state a checkpoint has, with the edition that a record without one means; its zero
// value where that is no registered one, or there is none.
func SavedOptimizer(record checkpoint.Record) (c optim.Config, err error) {
	if record.Optimizer.Config == nil {
		return c, nil
	}
	d := json.NewDecoder(bytes.NewReader(record.Optimizer.Config))
	d.DisallowUnknownFields()
	if err := d.Decode(&c); err != nil {
		return c, fmt.Errorf("%s: optimizer: %w: %w", checkpoint.RecordFile, err, checkpoint.ErrCorrupt)
	}
	return c.AsRecorded(), nil
}

// canonical is an optimizer's configuration with every parameter written out.
func canonical(c optim.Config) (optim.Config, error) {
	raw, err := json.Marshal(c)
	if err != nil {
		return c, fmt.Errorf("state: optimizer: %w", err)
	}
	return optim.ParseConfig(raw)
}

// sameJSON names the first key in which two values differ: checkpoint.ErrMismatch.
func sameJSON(what string, found, wanted []byte) error {
	key, f, w, err := firstDifference(found, wanted)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	if key == "" {
		return nil
	}
	return fmt.Errorf("%s: %s: found %s, wanted %s: %w", what, key, cmp.Or(f, "nothing"), cmp.Or(w, "nothing"), checkpoint.ErrMismatch)
}
