package setup

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gputrain/hub"
	"gputrain/internal/modelcard"
	"gputrain/model"
	"gputrain/run/runfile"
	"gputrain/run/train"
	"gputrain/state/checkpoint"
)

// Exporting is a model that is about to be written.
type Exporting struct {
	From   *hub.Bundle
	At     string           // where its base was said to be; "": nowhere
	Def    model.Definition // of From
	Merged bool             // its adapters are added to the base
	To     string           // what it is called follows from that
}

// Card is what is known of it, from its directory, the record of its run and the cards of what that began with. What cannot be read is told.
func Card(e Exporting, tell func(string)) modelcard.Card {
	run := runOf(e.From.Path("."), tell)
	if len(e.From.Parts()) > 0 { // each has been trained by a run of its own
		run = nil
	}
	models, last := e.bases()
	defer closeAll(models)
	c := modelcard.Card{Title: modelName(e.To), Tags: []string{"gputrain"}}
	if e.Def.Vocab() > 0 {
		c.Task = tasks[model.HeadOf(e.Def).Kind]
	}
	e.relate(&c, run, last)
	own := models
	if run == nil && !e.Merged { // a copy of what somebody else has named
		own = append([]*hub.Bundle{e.From}, models...)
	}
	c.License = foundLicense(own, tell)
	e.describe(&c, run)
	if run != nil {
		describeRun(&c, run)
	}
	if own := train.Program(); run == nil || run.Program != own {
		c.Add("written by", own)
	}
	return c
}

// runOf is what is known of the run that has a checkpoint; nil where dir is none of a run.
func runOf(dir string, tell func(string)) *train.Summary {
	of, err := runDirOf(dir)
	if err != nil || of == "" {
		return nil
	}
	record, err := checkpoint.ReadRecord(checkpoint.OS, dir)
	if err != nil {
		return nil // it is no checkpoint, or the model says what is wrong with it
	}
	s, err := train.ReadSummaryAt(of, record.Step)
	if err != nil {
		tell(fmt.Sprintf("%s has nothing of the run: %v", modelcard.File, err))
		return nil
	}
	return s
}

// bases are the models that the model began with, the nearest first: that of its adapters' base, what its run began
// with, what the run of that began with. last is where the last is, or was: that one may be gone.
func (e Exporting) bases() (models []*hub.Bundle, last string) {
	next := ""
	base, err := e.From.Base()
	if base != nil {
		next = base.Path(".")
	} else if err == nil {
		next, err = beganWith(e.From.Path("."))
	}
	for range mostOriginals {
		if err != nil || next == "" {
			break
		}
		found, lost := Open(next, io.Discard)
		if lost != nil && len(models) == 0 && e.At != "" {
			found, lost = Open(e.At, io.Discard)
		}
		if lost != nil {
			return models, next
		}
		models, last = append(models, found), found.Path(".")
		next, err = beganWith(last)
	}
	return models, last
}

func closeAll(models []*hub.Bundle) {
	for _, b := range models {
		_ = b.Close() // nothing was written
	}
}

// relate says what the model is, and what of.
func (e Exporting) relate(c *modelcard.Card, run *train.Summary, last string) {
	adapters := len(model.AdapterParams(e.Def)) > 0
	if last != "" {
		c.Base = modelName(last)
	}
	if adapters && run == nil {
		c.Base = cmp.Or(e.From.BaseOnHub(), c.Base)
	}
	of := cmp.Or(c.Base, "its base")
	switch {
	case e.Merged:
		c.About, c.Relation = fmt.Sprintf("%s with low-rank adapters merged into it.", of), modelcard.Finetune
	case adapters:
		c.About, c.Relation = fmt.Sprintf("Low-rank adapters for %s.", of), modelcard.Adapter
	case c.Base != "":
		c.About, c.Relation = fmt.Sprintf("%s, trained further.", of), modelcard.Finetune
	case run != nil:
		c.About = "A model trained from scratch."
	default:
		c.About = fmt.Sprintf("The weights of %s, written anew: nothing was trained.", modelName(e.From.Path(".")))
		c.Base = modelName(e.From.Path("."))
	}
	h := model.HeadOf(e.Def)
	command := "gputrain sample DIR"
	if h.Kind != "" {
		command = "gputrain score DIR rows.jsonl"
	}
	class := map[string]string{"": "ForCausalLM", model.HeadScores: "ForSequenceClassification"}[h.Kind]
	code := func(module, class, arguments string) string {
		return fmt.Sprintf("from %s import %s\n\nmodel = %s.from_pretrained(\"DIR\"%s)%s", module, class, class, arguments, pooled(h))
	}
	switch {
	case adapters && !e.Merged:
		c.Library = "peft"
		c.Tags = append(c.Tags, adapterKind(e.Def))
		arguments := ""
		switch h.Kind {
		case model.HeadScores:
			arguments = fmt.Sprintf(", num_labels=%d", h.Labels)
		case model.HeadVectors:
			class = "ForFeatureExtraction"
		}
		c.Use = append(c.Use, modelcard.Use{With: "PEFT", Language: "python", Code: code("peft", "AutoPeftModel"+class, arguments)},
			modelcard.Use{With: "gputrain, and the base in BASE", Language: "sh", Code: strings.Replace(command, "DIR", "DIR --base BASE", 1) + "\ngputrain merge BASE DIR --to MERGED"})
	default:
		if _, known := model.BaseOf(e.Def).Settings()["architectures"]; known {
			c.Library = "transformers"
			c.Use = append(c.Use, modelcard.Use{With: "transformers", Language: "python", Code: code("transformers", "AutoModel"+class, "")})
		}
		c.Use = append(c.Use, modelcard.Use{With: "gputrain", Language: "sh", Code: command})
	}
}

// tasks are what the hub calls what models are for, by their heads.
var tasks = map[string]string{"": "text-generation", model.HeadScores: "text-classification", model.HeadVectors: "feature-extraction"}

// pooled is how vectors are made of what transformers gives, and compared; "": the model gives none.
func pooled(h model.Head) string {
	if h.Kind != model.HeadVectors {
		return ""
	}
	pool := "x[range(len(x)), mask.sum(1) - 1]  # the last token of each row, padded on the right"
	if h.Pooling == model.PoolingMean {
		pool = "(x * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)"
	}
	return `

# inputs: input_ids and attention_mask of rows as training had them, with the token that ends a text
mask = inputs["attention_mask"]
x = model(**inputs).last_hidden_state
vectors = ` + pool + `
vectors = vectors / vectors.norm(dim=1, keepdim=True)
similarity = vectors @ vectors.T`
}

func adapterKind(def model.Definition) string {
	if strings.Contains(model.DescribeLoRA(def), " with dora") {
		return "dora"
	}
	return "lora"
}

// describe adds what the directory itself tells.
func (e Exporting) describe(c *modelcard.Card, run *train.Summary) {
	base := model.BaseOf(e.Def)
	c.Add("model", fmt.Sprintf("%s, %d parameters", base.Kind(), model.Parameters(base)))
	c.Add("adapters", model.DescribeLoRA(e.Def))
	if len(e.From.Parts()) > 0 {
		c.Add("sum of adapters", PartsText(e.From, modelName))
	}
	if c.Base == "" {
		return
	}
	c.Add("base", c.Base)
	if upon, err := e.From.Upon(); err == nil && upon != nil {
		c.Add("trained upon parameters of", upon.Fingerprint)
	} else if run != nil {
		c.Add("trained upon parameters of", run.Origin)
	}
	found := "not known"
	if l := c.License; len(l.Names) > 0 {
		found = strings.TrimRight(strings.Join([]string{strings.Join(l.Names, ", "), l.Name, l.Link}, " "), " ")
	}
	c.Add("licence of the base", found)
}

// describeRun adds what the run tells.
func describeRun(c *modelcard.Card, s *train.Summary) {
	values := map[string]runfile.Recorded{}
	for _, r := range s.Settings {
		values[r.Key] = r
	}
	learned := runfile.Learned(s.Settings)
	c.Add("data", dataText(s, values))
	if teacher := teacherOf(values); teacher != "" {
		c.Add("teacher", modelName(teacher))
	}
	c.Add("steps", fmt.Sprintf("%d of %d", s.Step, s.Steps))
	if s.Last != nil {
		c.Add(learned.Counts+" in the loss", strconv.FormatInt(s.Last.Tokens, 10))
		c.Add("training loss", fmt.Sprintf("%s at step %d, %s at step %d", loss(s.First.Loss), s.First.Step, loss(s.Last.Loss), s.Last.Step))
	}
	if s.Best != nil {
		c.Add("best validation loss", fmt.Sprintf("%s at step %d", loss(s.Best.Loss), s.Best.Step))
	}
	c.Add("trained with", s.Program)
	c.Add("trained on", s.Adapter)
	if learned.Tag != "" && learned.Tag != c.Task {
		c.Tags = append(c.Tags, learned.Tag)
	}
	for _, r := range s.Settings {
		if tellsSetting(r) {
			var value bytes.Buffer
			if json.Compact(&value, r.Value) == nil {
				c.Settings = append(c.Settings, modelcard.Row{Name: r.Key, Value: value.String()})
			}
		}
	}
}

// teacherOf is the teacher of the run of a record; "": none.
func teacherOf(values map[string]runfile.Recorded) (path string) {
	_ = json.Unmarshal(values["distil.teacher"].Value, &path) // a record without it has none
	return path
}

func loss(n train.Number) string { return strconv.FormatFloat(float64(n), 'f', 4, 64) }

// usualSettings are told whether or not anybody has chosen them.
var usualSettings = []string{
	"optimizer.name", "optimizer.learning_rate", "optimizer.schedule.type", "optimizer.weight_decay", "optimizer.clip_grad", "model.context",
	"train.batch", "train.accumulate", "train.seed",
}

// tellsSetting tells whether a setting is one that decides what is learned and was chosen. Those that name places are told otherwise, or not at all.
func tellsSetting(r runfile.Recorded) bool {
	switch runfile.ResumeOf(r.Key) {
	case runfile.Free, runfile.ByPlace, runfile.ByContent:
		return false
	}
	return slices.Contains(usualSettings, r.Key) || !runfile.Origin(r.Origin).IsDefault() && !slices.Contains([]string{"null", `""`, "[]", "{}"}, string(r.Value))
}

// dataText tells what was learned from: names without folders, amounts, the fingerprint.
func dataText(s *train.Summary, values map[string]runfile.Recorded) string {
	var names []string
	for _, key := range []string{"data.text", "data.jsonl"} {
		var all []string
		if json.Unmarshal(values[key].Value, &all) == nil {
			names = append(names, all...)
		}
	}
	var mixture []runfile.Source
	if json.Unmarshal(values["data.mixture"].Value, &mixture) == nil {
		for _, m := range mixture {
			names = append(names, slices.Concat(m.Text, m.JSONL)...)
		}
	}
	for i, name := range names {
		names[i] = lastPart(name)
	}
	parts := []string{strings.Join(names, ", ")}
	if len(names) == 0 {
		parts = nil // the text that the program finds by itself
	}
	if a := s.Data; a != nil {
		documents := map[bool]int{true: 0, false: a.Documents}[a.Groups > 0]
		for _, n := range []struct {
			count int64
			of    string
		}{{int64(a.Files), "files"}, {a.Bytes, "bytes"}, {int64(documents), "documents"}, {int64(a.Groups), runfile.Learned(s.Settings).Counts}, {a.Tokens, "tokens"}} {
			if n.count > 0 {
				parts = append(parts, strings.TrimSuffix(fmt.Sprintf("%d %s", n.count, n.of), map[bool]string{true: "s"}[n.count == 1]))
			}
		}
	}
	if s.Fingerprint != "" {
		parts = append(parts, "fingerprint "+s.Fingerprint)
	}
	return strings.Join(parts, "; ")
}

// PartsText says which adapters count together, and how much: "a, b=0.5".
func PartsText(b *hub.Bundle, name func(path string) string) string {
	var texts []string
	for _, p := range b.Parts() {
		text := name(p.Path("."))
		if p.Weight != 1 {
			text += "=" + strconv.FormatFloat(p.Weight, 'g', -1, 64)
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, ", ")
}

var hubCache = regexp.MustCompile(`(?:^|/)models--([\w.-]+)/snapshots/[0-9a-f]+$`)

// modelName is what a model in a place is called: as on the hub, where the place is in the hub's cache, else its file or directory, of a checkpoint that of
// the run. Where a place is, is nobody's business.
func modelName(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	if m := hubCache.FindStringSubmatch(filepath.ToSlash(path)); m != nil {
		return strings.Replace(m[1], "--", "/", 1)
	}
	if run, err := runDirOf(path); err == nil && run != "" {
		path = run
	}
	return strings.TrimSuffix(lastPart(path), ".gguf")
}

// lastPart is a path without its folders, whichever system it is of.
func lastPart(path string) string {
	return path[strings.LastIndexAny(path, `/\`)+1:]
}
