package doctor

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/optim"
)

// optimizerCase is case.json of kind optimizer.
type optimizerCase struct {
	Optimizer         string               `json:"optimizer"`
	Config            json.RawMessage      `json:"config"`
	Options           json.RawMessage      `json:"options"` // of optim.Options, by their names there
	Schedule          optim.ScheduleConfig `json:"schedule"`
	LearningRates     []float64            `json:"learning_rates"`
	ClipGrad          *float64             `json:"clip_grad"`
	WeightDecay       float64              `json:"weight_decay"`
	WeightDecayMask   map[string]bool      `json:"weight_decay_mask"`
	AccumulationSteps int                  `json:"gradient_accumulation_steps"`
	Steps             int                  `json:"steps"`
	Params            []paramSpec          `json:"params"`      // in the tree's order
	Orientation       string               `json:"orientation"` // of matrices: out_in, or in_out, the default, as in JAX
	Expect            []expectation        `json:"expect"`
	StateSlots        map[string][]string  `json:"state_slots"`
	StateDTypes       map[string]string    `json:"state_dtypes"`
	Tolerance         struct {
		Params tolerance            `json:"params"`
		State  map[string]tolerance `json:"state"`
	} `json:"tolerance"`

	rates []optim.PathRate
}

// expectation is what is to be compared after call Step, counted from 0.
type expectation struct {
	Step        int   `json:"step"`
	UpdatesDone int64 `json:"updates_done"`
	State       bool  `json:"state"`
}

// translate turns the case's config, in eformer's names, into an optimizer's parameters: types have other names, null chooses nothing where
// ours has a word for it, and what has no effect in eformer is no parameter here.
func (o *optimizerCase) translate(config map[string]any) {
	for key, value := range config {
		switch value {
		case "float32":
			config[key] = "f32"
		case "bfloat16":
			config[key] = "bf16"
		}
	}
	switch o.Optimizer {
	case "mars":
		delete(config, "weight_decay")
	case "soap":
		if _, cut := config["block_size"]; !cut { // a leaf is one block
			size := 128
			for _, p := range o.Params {
				for _, side := range p.Shape {
					if side <= 1024 { // the largest that there is
						size = max(size, side)
					}
				}
			}
			config["block_size"] = size
		}
	case "quad", "skew":
		if config["lr_style"] == nil {
			config["lr_style"] = "none"
		}
		if names, ok := config["scanned_layers"].([]any); ok {
			scanned := map[string]bool{}
			for _, p := range o.Params {
				scanned[p.Name] = slices.Contains(names, any(p.Name))
			}
			config["scanned_layers"] = scanned
		}
	}
}

// transform builds the optimizer of the case.
func (o *optimizerCase) transform() (optim.Transform, error) {
	c, err := o.optimizer()
	if err != nil {
		return optim.Transform{}, err
	}
	return c.Build()
}

// whole is the model of the case: its leaves in their order, and how matrices lie.
func (o *optimizerCase) whole() (specs []buffers.Spec, err error) {
	if !slices.Contains([]string{"", "in_out", "out_in"}, o.Orientation) {
		return nil, fmt.Errorf("orientation: found %q, wanted in_out or out_in", o.Orientation)
	}
	for _, p := range o.Params {
		specs = append(specs, buffers.Spec{Path: p.Name, Shape: p.Shape, OutIn: o.Orientation == "out_in" && len(p.Shape) == 2, Scanned: p.Scanned})
	}
	return specs, nil
}

// optimizer says which one that is.
func (o *optimizerCase) optimizer() (c optim.Config, err error) {
	options := optim.Options{
		Schedule: o.Schedule, ClipGrad: o.ClipGrad, WeightDecay: o.WeightDecay,
		AccumulationSteps: o.AccumulationSteps, Numerics: optim.EFormer, Rates: o.rates,
	}
	if o.ClipGrad != nil && *o.ClipGrad == 0 {
		options.ClipGrad = nil // eformer tests for truth
	}
	if o.WeightDecayMask != nil {
		options.WeightDecayMask = optim.MaskPaths(o.WeightDecayMask)
	}
	if len(o.Options) > 0 {
		given := map[string]any{}
		if err := json.Unmarshal(o.Options, &given); err != nil {
			return c, fmt.Errorf("options: %w", err)
		}
		maps.DeleteFunc(given, func(_ string, v any) bool { return v == nil })
		text, err := json.Marshal(given)
		if err != nil {
			return c, fmt.Errorf("options: %w", err)
		}
		strict := json.NewDecoder(bytes.NewReader(text))
		strict.DisallowUnknownFields()
		if err := strict.Decode(&options); err != nil {
			return c, fmt.Errorf("options: %w", err)
		}
	}
	if a := options.Average; a != nil { // which names leaves, whole
		for i, name := range a.Without {
			a.Without[i] = "^" + regexp.QuoteMeta(name) + "$"
		}
	}
	config := map[string]any{}
	if raw := bytes.TrimSpace(o.Config); len(raw) > 0 {
		if err := json.Unmarshal(raw, &config); err != nil {
			return c, fmt.Errorf("config: %w", err)
		}
	}
	o.translate(config)
	parameters, err := json.Marshal(config)
	if err != nil {
		return c, fmt.Errorf("config: %w", err)
	}
	return optim.Config{Name: o.Optimizer, Parameters: parameters, Options: options}, nil
}

// runOptimizer makes all calls of a case on the device.
func runOptimizer(ctx context.Context, dev *gpu.Device, c *goldenCase) (*comparison, error) {
	o := &optimizerCase{}
	if err := c.decode(o); err != nil {
		return nil, err
	}
	tx, err := o.transform()
	if err != nil {
		return nil, err
	}
	params := c.leaves(o.Params, "params")
	if c.err != nil {
		return nil, c.err
	}
	whole, err := o.whole()
	if err != nil {
		return nil, err
	}
	run, err := newDeviceRun(ctx, dev, tx, params, whole...)
	if err != nil {
		return nil, err
	}
	defer run.release()
	return c.follow(o, run)
}

// follow makes the calls of a case and compares what is expected after each.
func (c *goldenCase) follow(o *optimizerCase, run optimizerRun) (*comparison, error) {
	seen := &comparison{}
	schedule, err := o.Schedule.Build(optim.EFormer)
	if err != nil {
		return nil, err
	}
	for i, lr := range o.LearningRates {
		seen.number(fmt.Sprintf("learning_rates[%d]", i), schedule(int64(i)), lr, 1e-5*math.Abs(lr)+3e-7*o.Schedule.LearningRate)
	}
	for step := range o.Steps {
		grads := c.leaves(o.Params, fmt.Sprintf("grads/%d", step))
		if c.err != nil {
			return nil, c.err
		}
		if err := run.call(grads); err != nil {
			return nil, fmt.Errorf("call %d: %w", step, err)
		}
		for _, e := range o.Expect {
			if e.Step != step {
				continue
			}
			if err := c.compare(o, run, e, seen); err != nil {
				return nil, err
			}
		}
	}
	return seen, nil
}

// compare compares params and state after a call.
func (c *goldenCase) compare(o *optimizerCase, run optimizerRun, e expectation, seen *comparison) error {
	if done := run.updates(); done != e.UpdatesDone {
		seen.fail(fmt.Sprintf("step %d: %d updates done, want %d", e.Step, done, e.UpdatesDone))
	}
	prefix := fmt.Sprintf("expect/%d", e.Step)
	got, err := run.params()
	if err != nil {
		return err
	}
	seen.leaves(fmt.Sprintf("step %d params", e.Step), got, c.leaves(o.Params, prefix+"/params"), o.Tolerance.Params)
	if !e.State {
		return c.err
	}
	state, err := run.tensors()
	if err != nil {
		return err
	}
	for _, slot := range []string{"moved", "evaluated"} { // weights, as they are apart from training
		if o.StateSlots[slot] == nil {
			continue
		}
		found, err := run.weights(slot)
		if err != nil {
			return err
		}
		for _, h := range found {
			state[slot+"/"+h.Path] = h
		}
	}
	for _, slot := range slices.Sorted(maps.Keys(o.StateSlots)) {
		for _, leaf := range o.StateSlots[slot] {
			where := fmt.Sprintf("step %d state/%s/%s", e.Step, slot, leaf)
			name := prefix + "/state/" + slot + "/" + leaf
			want := c.floats(name)
			_, shape, _ := c.tensors.Info(name)
			got, ok := find(state, slot, leaf)
			if !ok {
				seen.fail(where + ": missing")
				continue
			}
			padded, ok := pad(got, shape)
			if !ok {
				seen.fail(fmt.Sprintf("%s: shape %v, want %v", where, got.Shape, shape))
				continue
			}
			seen.tensor(where, padded, want, o.Tolerance.State[slot])
			if o.StateDTypes[slot] == "bfloat16" && !exactBF16(got.Data) {
				seen.fail(where + ": not exactly bf16")
			}
		}
	}
	return c.err
}

// find is the tensor of a slot and leaf. The factors of quad and skew lie by leaf, and dense ones in one stack.
func find(state map[string]buffers.Host, slot, leaf string) (buffers.Host, bool) {
	for _, name := range []string{slot + "/" + leaf, "leaf/" + leaf + "/" + slot, leaf + "/" + slot} {
		if t, ok := state[name]; ok {
			return t, true
		}
	}
	return buffers.Host{}, false
}

// pad lays a tensor into a larger one of zeros, at its beginning in each dimension: cases keep blocks of full size. False where it does
// not fit.
func pad(t buffers.Host, shape []int) ([]float32, bool) {
	if slices.Equal(t.Shape, shape) {
		return t.Data, true
	}
	if len(t.Shape) != len(shape) {
		return nil, false
	}
	elements := 1
	for i, d := range shape {
		if t.Shape[i] > d {
			return nil, false
		}
		elements *= d
	}
	out := make([]float32, elements)
	for i, v := range t.Data {
		at, stride, rest := 0, 1, i
		for k := len(shape) - 1; k >= 0; k-- {
			at += rest % t.Shape[k] * stride
			rest /= t.Shape[k]
			stride *= shape[k]
		}
		out[at] = v
	}
	return out, true
}

func exactBF16(data []float32) bool {
	return !slices.ContainsFunc(data, func(v float32) bool { return math.Float32bits(v)&0xffff != 0 })
}
