package runfile

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"

	"gputrain/internal/suggest"
	"gputrain/model"
	"gputrain/optim"
)

// OptimizerConfig is the optimizer that a run file describes. A schedule without
// an end of its own ends with the run.
func (c *Config) OptimizerConfig() (optim.Config, error) {
	o := c.Optimizer
	s := o.Schedule
	steps := int64(s.Steps)
	if steps == 0 {
		steps = c.Train.Steps
	}
	mask := optim.MaskMatrices()
	if len(o.DecayMask) > 0 {
		mask = optim.MaskPatterns(o.DecayMask...)
	}
	var rates []optim.PathRate
	for _, r := range o.Rates {
		rates = append(rates, optim.PathRate{Pattern: r.Match, Multiplier: r.Multiplier})
	}
	if b := c.LoRA.BRate; c.LoRA.On() && b != 1 {
		rates = append(rates, optim.PathRate{Pattern: model.LoRAPlus, Multiplier: b})
	}
	var cooldown *int64
	if s.CooldownSteps > 0 {
		cooldown = new(int64(s.CooldownSteps))
	}
	parameters, err := json.Marshal(o.Parameters)
	if err != nil {
		return optim.Config{}, fmt.Errorf("run file: optimizer: parameters: %w", err)
	}
	out := optim.Config{
		Name:       o.Name,
		Parameters: parameters,
		Options: optim.Options{
			Schedule: optim.ScheduleConfig{
				Type: s.Type, LearningRate: o.LearningRate, LearningRateEnd: new(o.RateEnd()), WarmupSteps: s.Warmup(steps), Steps: steps, Exponent: s.Exponent,
				CooldownSteps: cooldown,
			},
			ClipGrad: o.ClipGrad, WeightDecay: o.WeightDecay, WeightDecayMask: mask, Rates: rates, Numerics: optim.Numerics(o.Numerics),
			Hyperball: o.Hyperball.option(), CautiousDecay: o.CautiousDecay, UpdateFloor: o.UpdateFloor,
		},
	}
	if l := o.Lookahead; l.Scale > 0 {
		out.Options.Lookahead = &optim.Lookahead{Scale: l.Scale, Decay: l.Decay, From: int64(l.From)}
		if l.Until > 0 {
			out.Options.Lookahead.Until = new(int64(l.Until))
		}
	}
	if a := o.Average; a.Horizon > 0 {
		out.Options.Average = &optim.Averaging{From: int64(max(a.From, 1)), Horizon: a.Horizon, Blend: a.Blend, Without: a.Without}
	}
	if o.UpdateFloor > 0 {
		out.Options.FloorBy = o.FloorBy
	}
	checked := out
	checked.Options.Edition = optim.First // whether all is read is known once it is known whether the run began so
	if _, err := checked.Build(); err != nil {
		return out, c.Wrong("optimizer", err)
	}
	return out, nil
}

// Warmup is the number of updates from almost 0 to the peak, of so many.
func (s schedule) Warmup(steps int64) int64 {
	if s.WarmupSteps < 0 {
		return min(steps/12, 50)
	}
	return int64(s.WarmupSteps)
}

// parametersOf gives the types of an optimizer's own parameters.
func parametersOf(d optim.Description) map[string]reflect.Type {
	types := map[string]reflect.Type{}
	for _, p := range d.Parameters {
		types[p.Name] = reflect.TypeOf(p.Default)
	}
	return types
}

// validateOptimizer checks the optimizer's own parameters, and that all that is said of it can be meant.
func (c *Config) validateOptimizer() error {
	d, err := optim.Describe(c.Optimizer.Name)
	if err != nil {
		return c.Wrong("optimizer", err)
	}
	types := parametersOf(d)
	for _, name := range sortedKeys(c.Optimizer.Parameters) {
		key, value := "optimizer.parameters."+name, c.Optimizer.Parameters[name]
		t, known := types[name]
		if !known {
			names := sortedKeys(types)
			for i := range reflect.TypeFor[optimizer]().NumField() {
				names = append(names, keyOf(reflect.TypeFor[optimizer]().Field(i)))
			}
			return fmt.Errorf("run file: %s: unknown key %q of %s%s (gputrain optimizers %s lists its parameters)",
				c.Origin(key), "optimizer."+name, d.Name, suggest.DidYouMean(name, names), d.Name)
		}
		if !fits(value, t) {
			return c.Invalid(key, inline(value), kindName(t))
		}
	}
	if err := c.validateLanding(); err != nil {
		return err
	}
	_, err = c.OptimizerConfig()
	return err
}

// fits tells whether a value is of the type of an optimizer's parameter, which is read as JSON: null is for pointers and lists, a list has
// as many items as an array, and a mapping may leave out what is to have its default.
func fits(v any, t reflect.Type) bool {
	if t == reflect.TypeFor[optim.Mask]() {
		paths, ok := v.(map[string]any)
		for _, chosen := range paths {
			_, is := chosen.(bool)
			ok = ok && is
		}
		return ok || v == "matrices" || v != nil && fits(v, reflect.TypeFor[[]string]())
	}
	switch t.Kind() {
	case reflect.Pointer:
		return v == nil || fits(v, t.Elem())
	case reflect.Slice, reflect.Array:
		list, ok := v.([]any)
		for _, item := range list {
			ok = ok && fits(item, t.Elem())
		}
		return ok && (t.Kind() == reflect.Slice || len(list) == t.Len()) || v == nil && t.Kind() == reflect.Slice
	case reflect.Struct:
		values, ok := v.(map[string]any)
		for i := range t.NumField() {
			if value, given := values[keyOf(t.Field(i))]; given {
				ok = ok && fits(value, t.Field(i).Type)
			}
		}
		return ok // unknown keys are optim's to refuse
	case reflect.Int64:
		_, ok := integer(v)
		return ok
	case reflect.Float64:
		out, ok := convert(v, t)
		return ok && !math.IsNaN(out.Float()) && !math.IsInf(out.Float(), 0) // which JSON has no word for
	}
	_, ok := convert(v, t)
	return ok
}
