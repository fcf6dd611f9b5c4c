package runfile

import (
	"strings"

	"gputrain/model"
)

// preference is the section of the objective on pairs of completions.
type preference struct {
	Loss           string  `yaml:"loss" default:"none" range:"preferences" doc:"objective on rows of data.jsonl with a prompt, a chosen and a rejected completion: DPO, whose reference is the model without its adapters (sigmoid), ORPO (orpo) or SimPO (simpo). none: the loss is that of the tokens"`
	Beta           float64 `yaml:"beta" default:"0.1" range:">0" doc:"sigmoid, simpo: rewards are log-probabilities, less the reference's, times this; SimPO is published with 2 and more"`
	LabelSmoothing float64 `yaml:"label_smoothing" range:"0..0.5" doc:"sigmoid, simpo: probability that a row has its completions the wrong way round"`
	ORPOLambda     float64 `yaml:"orpo_lambda" default:"0.1" range:">0" doc:"orpo: weight of the odds beside the loss of the tokens of prompt and chosen completion"`
	SimPOGamma     float64 `yaml:"simpo_gamma" default:"0.5" range:"0..1000" doc:"simpo: by how much the chosen reward is to be greater; TRL has no beta in it"`
}

// noPreference is the preference.loss of a run that learns tokens.
const noPreference = "none"

// Objective is what the run learns.
func (c *Config) Objective() (o model.Objective) {
	if c.Preference.Loss == noPreference {
		return o
	}
	o = model.Objective{Loss: c.Preference.Loss, Numbers: map[string]float64{}}
	for _, n := range o.Row().Numbers {
		f, _ := find("preference." + n.Name)
		o.Numbers[n.Name] = c.value(f).(float64)
	}
	return o
}

// validateObjective refuses keys that have no effect on the objective, and what it does not go with.
func (c *Config) validateObjective() error {
	o := c.Objective()
	name, loss := c.Preference.Loss, o.Row()
	for _, f := range c.changed("") {
		switch {
		case strings.HasPrefix(f.key, "preference.") && f.key != "preference.loss" && !loss.Reads(strings.TrimPrefix(f.key, "preference.")):
			return c.Invalid(f.key, inline(c.value(f)), "nothing with preference.loss "+name)
		case loss.Form == "":
		case f.key == "data.text", f.key == "data.mixture":
			return c.Invalid(f.key, inline(c.value(f)), "data.jsonl with preference.loss "+name)
		case ofDocuments[f.key]:
			return c.Invalid(f.key, inline(c.value(f)), "nothing with preference.loss "+name+", whose rows have "+loss.Says+", each a sequence")
		}
	}
	switch {
	case loss.Form == "":
		return nil
	case len(c.Data.JSONL) == 0:
		return c.Invalid("preference.loss", name, "none without data.jsonl, the rows with "+loss.Counts)
	case loss.Reference && !c.LoRA.On():
		return c.Invalid("preference.loss", name, "orpo or simpo without adapters (lora.rank, lora.from): the reference is the model without them")
	case c.Train.Batch/c.Pipeline.Microbatches%loss.Group != 0:
		return c.Invalid("train.batch", c.Train.Batch, "an even number of sequences a microbatch with preference.loss "+name+": a "+loss.One()+" has two")
	}
	return nil
}

// ofDocuments are the keys that say nothing of rows of another form.
var ofDocuments = map[string]bool{
	"data.format": true, "data.field": true, "data.prompt_field": true, "data.mask_field": true, "data.packing": true, "data.documents": true, "data.long": true,
}

// preferences are the values of preference.loss.
var preferences = append(oneOf{noPreference}, model.Objectives()...)
