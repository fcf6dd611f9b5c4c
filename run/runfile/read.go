package runfile

import (
	"cmp"
	"fmt"
	"strconv"

	"gputrain/optim"
)

// A model that was read is tuned at a part of the rate that its optimizer has for new models: 1/30 for all of it, 5e-5 with AdamW, and 1/10 for adapters,
// which are new themselves: 1.5e-4. Published models are tuned at 1e-5 to 5e-5, adapters at 1e-4 to 3e-4. What is preferred, which a model is to learn without
// leaving what it is, take a tenth of that: DPO of adapters is published at 5e-6 to 5e-5.
const ofWhole, ofAdapters, ofPreferred = 30, 10, 10

// Keys whose defaults are others for a model that was read.
const (
	rateKey    = "optimizer.learning_rate"
	endKey     = "optimizer.schedule.learning_rate_end"
	ratioKey   = "optimizer.schedule.learning_rate_end_ratio"
	contextKey = "model.context"

	evalTokensKey = "train.eval_tokens" // whose default is another for a short run
)

// layRead lays the defaults for a model that was read. The context is then the default too, where the model has more: published ones have a context that
// few machines train with.
func (c *Config) layRead() {
	if c.Model.From == "" {
		return
	}
	if !c.Given(contextKey) {
		c.origin[contextKey] = byDefault + ": as for a new model, or the context of model.from if that is less"
	}
	row, err := optim.Find(c.Optimizer.Name)
	if err != nil || c.Given(rateKey) { // Validate tells of a name that is none
		return
	}
	part, what := ofWhole, "a model that was read"
	if c.LoRA.On() {
		part, what = ofAdapters, "a model with adapters"
	}
	if c.Objective().Row().Form != "" {
		part, what = part*ofPreferred, "preferences of "+what
	}
	built := cmp.Or(row.Rate, Default().Optimizer.LearningRate)
	c.Optimizer.LearningRate = decimal(built/float64(part), 2)
	c.origin[rateKey] = Origin(fmt.Sprintf("%s: 1/%d of %s's %g, for %s", byDefault, part, row.Name, built, what))
}

// decimal is a number as so many digits say it: a tenth of 0.0015 is 0.00015, which the product of the floats is not.
func decimal(v float64, digits int) float64 {
	out, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'g', digits, 64), 64) // what FormatFloat writes is a number
	return out
}

// RateEnd is the learning rate at the end of the schedule.
func (o optimizer) RateEnd() float64 {
	if end := o.Schedule.LearningRateEnd; end != nil {
		return *end
	}
	return decimal(o.LearningRate*o.Schedule.LearningRateEndRatio, 15)
}

// CheckRates refuses a rate that ends above its peak, unless the run began with it (AsBegun).
func (c *Config) CheckRates() error {
	o := c.Optimizer
	if o.Schedule.Type == "constant" || c.begun || o.RateEnd() <= o.LearningRate {
		return nil
	}
	return fmt.Errorf("run file: %s: found %g, above the peak of %g, %s: wanted at most that, or null for a share of it, %s",
		c.At(endKey), o.RateEnd(), o.LearningRate, c.At(rateKey), ratioKey)
}

// Resumed tells whether the run began before (AsBegun).
func (c *Config) Resumed() bool { return c.resumed }

// AsBegun lays the defaults that the record of the run in dir has, which may be of an earlier program, over those of this one: what nobody named stays as it was.
// With reschedule the rates are those of a new schedule, which CheckRates holds to its rule.
func (c *Config) AsBegun(dir string, reschedule bool) error {
	was, err := OfRun(dir)
	if err != nil {
		return err
	}
	for _, key := range []string{rateKey, endKey, contextKey, evalTokensKey} {
		if c.Given(key) || was.Given(key) {
			continue
		}
		f, _ := find(key)
		c.at(f).Set(was.at(f))
		c.origin[key] = was.origin[key]
	}
	if c.IsDefault(evalTokensKey) { // however long the run is to be now
		c.origin[evalTokensKey] = byDefault + ": as the run began"
	}
	c.begun, c.resumed = !reschedule, true
	return nil
}

// FitContext lays the most that model.from has in place of a default above it, and refuses more where somebody has named it. A run that goes on keeps what it has
// recorded, which an earlier program took for the most.
func (c *Config) FitContext(most int) error {
	switch {
	case c.Model.From == "" || c.resumed || c.Model.Context <= most || c.IsDefault(contextKey):
		return nil
	case c.Given(contextKey):
		return c.Invalid(contextKey, c.Model.Context, fmt.Sprintf("at most %d, the context of %s", most, c.Model.From))
	}
	c.Model.Context = most
	return nil
}
