package doctor

import (
	"io/fs"
	"maps"
	"math"
	"path"
	"slices"
	"strings"

	"gputrain/buffers"
	"gputrain/model"
	"gputrain/optim"
)

// loraCase is case.json of kind lora: a base and an adapter of it, which alone is trained.
type loraCase struct {
	modelCase
	Scales        map[string]float64 `json:"scales"`            // of each module's product B A
	Ratio         float64            `json:"loraplus_lr_ratio"` // of the rate of B to that of A; 0: 1
	LearningRates map[string]float64 `json:"learning_rates"`    // of each tensor, with a ratio
}

// fasterLeaves are those of an adapter whose rate LoRA+ multiplies (Hayou et al. 2024, arXiv:2402.12354).
const fasterLeaves = `\.(lora_B\.weight|lora_magnitude_vector)$`

// train makes all steps, and compares what the adapter makes of its base.
func (l *loraCase) train(c *goldenCase, run modelRun) (*comparison, error) {
	seen, err := l.modelCase.train(c, run)
	if err != nil {
		return nil, err
	}
	c.merged(l, seen)
	return seen, c.err
}

func loadLoRA(c *goldenCase, dir fs.FS) (*loraCase, error) {
	l := &loraCase{}
	if err := c.decode(l); err != nil {
		return nil, err
	}
	if err := l.readAdapter(dir); err != nil {
		return nil, err
	}
	return l, l.loadBatches(c)
}

// readAdapter reads the base, which is frozen, and the adapter, and at which rates that is trained.
func (l *loraCase) readAdapter(dir fs.FS) error {
	all, err := l.read(dir)
	if err != nil {
		return err
	}
	own := model.AdapterParams(l.def)
	for _, h := range all {
		if slices.Contains(own, h.Path) {
			l.initial = append(l.initial, h)
		} else {
			l.frozen = append(l.frozen, h)
		}
	}
	if l.Ratio > 0 {
		l.rates = []optim.PathRate{{Pattern: fasterLeaves, Multiplier: l.Ratio}}
	}
	return nil
}

// read reads the base and the adapter.
func (l *loraCase) read(dir fs.FS) ([]buffers.Host, error) {
	base, weights, err := openModel(dir, "base", l.head)
	if err != nil {
		return nil, err
	}
	config, err := fs.ReadFile(dir, path.Join("adapter", model.AdapterConfigFile))
	if err != nil {
		return nil, err
	}
	at := path.Join("adapter", model.AdapterWeightsFile)
	tensors, err := tensorsIn(dir, at)
	if err != nil {
		return nil, err
	}
	if l.def, err = model.ParseAdapter(config, base, tensors...); err != nil {
		return nil, err
	}
	adapters, err := model.Bind(l.def, at, tensors)
	if err != nil {
		return nil, err
	}
	adapters.StandOn(weights, nil)
	return adapters.All()
}

// merged compares scales and rates with those of the case, and the matrices that it has of the merged model.
func (c *goldenCase) merged(l *loraCase, seen *comparison) {
	scales := model.AdapterScales(l.def)
	for _, module := range slices.Sorted(maps.Keys(l.Scales)) {
		scale, there := scales[module]
		if !there { // of a base whose names begin further in
			scale = scales[strings.TrimSuffix(model.PathOf(l.def, module+".weight"), ".weight")]
		}
		seen.number("scale of "+module, scale, l.Scales[module], 1e-12*math.Abs(l.Scales[module]))
	}
	for _, name := range slices.Sorted(maps.Keys(l.LearningRates)) {
		rate := l.Schedule.LearningRate
		if strings.HasSuffix(name, ".lora_B.weight") || strings.HasSuffix(name, ".lora_magnitude_vector") {
			rate *= l.Ratio
		}
		seen.number("rate of "+name, rate, l.LearningRates[name], 1e-9*rate)
	}
	at := map[string][]float32{}
	for _, h := range slices.Concat(l.initial, l.frozen) {
		at[h.Path] = h.Data
	}
	read := model.Merge(l.def, func(path string) ([]float32, error) { return slices.Clone(at[path]), nil })
	const prefix = "expect/0/merged/"
	for _, name := range c.tensors.Names() {
		module, ok := strings.CutPrefix(name, prefix)
		if !ok {
			continue
		}
		got, err := read(model.PathOf(l.def, module))
		c.note(err)
		seen.tensor(name, got, c.floats(name), l.Tolerance.Merged)
	}
}
