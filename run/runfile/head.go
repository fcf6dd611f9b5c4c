package runfile

import (
	"slices"

	"gputrain/model"
)

// head is the section of networks that give scores or vectors of rows.
type head struct {
	Objective   string   `yaml:"objective" default:"none" range:"heads" doc:"a head other than the logits of tokens, and what it learns from rows of data.jsonl (docs/heads.md): a score for a reward model, from rows with a prompt, a chosen and a rejected completion (reward); scores of labels, from rows with a text and a label (classes); vectors, from rows with a query, a positive and perhaps negatives (embed). model.from may be a language model, whose logits the new head takes the place of, or have such a head. none: logits"`
	NumLabels   int      `yaml:"num_labels" range:"0..32768" doc:"classes: how many labels there are; 0: as many as head.labels or the directory of model.from names, else as the rows have"`
	Labels      []string `yaml:"labels" doc:"classes: names of the labels, in the order of their numbers (id2label of config.json); empty: those of a directory with such a head, else the names in the rows, sorted"`
	Pooling     string   `yaml:"pooling" default:"last" range:"last|mean" doc:"embed: what of a row becomes its vector: the output of the last norm at its last token (last), or the mean over its tokens (mean). With model.from a directory of vectors the default is its own"`
	Temperature float64  `yaml:"temperature" default:"0.05" range:">0" doc:"embed: cosines are divided by this before they are compared; 0.02 to 0.05 are usual"`
	Negatives   int      `yaml:"negatives" range:"0..1000" doc:"embed: negatives of a row at most; rows with fewer have room left. Positives and negatives of all other rows of an update are negatives too"`
	Centering   float64  `yaml:"center_rewards_coefficient" range:"0..1e30" doc:"reward: weight of the square of the sum of a pair's scores, which keeps scores near 0; 0.01 is usual. 0: none"`
}

// heads are the values of head.objective: the objectives of other heads than logits.
var heads = objectives(func(of model.Loss) bool { return of.Head != "" })

// validateHead refuses labels that are not as many as they are said to be, or the same.
func (c *Config) validateHead() error {
	h := c.Head
	for i, name := range h.Labels {
		if name == "" || slices.Contains(h.Labels[:i], name) {
			return c.Invalid("head.labels", inline(h.Labels), "different names, none of them empty")
		}
	}
	switch n := len(h.Labels); {
	case n > 0 && h.NumLabels > 0 && n != h.NumLabels:
		return c.Invalid("head.num_labels", h.NumLabels, "the number of names in head.labels, or nothing")
	case n == 1 || h.NumLabels == 1:
		return c.Invalid("head.objective", h.Objective, "two labels or more; one score is a reward model's")
	}
	return nil
}
