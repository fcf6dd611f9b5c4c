package main

import (
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"

	"gputrain/buffers"
	"gputrain/model"
	"gputrain/optim"
	"gputrain/state"
	"gputrain/train"
	"gputrain/train/runfile"
)

// weights are the parameters that a run begins with.
type weights struct {
	params []buffers.Host // nil: all are drawn from the seed
	drawn  []string       // those of them that model.from lacks
}

// definition is the model that a run file describes, with its parameters where
// it takes them from a directory.
func definition(cfg *runfile.Config) (model.Definition, weights, error) {
	m, none := cfg.Model, weights{}
	if m.From != "" {
		dir, release, err := holdModel(m.From)
		if err != nil {
			return nil, none, err
		}
		defer release()
		def, params, drawn, err := model.ReadPartial(dir, m.AllowMissing, cfg.Train.Seed)
		var pattern *model.PatternError
		if errors.As(err, &pattern) {
			return nil, none, usageError{fmt.Errorf("run file: model.allow_missing (%s): %w", cfg.Origin("model.allow_missing"), err)}
		}
		if err != nil {
			return nil, none, modelError{err}
		}
		if def, err = model.WithDropout(def, m.Dropout); err != nil {
			return nil, none, usageError{err}
		}
		if def, err = quantized(cfg, def); err != nil {
			return nil, none, usageError{err}
		}
		return def, weights{params, drawn}, nil
	}
	vocab := m.Vocab
	if vocab == 0 {
		vocab = map[string]int{"bytes": 256, "u16": 1 << 16}[cfg.Data.Tokens]
		if end := cfg.Data.EOS; end != nil && cfg.Data.Tokens == "bytes" {
			vocab = max(vocab, *end+1)
		}
	}
	var def model.Definition
	var err error
	switch m.Kind {
	case "gpt2":
		def, err = model.NewGPT2(model.GPT2Config{
			Layers: m.Layers, Heads: m.Heads, Width: m.Width, Vocab: vocab, Context: m.Context, Intermediate: m.Intermediate,
			EmbeddingDropout: m.Dropout, ResidualDropout: m.Dropout,
		})
	case "llama":
		def, err = model.NewLlama(model.LlamaConfig{
			Layers: m.Layers, Heads: m.Heads, KVHeads: m.KVHeads, Width: m.Width, Vocab: vocab, Context: m.Context, Intermediate: m.Intermediate,
			RopeTheta: m.RopeTheta, Tied: m.TieHead,
		})
		if err == nil {
			def, err = model.WithDropout(def, m.Dropout)
		}
	}
	if err == nil {
		def, err = quantized(cfg, def)
	}
	if err != nil {
		return nil, none, usageError{err}
	}
	return def, none, nil
}

// quantized is def with the quantization that a run file describes, or none.
func quantized(cfg *runfile.Config, def model.Definition) (model.Definition, error) {
	q := cfg.Model.Quantize
	if q.Mode == runfile.NotQuantized {
		return model.WithQuantization(def, model.Quantization{})
	}
	def, err := model.WithQuantization(def, model.Quantization{Mode: q.Mode, Bits: q.Bits, Group: q.Group, Match: q.Match})
	if err != nil {
		return nil, fmt.Errorf("run file: model.quantize (%s): %w", cfg.Origin("model.quantize.mode"), err)
	}
	return def, nil
}

// stateConfig is what a run trains: its model, with the parameters that it begins with where it takes them from a directory, its optimizer,
// and the rows of a microbatch.
func stateConfig(cfg *runfile.Config) (state.Config, weights, error) {
	def, begin, err := definition(cfg)
	if err != nil {
		return state.Config{}, weights{}, err
	}
	optimizer, err := fittingOptimizer(cfg, def)
	if err != nil {
		return state.Config{}, weights{}, usageError{err}
	}
	t, n := cfg.Train, cfg.Pipeline.Microbatches
	c := state.Config{Definition: def, Optimizer: optimizer, Batch: t.Batch / n, Accumulate: t.Accumulate * n, Sequence: def.Context(), Seed: t.Seed}
	c.MeasureUpdates = t.SpikeUpdateNorm > 0
	if cfg.Origin("model.context") != "default" {
		c.Sequence = min(c.Sequence, cfg.Model.Context)
	}
	if err := c.Validate(); err != nil {
		return state.Config{}, weights{}, usageError{err}
	}
	return c, begin, nil
}

// fittingOptimizer is the optimizer of a run file for a model, whose paths its rules have to match.
func fittingOptimizer(cfg *runfile.Config, def model.Definition) (optim.Config, error) {
	c, err := cfg.OptimizerConfig()
	if err != nil {
		return c, err
	}
	tx, err := c.Build()
	if err == nil {
		err = tx.Check(model.Specs(def))
	}
	if err != nil {
		return c, fmt.Errorf("run file: optimizer (%s): %w", cfg.Origin("optimizer.name"), err)
	}
	return c, nil
}

// runDirOf is the directory of a run below runs/: named for the run file, with a short hash of what was laid over it and makes it another run.
// Where an older program has called it otherwise, as it took all that was laid over, that is said.
func runDirOf(files []string, cfg *runfile.Config) string {
	dir, former := runName(files, cfg.Apart(files)), runName(files, cfg.Laid(files))
	if _, err := train.ReadMarker(dir); err == nil || dir == former {
		return dir
	}
	if _, err := os.Stat(filepath.Join(former, "run.yaml")); err != nil {
		return dir
	}
	fmt.Fprintf(os.Stderr, "gputrain: the run is in %s, as an older gputrain called it; wanted %s\n", former, dir)
	return former
}

func runName(files, laid []string) string {
	name := "default"
	if len(files) > 0 {
		base := filepath.Base(files[len(files)-1])
		name = strings.TrimSuffix(base, filepath.Ext(base))
	}
	if len(laid) > 0 {
		name = fmt.Sprintf("%s-%08x", name, crc32.ChecksumIEEE([]byte(strings.Join(laid, "\n"))))
	}
	return filepath.Join("runs", name)
}
