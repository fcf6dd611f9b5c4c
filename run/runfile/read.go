package runfile

import (
	"cmp"
	"fmt"
	"strconv"

	"gputrain/internal/formats"
	"gputrain/optim"
)

// A model that was read is tuned at a part of the rate that its optimizer has for new models: 1/30 for all of it, 5e-5 with AdamW, and 1/10 for adapters,
// which are new themselves: 1.5e-4. Published models are tuned at 1e-5 to 5e-5, adapters at 1e-4 to 3e-4. What is preferred, which a model is to learn without
// leaving what it is, take a tenth of that: DPO of adapters is published at 5e-6 to 5e-5. Heads with adapters are published at 1e-4.
const ofWhole, ofAdapters, ofPreferred, ofHeads = 30, 10, 10, 15

// Models that learn from what they draw are published at 1e-6, adapters at 1e-5: such parts of the rates above.
const ofDrawn, ofDrawnAdapters = 50, 15

// Keys whose defaults are others for a model that was read.
const (
	rateKey    = "optimizer.learning_rate"
	contextKey = "model.context"
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
	loss := c.Objective().Row()
	switch form := loss.Form; {
	case loss.Head != "" && c.LoRA.On():
		part, what = ofHeads, "a head and adapters"
	case loss.Head != "":
	case form == formats.Prompts && c.LoRA.On():
		part, what = part*ofDrawnAdapters, "rollouts of "+what
	case form == formats.Prompts:
		part, what = part*ofDrawn, "rollouts of "+what
	case form != "":
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
