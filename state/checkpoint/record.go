package checkpoint

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"path/filepath"

	"gputrain/internal/stranger"
	"gputrain/run/data"
)

// Files of a checkpoint beside model.safetensors; that and config.json are in the Hugging Face layout.
const (
	ConfigFile    = "config.json"
	IndexFile     = "model.safetensors.index.json" // where the weights are in several files
	RecordFile    = "state.json"
	OptimizerFile = "optimizer.safetensors"
	OtherFile     = "other.safetensors" // where there are variables without gradients
)

// recordFormat is the version of state.json that this program writes and reads.
const recordFormat = 1

// Record is state.json: what a training state is beside its tensors. Two records of the same steps on the same adapter are the same bytes.
type Record struct {
	Format    int             `json:"format"`
	Step      int64           `json:"step"` // the state after this many updates
	Optimizer OptimizerRecord `json:"optimizer"`
	Frozen    []string        `json:"frozen,omitempty"` // paths of the parameters that are not trained, sorted
	Skipped   int64           `json:"skipped"`          // updates left out because loss or gradient was not finite
	// Memory is what the objective goes on from, by name.
	Memory  map[string]float64 `json:"memory,omitempty"`
	Adapter string             `json:"adapter"` // where the numbers were computed; others may round differently
	Run     Run                `json:"run"`
}

// OptimizerRecord says which transformation the tensors of optimizer.safetensors belong to.
type OptimizerRecord struct {
	Config    json.RawMessage  `json:"config,omitzero"`     // of a registered one: name, rates, schedule, numerics, parameters
	Transform string           `json:"transform,omitempty"` // the name of one that is not registered, and has no configuration
	Counts    map[string]int64 `json:"counts"`              // null where there is no optimizer
}

// Run is what a loop around a training state keeps with it.
type Run struct {
	Data data.State `json:"data"` // where the next batch begins
	// Fingerprint tells one text from another, "" where none is compared.
	Fingerprint string    `json:"fingerprint,omitempty"`
	Seed        uint64    `json:"seed"`
	Tokens      int64     `json:"tokens"`              // that counted in the loss so far
	Window      []float64 `json:"window,omitempty"`    // losses of the last steps, oldest first
	InARow      int64     `json:"in_a_row,omitempty"`  // updates skipped in a row up to this step
	BestStep    int64     `json:"best_step,omitempty"` // of the lowest validation loss
	BestLoss    float64   `json:"best_loss,omitempty"` // that loss, nats a token; no evaluation yet: BestStep 0
	EvalStep    int64     `json:"eval_step,omitempty"` // of the newest evaluation with a finite loss; none yet: 0
	EvalLoss    float64   `json:"eval_loss,omitempty"` // that loss
	Guard       *Guard    `json:"guard,omitempty"`     // of a loop that leaves out updates beyond the usual
	Scale       *Scale    `json:"scale,omitempty"`     // of the loss, with products of f16
	// MatrixUnits are those that products of f16 were made by, such as "16x16x16"; "": by none.
	MatrixUnits string `json:"matrix_units,omitempty"`
	// Temporary says that the checkpoint only bridges the time to the next one: Store.Rotate then removes it.
	Temporary bool `json:"temporary,omitempty"`
}

// Source is the file that a checkpoint keeps the record in, as it is now: what it refers to may go on changing.
func (r Record) Source() (Source, error) {
	r.Format = recordFormat
	text, err := indented(r)
	return TextFile(RecordFile, text), err
}

// ReadRecord reads the state.json of the checkpoint in dir. Verify has been, or is, the caller's business.
func ReadRecord(fsys FileSystem, dir string) (Record, error) {
	raw, err := readFile(fsys, filepath.Join(dir, RecordFile))
	if err != nil {
		return Record{}, loadError(dir, "%w", err)
	}
	var version struct {
		Format int `json:"format"`
	}
	if err := stranger.JSON(raw, &version); err != nil {
		return Record{}, loadError(dir, "%s: %v: %w", RecordFile, err, ErrCorrupt)
	}
	if version.Format != recordFormat {
		return Record{}, loadError(dir, "%s: format %d, want %d: %w", RecordFile, version.Format, recordFormat, ErrVersion)
	}
	var r Record
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil {
		return Record{}, loadError(dir, "%s: %v: %w", RecordFile, stranger.Words(err), ErrCorrupt)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return Record{}, loadError(dir, "%s: text after the object: %w", RecordFile, ErrCorrupt)
	}
	if r.Step < 0 {
		return Record{}, loadError(dir, "%s: step %d: %w", RecordFile, r.Step, ErrCorrupt)
	}
	return r, nil
}
