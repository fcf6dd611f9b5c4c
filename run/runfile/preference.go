package runfile

import (
	"slices"
	"strings"

	"gputrain/internal/formats"
	"gputrain/model"
)

// preference is the section of the objective on completions that are compared, or good and bad.
type preference struct {
	Loss           string   `yaml:"loss" default:"none" range:"preferences" doc:"objective on rows of data.jsonl with a prompt, a chosen and a rejected completion (docs/preferences.md has all): DPO (sigmoid and others), whose reference is the model without its adapters, or as training began, CPO (cpo_sigmoid and others), SimPO (simpo), ORPO (orpo); or on rows with a prompt, a completion and a label: KTO (kto), apo_zero_unpaired, BCO (bco). none: the loss is that of the tokens"`
	Beta           float64  `yaml:"beta" default:"0.1" range:">0" doc:"all but orpo: rewards are log-probabilities, less the reference's, times this; SimPO is published with 2 and more"`
	LabelSmoothing float64  `yaml:"label_smoothing" range:"0..0.5" doc:"sigmoid, robust, exo_pair, aot, aot_unpaired, cpo_sigmoid, simpo: probability that a row has its completions the wrong way round"`
	DiscoPOPTau    float64  `yaml:"discopop_tau" default:"0.05" range:">0" doc:"discopop: temperature of the share of the exponential loss"`
	ORPOLambda     float64  `yaml:"orpo_lambda" default:"0.1" range:">0" doc:"orpo: weight of the odds beside the loss of the tokens of prompt and chosen completion"`
	CPOAlpha       *float64 `yaml:"cpo_alpha" range:"0..1e30" doc:"cpo losses, simpo: weight of the mean loss of the tokens of chosen completions; null: 1 for the cpo losses, 0 for simpo"`
	Desirable      *float64 `yaml:"desirable_weight" range:"0..1e30" doc:"kto, apo_zero_unpaired, bco: weight of good rows; that of all good rows is best as great as that of all bad ones, up to a third more. null: 1"`
	Undesirable    *float64 `yaml:"undesirable_weight" range:"0..1e30" doc:"kto, apo_zero_unpaired, bco: weight of bad rows; null: 1"`
	SimPOGamma     float64  `yaml:"simpo_gamma" default:"0.5" range:"0..1000" doc:"simpo: by how much the chosen reward is to be greater; TRL has no beta in it"`
	SimPOAlpha     float64  `yaml:"simpo_alpha" range:"0..100" doc:"simpo: AlphaPO's alpha, which bends the reward of a mean log-probability l to (1 - exp(-alpha l)) / alpha; 0: the reward is l"`
}

// noPreference is the preference.loss of a run that learns tokens.
const noPreference = "none"

// Objective is what the run learns.
func (c *Config) Objective() (o model.Objective) {
	if c.Preference.Loss == noPreference {
		if t := c.Train; t.LabelSmoothing != 0 || t.ZLoss != 0 || t.TokenAccuracy {
			o = model.Objective{Loss: model.CrossEntropy, Numbers: map[string]float64{"label_smoothing": t.LabelSmoothing, "z_loss": t.ZLoss}}
		}
		return o
	}
	o = model.Objective{Loss: c.Preference.Loss, Numbers: map[string]float64{}}
	for _, n := range o.Row().Numbers {
		f, _ := find("preference." + n.Name)
		switch v := c.value(f).(type) {
		case float64:
			o.Numbers[n.Name] = v
		case *float64:
			o.Numbers[n.Name] = n.Default
			if v != nil {
				o.Numbers[n.Name] = *v
			}
		}
	}
	return o
}

// validateObjective refuses keys that have no effect on the objective, and what it does not go with.
func (c *Config) validateObjective() error {
	o := c.Objective()
	name, loss := c.Preference.Loss, o.Row()
	for _, f := range c.changed("") {
		switch {
		case strings.HasPrefix(f.key, "preference.") && f.key != "preference.loss" && (loss.Form == "" || !loss.Reads(strings.TrimPrefix(f.key, "preference."))),
			name != noPreference && ofTokens[f.key]:
			return c.Invalid(f.key, inline(c.value(f)), "nothing with preference.loss "+name)
		case loss.Form == "":
		case f.key == "data.text", f.key == "data.mixture":
			return c.Invalid(f.key, inline(c.value(f)), "data.jsonl with preference.loss "+name)
		case ofDocuments[f.key]:
			return c.Invalid(f.key, inline(c.value(f)), "nothing with preference.loss "+name+", whose rows have "+loss.Says+", each a sequence")
		}
	}
	for _, n := range loss.Numbers {
		if v := o.Numbers[n.Name]; !n.Takes(v) {
			return c.Invalid("preference."+n.Name, v, n.Wanted+" with preference.loss "+name)
		}
	}
	switch {
	case loss.Form == "":
		return nil
	case len(c.Data.JSONL) == 0:
		return c.Invalid("preference.loss", name, "none without data.jsonl, the rows with "+loss.Counts)
	case c.Train.Batch/c.Pipeline.Microbatches%loss.Group != 0:
		return c.Invalid("train.batch", c.Train.Batch, "an even number of sequences a microbatch with preference.loss "+name+": a "+loss.One()+" has two")
	}
	return nil
}

// ofTokens are the keys of the loss of the next token.
var ofTokens = map[string]bool{"train.label_smoothing": true, "train.z_loss": true, "train.token_accuracy": true}

// ofDocuments are the keys that say nothing of rows of another form.
var ofDocuments = map[string]bool{
	"data.format": true, "data.field": true, "data.prompt_field": true, "data.mask_field": true, "data.packing": true, "data.documents": true, "data.long": true,
}

// preferences are the values of preference.loss: the objectives on rows of files, of networks whose head gives logits.
var preferences = func() (names oneOf) {
	names = oneOf{noPreference}
	for _, name := range model.Objectives() {
		if row := (model.Objective{Loss: name}).Row(); slices.Contains([]string{formats.Pairs, formats.Labelled}, row.Form) && row.Head == "" {
			names = append(names, name)
		}
	}
	return names
}()
