package train

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"gputrain/buffers/safetensors"
	"gputrain/internal/ranks/mesh"
	"gputrain/model"
	"gputrain/run/data"
)

// referenceFile has, of a run whose objective reads a reference and which trains a model without adapters, the log-probabilities of all completions by the
// weights that the run began with: a tensor for the text that it learns and one for that which it evaluates.
const referenceFile = "reference.safetensors"

// readsReference tells whether the run has such a file.
func (c Config) readsReference() bool { return c.State.Objective.ReadsReference(c.State.Definition) }

// compared are the sources of rows that have a reference, by the names of their tensors.
func (c *Config) compared() map[string]*data.Source {
	all := map[string]*data.Source{"train": &c.Train}
	if c.evaluatesLoss() {
		all["validation"] = &c.Validation
	}
	return all
}

// openReference reads the file, or where there is none computes what it has by the weights that the run began with, and lays it beside the rows. begun: they are
// those of the state, as it is new.
func (t *opening) openReference(ctx context.Context, begun bool) error {
	if !begun {
		if err := t.sameReference(); err != nil {
			return err
		}
	}
	if !t.config.readsReference() {
		return nil
	}
	var raw []byte
	var err error
	if t.config.leads() && !begun {
		if raw, err = os.ReadFile(t.dir.join(referenceFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return dirError(t.config.Dir, err)
		}
	}
	if t.config.Ranks != nil {
		if raw, err = mesh.Share(ctx, t.config.Ranks, "log-probabilities by the reference", raw); err != nil {
			return err
		}
	}
	if len(raw) > 0 {
		return t.layReference(raw)
	}
	if begun {
		return t.computeReference(ctx, t.state)
	}
	return t.referenceAgain(ctx)
}

// referenceAgain computes the file of a run that goes on without it: by the weights that it began with, never by present ones.
func (t *opening) referenceAgain(ctx context.Context) error {
	c := t.config
	t.say("warning: %s is missing: it is computed again by the weights that the run began with", referenceFile)
	if err := t.sameOrigin(referenceFile + " is missing, and "); err != nil {
		return err
	}
	first, err := t.team.target.Create(ctx, c.State, c.Params)
	if err != nil {
		return err
	}
	defer first.Release()
	return t.computeReference(ctx, first)
}

// sameReference refuses to go on with another reference in the network.
func (t *opening) sameReference() error {
	if !model.Refers(t.config.State.Definition) {
		return nil
	}
	return t.sameOrigin("")
}

// sameOrigin refuses to go on where a reference would be of other weights than the run began with.
func (t *opening) sameOrigin(because string) error {
	c := t.config
	if !c.leads() || c.From == "" {
		return nil
	}
	e, err := t.earlierRecord()
	if err != nil {
		return err
	}
	if found, err := c.origin(); err != nil || found != e.Origin {
		return errors.Join(err, fmt.Errorf("train: run directory %q: %smodel.from or lora.from has other weights than the run began with, which its reference is of: "+
			"found %s, wanted %s; bring them back, or start over with --fresh", c.Dir, because, found, e.Origin))
	}
	return nil
}

// computeReference computes the log-probabilities of all rows by a state, writes them, and lays them beside the rows.
func (t *opening) computeReference(ctx context.Context, by State) error {
	c, began := &t.config, time.Now()
	var tensors []safetensors.Tensor
	rows, per, group := 0, int64(c.State.Objective.PerWindow(c.State.Sequence)), model.Objective{Loss: c.State.Objective.Loss}.Row().Group
	for name, source := range c.compared() {
		e, err := data.NewEvaluation(*source, c.State.Sequence, c.State.Evaluation, 0)
		if err == nil { // nothing is known of the reference yet, and nothing of it is asked
			*source, err = beside(*source, c.State.Sequence, make([]float32, per*e.Windows()))
		}
		if err == nil {
			e, err = data.NewEvaluation(*source, c.State.Sequence, c.State.Evaluation, 0)
		}
		if err != nil {
			return fmt.Errorf("train: reference: %w", err)
		}
		losses, err := by.BatchLosses(ctx, e)
		if err != nil {
			return fmt.Errorf("train: reference: %w", err)
		}
		var values []float32
		for _, l := range losses {
			values = append(values, l.Rows...)
			rows += l.Tokens * group
		}
		values = values[:per*e.Windows()]
		tensors = append(tensors, safetensors.Float32s(name, []int{len(values)}, values))
	}
	var file bytes.Buffer
	if err := safetensors.Write(&file, tensors, c.referenceOf()); err != nil {
		return err
	}
	t.say("reference: log-probabilities of %d completions by the weights that the run begins with, in %.1f s", rows, time.Since(began).Seconds())
	t.reference = file.Bytes()
	return t.layReference(t.reference)
}

// referenceOf is what the numbers in the file are of.
func (c Config) referenceOf() map[string]string { return referenceOf(c.Fingerprint, c.State.Sequence) }

func referenceOf(fingerprint string, context int) map[string]string {
	return map[string]string{"format": "pt", "text": fingerprint, "context": strconv.Itoa(context)}
}

// parseReference reads a file of log-probabilities, and compares what they are of.
func parseReference(raw []byte, of map[string]string) (*safetensors.File, error) {
	f, err := safetensors.Parse(raw)
	if err != nil {
		return nil, err
	}
	for key, wanted := range of {
		if found := f.Metadata()[key]; found != wanted {
			return nil, fmt.Errorf("%s: found %q, wanted %q", key, found, wanted)
		}
	}
	return f, nil
}

// Referred is the validation text of the run in dir, of a fingerprint and in windows of so many tokens, with what the run's reference says of it beside.
func Referred(dir, fingerprint string, context int, validation data.Source) (of data.Source, err error) {
	raw, err := os.ReadFile(filepath.Join(dir, referenceFile))
	var f *safetensors.File
	if err == nil {
		f, err = parseReference(raw, referenceOf(fingerprint, context))
	}
	var values []float32
	if err == nil {
		values, err = f.Float32("validation")
	}
	if err == nil {
		of, err = beside(validation, context, values)
	}
	if err != nil {
		return nil, fmt.Errorf("train: run directory %q: %s: %w", dir, referenceFile, err)
	}
	return of, nil
}

// layReference lays what the file says beside the rows.
func (t *opening) layReference(raw []byte) error {
	c := &t.config
	wrong := func(err error) error {
		return fmt.Errorf("train: run directory %q: %s: %w; without it, it is computed again by the weights that the run began with", c.Dir, referenceFile, err)
	}
	f, err := parseReference(raw, c.referenceOf())
	if err != nil {
		return wrong(err)
	}
	for name, source := range c.compared() {
		values, err := f.Float32(name)
		if err == nil {
			*source, err = beside(*source, c.State.Sequence, values)
		}
		if err != nil {
			return wrong(err)
		}
	}
	return nil
}

// beside lays log-probabilities by the reference beside the rows of a source.
func beside(source data.Source, context int, values []float32) (data.Source, error) {
	of, ok := source.(data.Labelled)
	if !ok {
		return nil, errors.New("found a text that no reference can be laid beside, wanted rows of pairs")
	}
	return of.With(context, model.InputReference, values)
}

// recordReference writes the file, where it was computed now.
func (t *opening) recordReference() error {
	if t.reference == nil {
		return nil
	}
	return t.dir.replace(referenceFile, t.reference)
}
