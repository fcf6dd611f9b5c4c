package runfile

import (
	"slices"

	"gputrain/internal/formats"
	"gputrain/model"
)

// preference is the section of the objective on completions that are compared, or good and bad.
type preference struct {
	Loss           string   `yaml:"loss" default:"none" range:"preferences" doc:"objective on rows of data.jsonl with a prompt, a chosen and a rejected completion (docs/preferences.md has all): DPO (sigmoid and others), whose reference is the model without its adapters, or as training began, CPO (cpo_sigmoid and others), SimPO (simpo), ORPO (orpo); or on rows with a prompt, a completion and a label: KTO (kto), apo_zero_unpaired, BCO (bco). none: the loss is that of the tokens"`
	Reference      string   `yaml:"reference" default:"base" range:"references" doc:"losses with a reference, lora.from: base, the model without its adapters; start, with the adapters of lora.from as they are there, which stay beside those that are trained. Of a model that is trained whole it is that model as training begins"`
	Packing        bool     `yaml:"packing" default:"false" doc:"whether windows have several completions, which do not see each other, with those of a row side by side: short rows then take fewer windows. A batch has as many windows as before, and so more rows. Not with losses that look at a step's rows ahead (aot, aot_unpaired, kto, bco)"`
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

// Values of preference.reference.
const (
	referenceKey   = "preference.reference"
	packingKey     = "preference.packing"
	referenceBase  = "base"
	ReferenceStart = "start"
)

// preferences are the values of preference.loss: the objectives on rows of files, of networks whose head gives logits.
var preferences = objectives(func(of model.Loss) bool {
	return slices.Contains([]string{formats.Pairs, formats.Labelled}, of.Form) && of.Head == ""
})
