package runfile

import (
	"reflect"
	"strings"

	"gputrain/model"
)

// Preference is the section of the objective on pairs of completions.
type Preference struct {
	Loss           string  `yaml:"loss" default:"none" range:"preferences" doc:"objective on rows of data.jsonl with a prompt, a chosen and a rejected completion: DPO, whose reference is the model without its adapters (sigmoid), ORPO (orpo) or SimPO (simpo). none: the loss is that of the tokens"`
	Beta           float64 `yaml:"beta" default:"0.1" range:">0" doc:"sigmoid, simpo: rewards are log-probabilities, less the reference's, times this; SimPO is published with 2 and more"`
	LabelSmoothing float64 `yaml:"label_smoothing" range:"0..0.5" doc:"sigmoid, simpo: probability that a row has its completions the wrong way round"`
	ORPOLambda     float64 `yaml:"orpo_lambda" default:"0.1" range:">0" doc:"orpo: weight of the odds beside the loss of the tokens of prompt and chosen completion"`
	SimPOGamma     float64 `yaml:"simpo_gamma" default:"0.5" range:"0..1000" doc:"simpo: by how much the chosen reward is to be greater; TRL has no beta in it"`
}

// noPreference is the preference.loss of a run that learns tokens.
const noPreference = "none"

// On tells whether the run learns pairs.
func (p Preference) On() bool { return p.Loss != noPreference }

// Model is the objective; nil for none.
func (p Preference) Model() *model.Preference {
	out := &model.Preference{Loss: p.Loss}
	switch p.Loss {
	case noPreference:
		return nil
	case model.PreferORPO:
		out.Lambda = p.ORPOLambda
		return out
	case model.PreferSimPO:
		out.Gamma = p.SimPOGamma
	}
	out.Beta, out.LabelSmoothing = p.Beta, p.LabelSmoothing
	return out
}

// validatePreference refuses keys that have no effect on the objective, and what it does not go with.
func (c *Config) validatePreference() error {
	p := c.Preference
	effect := map[string]bool{
		"preference.loss": true, "preference.beta": p.On() && p.Loss != model.PreferORPO, "preference.label_smoothing": p.On() && p.Loss != model.PreferORPO,
		"preference.orpo_lambda": p.Loss == model.PreferORPO, "preference.simpo_gamma": p.Loss == model.PreferSimPO,
	}
	kept := New()
	for _, f := range fields {
		switch {
		case reflect.DeepEqual(c.value(f), kept.value(f)):
		case strings.HasPrefix(f.key, "preference.") && !effect[f.key]:
			return c.Invalid(f.key, inline(c.value(f)), "nothing with preference.loss "+p.Loss)
		case !p.On():
		case f.key == "data.text", f.key == "data.mixture":
			return c.Invalid(f.key, inline(c.value(f)), "data.jsonl with preference.loss "+p.Loss)
		case pairless[f.key]:
			return c.Invalid(f.key, inline(c.value(f)), "nothing with preference.loss "+p.Loss+", whose rows have a prompt, a chosen and a rejected completion, each a sequence")
		}
	}
	switch {
	case !p.On():
		return nil
	case len(c.Data.JSONL) == 0:
		return c.Invalid("preference.loss", p.Loss, "none without data.jsonl, the rows with pairs")
	case p.Loss == model.PreferSigmoid && !c.LoRA.On():
		return c.Invalid("preference.loss", p.Loss, "orpo or simpo without adapters (lora.rank, lora.from): the reference is the model without them")
	case c.Train.Batch/c.Pipeline.Microbatches%2 != 0:
		return c.Invalid("train.batch", c.Train.Batch, "an even number of sequences a microbatch with preference.loss "+p.Loss+": a pair has two")
	}
	return nil
}

// pairless are the keys that say nothing of pairs.
var pairless = map[string]bool{
	"data.format": true, "data.field": true, "data.prompt_field": true, "data.mask_field": true, "data.packing": true, "data.documents": true, "data.long": true,
}

// preferences are the values of preference.loss.
var preferences = append(oneOf{noPreference}, model.Preferences...)
