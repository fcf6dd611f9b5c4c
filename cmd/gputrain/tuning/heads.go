package tuning

import (
	"encoding/json"
	"slices"
)

// headSettings are what is set for methods that give a model another head, over those of all recipes: rates and epochs as published.
var headSettings = map[string][]string{
	"reward":  {"head.objective=reward", "optimizer.learning_rate=1e-4", "data.epochs=1"},
	"classes": {"head.objective=classes", "optimizer.learning_rate=1e-4", "data.epochs=3"},
	"embed":   {"head.objective=embed", "head.pooling=last", "head.temperature=0.05", "optimizer.learning_rate=1e-4", "data.epochs=1"},
}

// HeadSettings are the settings of a method that gives a model another head: reward, classes or embed; nil: it is another method. What the rows have besides is
// theirs to say: labels, and how many negatives there are.
func HeadSettings(method string) []string { return slices.Clone(headSettings[method]) }

// HeadOf is the method that the keys of a row ask for, as none of the others could; "": they do not.
func HeadOf(row map[string]json.RawMessage) string {
	has := func(key string) bool { return len(row[key]) > 0 && string(row[key]) != "null" }
	switch {
	case has("query") && has("positive"):
		return "embed"
	case !has("label") || has("chosen") || has("rejected") || has("kto_tag"):
		return "" // pairs are preferences as well as rewards
	case has("completion") && slices.Contains([]string{"true", "false", "0", "1"}, string(row["label"])):
		return "" // good and bad, as well as two classes
	case has("text") || has("messages") || has("completion") || has("input_ids"):
		return "classes"
	}
	return ""
}
