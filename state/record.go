package state

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"gputrain/data"
)

// Files of a checkpoint beside model.safetensors and config.json, which are in the Hugging Face layout.
const (
	recordName    = "state.json"
	optimizerName = "optimizer.safetensors"
)

// recordFormat is the version of state.json that this program writes and reads.
const recordFormat = 1

// Record is state.json: what a training state is beside its tensors. Two records of the same steps on the same adapter are the same bytes.
type Record struct {
	Format    int             `json:"format"`
	Step      int64           `json:"step"` // the state after this many updates
	Optimizer OptimizerRecord `json:"optimizer"`
	Skipped   int64           `json:"skipped"` // updates left out because loss or gradient was not finite
	Adapter   string          `json:"adapter"` // where the numbers were computed; others may round differently
	Run       Run             `json:"run"`
}

// OptimizerRecord says which transformation the tensors of optimizer.safetensors belong to.
type OptimizerRecord struct {
	Name     string           `json:"name"`
	Config   json.RawMessage  `json:"config,omitempty"` // of the registered builder: rates, schedule, numerics
	Chain    string           `json:"chain"`            // the transformation as it names itself
	Counts   map[string]int64 `json:"counts"`
	Trees    []string         `json:"trees"`
	Numerics string           `json:"numerics,omitempty"`
}

// Run is what a loop around a training state keeps with it.
type Run struct {
	Data     data.State `json:"data"` // where the next batch begins
	Seed     uint64     `json:"seed"`
	Tokens   int64      `json:"tokens"`              // that counted in the loss so far
	Window   []float64  `json:"window,omitempty"`    // losses of the last steps, oldest first
	InARow   int64      `json:"in_a_row,omitempty"`  // updates skipped in a row up to this step
	BestStep int64      `json:"best_step,omitempty"` // of the lowest validation loss
	BestLoss float64    `json:"best_loss,omitempty"` // that loss, nats a token; no evaluation yet: BestStep 0
}

// ReadRecord reads the state.json of the checkpoint in dir. Verify has been, or is, the caller's business.
func ReadRecord(fsys FileSystem, dir string) (Record, error) {
	raw, err := readFile(fsys, filepath.Join(dir, recordName))
	if err != nil {
		return Record{}, fmt.Errorf("state: load %q: %w", dir, err)
	}
	var version struct {
		Format int `json:"format"`
	}
	if err := json.Unmarshal(raw, &version); err != nil {
		return Record{}, fmt.Errorf("state: load %q: %s: %v: %w", dir, recordName, err, ErrCorrupt)
	}
	if version.Format != recordFormat {
		return Record{}, fmt.Errorf("state: load %q: %s: format %d, want %d: %w", dir, recordName, version.Format, recordFormat, ErrVersion)
	}
	var r Record
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil {
		return Record{}, fmt.Errorf("state: load %q: %s: %v: %w", dir, recordName, err, ErrCorrupt)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return Record{}, fmt.Errorf("state: load %q: %s: text after the object: %w", dir, recordName, ErrCorrupt)
	}
	if r.Step < 0 {
		return Record{}, fmt.Errorf("state: load %q: %s: step %d: %w", dir, recordName, r.Step, ErrCorrupt)
	}
	return r, nil
}
