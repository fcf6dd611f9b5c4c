package runfile

import (
	"fmt"
	"slices"
	"strings"

	"gputrain/internal/formats"
	"gputrain/model"
)

// A naming is a section that can name what a run learns.
type naming struct {
	section string
	key     string                       // that names the loss, or what it follows from
	none    string                       // its value where the section names none
	loss    func(c *Config) string       // model.Objective.Loss; "": the section names none
	beside  []string                     // keys that have an effect with every loss of the section, besides the numbers that the loss reads
	own     func(of model.Loss) []string // those that have one with this loss; nil: none
	// numbers lays those that follow from other keys, or from the loss; nil: none.
	numbers func(c *Config, numbers map[string]float64)
}

// namings are all sections that can. The first one that names a loss decides; where none does, a run learns the next token.
var namings = []naming{
	{section: "preference", key: "preference.loss", none: noObjective, loss: func(c *Config) string { return lossOf(c.Preference.Loss) }, own: func(of model.Loss) (keys []string) {
		if of.Packs {
			keys = append(keys, "packing")
		}
		if of.Reference {
			keys = append(keys, "reference")
		}
		return keys
	}},
	{section: "head", key: "head.objective", none: noObjective, loss: func(c *Config) string { return lossOf(c.Head.Objective) }, own: func(of model.Loss) []string {
		return map[string][]string{formats.Classes: {"num_labels", "labels"}, formats.Queries: {"pooling"}}[of.Form]
	}},
	draws,
	{section: "distil", key: "distil.teacher", none: `""`, beside: []string{"fingerprint", "tail"}, loss: func(c *Config) string {
		if c.Distil.Teacher == "" {
			return ""
		}
		return model.Distill
	}},
}

// noObjective is the value of a section that names no loss.
const noObjective = "none"

// lossOf is the loss that a value names; "": none.
func lossOf(value string) string {
	if value == noObjective {
		return ""
	}
	return value
}

// objectives are the values of a section: noObjective, and the losses that suit it.
func objectives(suits func(of model.Loss) bool) oneOf {
	return append(oneOf{noObjective}, slices.DeleteFunc(model.Objectives(), func(name string) bool {
		return !suits(model.Objective{Loss: name}.Row())
	})...)
}

// with is the key of a section with its value, for a sentence.
func (n naming) with(c *Config) string {
	if n.loss(c) == "" {
		return n.key + " " + n.none
	}
	f, _ := find(n.key)
	return n.key + " " + fmt.Sprint(c.value(f))
}

// reads tells whether a key of the section has an effect.
func (n naming) reads(c *Config, key string) bool {
	loss := n.loss(c)
	switch name := strings.TrimPrefix(key, n.section+"."); {
	case key == n.key:
		return true
	case loss == "":
		return false
	default:
		of := model.Objective{Loss: loss}.Row()
		return slices.Contains(n.beside, name) || n.own != nil && slices.Contains(n.own(of), name) || of.Reads(name)
	}
}

// named is the section that names what the run learns; false: none does.
func (c *Config) named() (naming, bool) {
	i := slices.IndexFunc(namings, func(n naming) bool { return n.loss(c) != "" })
	if i < 0 {
		return naming{}, false
	}
	return namings[i], true
}

// Learned is the loss of the run of a record.
func Learned(all []Recorded) model.Loss {
	c := New()
	for _, r := range all {
		if slices.ContainsFunc(namings, func(n naming) bool { return strings.HasPrefix(r.Key, n.section+".") }) {
			_ = c.Set(r.Key + "=" + string(r.Value)) // of a later program: what it has learned follows from what is known of it
		}
	}
	return c.Objective().Row()
}

// Objective is what the run learns.
func (c *Config) Objective() (o model.Objective) {
	n, named := c.named()
	if !named {
		if t := c.Train; t.LabelSmoothing != 0 || t.ZLoss != 0 || t.TokenAccuracy {
			o = model.Objective{Loss: model.CrossEntropy, Numbers: map[string]float64{"label_smoothing": t.LabelSmoothing, "z_loss": t.ZLoss}}
		}
		return o
	}
	o = model.Objective{Loss: n.loss(c), Numbers: map[string]float64{}}
	o.Packed = n.reads(c, packingKey) && c.Preference.Packing
	for _, number := range o.Row().Numbers {
		f, is := find(n.section + "." + number.Name)
		if !is {
			if n.numbers != nil { // it follows from others
				o.Numbers[number.Name] = 0
			}
			continue // or what is opened says it
		}
		switch v := c.value(f).(type) {
		case int:
			o.Numbers[number.Name] = float64(v)
		case bool:
			o.Numbers[number.Name] = 0
			if v {
				o.Numbers[number.Name] = 1
			}
		case float64:
			o.Numbers[number.Name] = v
		case *float64:
			o.Numbers[number.Name] = number.Default
			if v != nil {
				o.Numbers[number.Name] = *v
			}
		}
	}
	if n.numbers != nil {
		n.numbers(c, o.Numbers)
	}
	return o
}

// validateObjective refuses keys that have no effect on the objective, and what it does not go with.
func (c *Config) validateObjective() error {
	o := c.Objective()
	n, named := c.named()
	loss := o.Row()
	for _, f := range c.changed("") {
		value := inline(c.value(f))
		if i := slices.IndexFunc(namings, func(n naming) bool { return strings.HasPrefix(f.key, n.section+".") }); i >= 0 {
			switch other := namings[i]; {
			case !other.reads(c, f.key):
				return c.Invalid(f.key, value, "nothing with "+other.with(c))
			case named && other.section != n.section && other.loss(c) != "":
				return c.Invalid(f.key, value, other.none+" with "+n.with(c)+": a run learns one of them")
			}
		}
		switch {
		case f.key == referenceKey && c.LoRA.From == "":
			return c.Invalid(f.key, value, referenceBase+" without lora.from: the reference is the model as training begins anyway")
		case !named:
		case ofTokens[f.key]:
			return c.Invalid(f.key, value, "nothing with "+n.with(c))
		case loss.Form == "":
		case f.key == "data.text", f.key == "data.mixture":
			return c.Invalid(f.key, value, "data.jsonl with "+n.with(c))
		case ofDocuments[f.key]:
			return c.Invalid(f.key, value, "nothing with "+n.with(c)+", whose rows have "+loss.Says+", each a sequence")
		}
	}
	if !named {
		return nil
	}
	if err := c.validateDistil(); err != nil {
		return err
	}
	for _, number := range loss.Numbers {
		if v := o.Numbers[number.Name]; !number.Takes(v) {
			return c.Invalid(n.section+"."+number.Name, v, number.Wanted+" with "+n.with(c))
		}
	}
	switch {
	case loss.Form == "":
		return nil
	case len(c.Data.JSONL) == 0:
		f, _ := find(n.key)
		return c.Invalid(n.key, c.value(f), n.none+" without data.jsonl, the rows with "+loss.Counts)
	case c.Train.Batch/c.Pipeline.Microbatches%loss.Group != 0:
		wanted, each := "an even number", "two"
		if loss.Group != 2 {
			wanted, each = fmt.Sprintf("a multiple of %d", loss.Group), fmt.Sprint(loss.Group)
		}
		return c.Invalid("train.batch", c.Train.Batch, wanted+" of sequences a microbatch with "+n.with(c)+": a "+loss.One()+" has "+each)
	}
	return c.validateHead()
}

// ofTokens are the keys of the loss of the next token.
var ofTokens = map[string]bool{"train.label_smoothing": true, "train.z_loss": true, "train.token_accuracy": true}

// ofDocuments are the keys without effect on rows of another form.
var ofDocuments = map[string]bool{
	"data.format": true, "data.field": true, "data.prompt_field": true, "data.mask_field": true, "data.packing": true, "data.documents": true, "data.long": true,
}
