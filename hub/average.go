package hub

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"gputrain/buffers/array"
	"gputrain/buffers/safetensors"
)

// A checkpoint of a run with optimizer.average has the trained weights and, apart from them, their mean. Whoever reads it gets what the run has evaluated: the
// trained weights with the share of the mean in them. A run that goes on reads the trained ones alone.

// Files of a checkpoint that tell of a mean, and what the names of its tensors begin with.
const (
	recordFile    = "state.json"
	optimizerFile = "optimizer.safetensors"
	averagePrefix = "average/"
)

// Trained is b with the weights that are trained, not those that are evaluated.
func (b *Bundle) Trained() *Bundle {
	b.trained = true
	return b
}

// Average is the share that the mean of the weights has in those that b gives; 0: it has none.
func (b *Bundle) Average() (blend float64, err error) {
	mean, blend, err := b.average()
	if len(mean) == 0 {
		blend = 0
	}
	return blend, err
}

// average finds the mean by path, and its share.
func (b *Bundle) average() (mean map[string]array.Tensor, blend float64, err error) {
	if b.mean != nil || b.trained || b.isGGUF || !b.Has(recordFile) {
		return b.mean, b.blend, nil
	}
	raw, err := b.ReadFile(recordFile)
	var record struct {
		Optimizer struct {
			Config struct {
				Options struct {
					Average *struct {
						From  int64   `json:"from"`
						Blend float64 `json:"blend"`
					} `json:"average"`
				} `json:"options"`
			} `json:"config"`
			Counts map[string]int64 `json:"counts"`
		} `json:"optimizer"`
	}
	if err == nil {
		err = json.Unmarshal(raw, &record)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("%s: %w (%s)", recordFile, err, b.path)
	}
	average := record.Optimizer.Config.Options.Average
	if average == nil || record.Optimizer.Counts["updates"] < average.From {
		return nil, 0, nil
	}
	f, err := safetensors.Open(b.Path(optimizerFile))
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("found no %s, wanted it for the mean of the weights that %s tells of: %w (%s)", optimizerFile, recordFile, fs.ErrNotExist, b.path)
	}
	if err != nil {
		return nil, 0, err
	}
	b.AtClose(f.Close)
	b.mean, b.blend = map[string]array.Tensor{}, average.Blend
	for _, t := range f.Tensors() {
		if path, ok := strings.CutPrefix(t.Path, averagePrefix); ok {
			b.mean[path] = t
		}
	}
	return b.mean, b.blend, nil
}
