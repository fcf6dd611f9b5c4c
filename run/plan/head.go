package plan

import (
	"fmt"
	"slices"

	"gputrain/model"
	"gputrain/run/runfile"
)

// LooksForLabels tells whether the labels of a model are read from the rows of a run file, as nothing else names them.
func LooksForLabels(spec *runfile.Config, def model.Definition) bool {
	h, own := spec.Head, model.HeadOf(def)
	return spec.Objective().Loss == classes && len(h.Labels) == 0 && !(own.Kind == model.HeadScores && own.Labels > 1)
}

// classes is the objective whose labels are classes.
const classes = "classes"

// headed is def with the head that a run file names; def itself where it names none.
func headed(spec *runfile.Config, def model.Definition, w World) (model.Definition, error) {
	o := spec.Objective()
	kind := o.Row().Head
	if kind == "" {
		return def, nil
	}
	h, own := model.Head{Kind: kind, Labels: 1}, model.HeadOf(def)
	switch {
	case kind == model.HeadVectors:
		h.Labels, h.Pooling = 0, spec.Head.Pooling
		if own.Kind == kind && !spec.Given("head.pooling") {
			h.Pooling = own.Pooling
		}
	case o.Loss == classes:
		h.Labels, h.Names = max(spec.Head.NumLabels, len(spec.Head.Labels)), spec.Head.Labels
		switch l := w.Labels; {
		case h.Labels == 0 && own.Kind == kind && own.Labels > 1:
			h.Labels, h.Names = own.Labels, own.Names
		case l != nil && h.Labels > 0 && l.Count > h.Labels:
			return nil, spec.Invalid("head.num_labels", h.Labels, fmt.Sprintf("%d or more, as the rows of data.jsonl have labels", l.Count))
		case l != nil:
			h.Labels, h.Names = max(h.Labels, l.Count), l.Names
		}
		for h.Names != nil && len(h.Names) < h.Labels { // of which the rows have none
			h.Names = append(slices.Clip(h.Names), model.Head{}.Label(len(h.Names)))
		}
		if h.Labels < 2 {
			return nil, spec.Invalid("head.objective", o.Loss, fmt.Sprintf("two labels or more in data.jsonl, found %d; or head.labels", h.Labels))
		}
		if own.Kind == kind && own.Labels == h.Labels && len(h.Names) == 0 {
			h.Names = own.Names
		}
	}
	if own.Kind == model.HeadScores && kind == own.Kind && own.Labels != h.Labels {
		return nil, spec.Invalid("head.objective", o.Loss, fmt.Sprintf("%d labels, as model.from has: a model of %d is begun from a language model", own.Labels, h.Labels))
	}
	if kind == model.HeadScores {
		h.Padding, _ = w.Tokens.padding(spec, def)
	}
	def, err := model.WithHead(def, h)
	if err != nil {
		return nil, fmt.Errorf("run file: %s: %w", spec.At("head.objective"), err)
	}
	return def, nil
}

// invalidByte is no byte of UTF-8.
const invalidByte = 0xff

// padding finds a token for pad_token_id with which no row ends, and says why it is one. nil with a reason: the one of config.json stays. nil without a reason:
// none is known.
func (t Tokens) padding(spec *runfile.Config, def model.Definition) (id *int32, why string) {
	var ends []int32
	if end := spec.Data.Layout.End; end != nil && *end >= 0 {
		ends = append(ends, int32(*end))
	}
	if t.Tokenizer != nil {
		ends = append(ends, t.Tokenizer.EndTokens()...)
	} else if spec.Data.Layout.End == nil {
		ends = append(ends, 0) // of bytes
	}
	if t.Closing != nil {
		ends = append(ends, *t.Closing)
	}
	fits := func(id int32) bool { return int(id) < def.Vocab() && !slices.Contains(ends, id) }
	if own, there := model.Padding(def); there && own >= 0 && fits(own) {
		return nil, "as it was"
	}
	if t.Tokenizer == nil {
		if last := int32(invalidByte); t.Kind == ByteTokens && fits(last) {
			return &last, "a byte that no text has"
		}
		return nil, ""
	}
	if pad, known := t.Tokenizer.ID(t.Tokenizer.Padding()); known && fits(pad) {
		return &pad, "the tokenizer's padding"
	}
	for _, id := range t.Tokenizer.Special() {
		if fits(id) {
			token, _ := t.Tokenizer.Token(id) // as Special lists it
			return &id, fmt.Sprintf("%q, a special token with which no row ends", token)
		}
	}
	return nil, ""
}

// layHead lays the keys of a head that the run file does not set, and tells of a new head.
func (p *Plan) layHead(def model.Definition, w World) {
	spec, h := p.Spec, model.HeadOf(def)
	if spec.Objective().Row().Head == "" || h.Kind == "" {
		return
	}
	from, before := runfile.Origin("model.from"), model.Head{}
	if w.Model != nil {
		before = model.HeadOf(w.Model.Definition)
	}
	if w.Labels != nil {
		from = "data.jsonl"
	}
	lay := func(key string, value any, used bool) {
		if used && !spec.Given(key) && fmt.Sprint(spec.Value(key)) != fmt.Sprint(value) {
			spec.Put(key, value, from)
			p.Told = append(p.Told, fmt.Sprintf("%s %v (%s)", key, value, from))
		}
	}
	lay("head.num_labels", h.Labels, spec.Head.Objective == classes)
	lay("head.labels", h.Names, spec.Head.Objective == classes && h.Names != nil)
	lay("head.pooling", h.Pooling, h.Pooling != "")
	spec.Put("train.sample_tokens", 0, "head.objective: the model writes no text")
	if h.Kind == model.HeadScores {
		if before.Kind != h.Kind && w.Adapters == nil {
			p.Told = append(p.Told, fmt.Sprintf("a new head of %d scores a row is drawn, with the deviation of the embedding", h.Labels))
		}
		base, _ := model.WithHead(def, model.Head{}) // of a new model, which has no adapters
		if w.Model != nil {
			base = w.Model.Definition
		}
		switch id, why := w.Tokens.padding(spec, base); {
		case id != nil:
			p.Told = append(p.Told, fmt.Sprintf("pad_token_id %d of the model that is written: %s", *id, why))
		case why == "":
			p.Told = append(p.Told, "warning: the model that is written has no pad_token_id: nothing tells of a token with which no row ends, and transformers takes no batches of several rows without one")
		}
	}
}

// fitsHead refuses a model whose head the run does not learn from.
func fitsHead(spec *runfile.Config, def model.Definition) error {
	wanted, found := spec.Objective().Row().Head, model.HeadOf(def)
	if wanted == found.Kind {
		return nil
	}
	key, from := "model.from", spec.Model.From
	if spec.LoRA.From != "" {
		key, from = "lora.from", spec.LoRA.From
	}
	return fmt.Errorf("run file: %s: found %s in place of logits, wanted head.objective reward, classes or embed (docs/heads.md)",
		spec.At(key), map[string]string{model.HeadScores: fmt.Sprintf("%d scores a row in %s", found.Labels, from), model.HeadVectors: "vectors in " + from}[found.Kind])
}
