package tensorboard

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"gputrain/run/train"
)

// tagOf puts a figure of metrics.jsonl into a group, which TensorBoard shows as one.
func tagOf(key string) string {
	stage, staged := strings.CutPrefix(key, "stage_")
	validation, validated := strings.CutPrefix(key, "eval_")
	switch {
	case strings.HasPrefix(key, "figures/"), strings.HasPrefix(key, "eval_figures/"):
		return tagOf(strings.Replace(key, "figures/", "", 1))
	case strings.HasPrefix(key, "watched/"), strings.HasPrefix(key, "cluster/"), strings.HasPrefix(key, "rollout/"), strings.HasPrefix(key, "routing/"):
		return key
	case strings.HasSuffix(key, "_ms"), strings.HasSuffix(key, "_per_second"), key == "mfu":
		return "speed/" + key
	case strings.HasSuffix(key, "_bytes"):
		return "memory/" + key
	case staged:
		return "stages/" + stage
	case key == "bubble", key == "transfer":
		return "stages/" + key
	case validated:
		return "validation/" + validation
	}
	return "train/" + key
}

// scalars are the numbers of a line of metrics.jsonl, but for its step, sorted by their names there.
func scalars(line any) ([]Value, error) {
	text, err := json.Marshal(line)
	if err != nil {
		return nil, fmt.Errorf("tensorboard: metrics: %w", err)
	}
	var fields map[string]any
	if err := json.Unmarshal(text, &fields); err != nil {
		return nil, fmt.Errorf("tensorboard: metrics: %w", err)
	}
	delete(fields, "step")
	delete(fields, "expert_tokens") // thousands of numbers
	return appendScalars(nil, "", fields), nil
}

// appendScalars appends the numbers in v, which Number writes as strings where they are not finite. Other strings are no figures.
func appendScalars(to []Value, key string, v any) []Value {
	scalar := func(x float64) { to = append(to, Value{Tag: tagOf(key), Kind: Scalar, Scalar: float32(x)}) }
	switch v := v.(type) {
	case float64:
		scalar(v)
	case string:
		var n train.Number
		if slices.Contains([]string{"NaN", "Infinity", "-Infinity"}, v) && n.UnmarshalJSON([]byte(v)) == nil {
			scalar(float64(n))
		}
	case []any:
		for i, x := range v {
			to = appendScalars(to, fmt.Sprintf("%s.%d", key, i), x)
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			to = appendScalars(to, strings.TrimPrefix(key+"/"+name, "/"), v[name])
		}
	}
	return to
}

// distribution is a line of histograms.jsonl. What is not finite is in no bucket; where there is any, a scalar says how much.
func distribution(h train.Histogram) []Value {
	n := float64(h.Elements - h.NonFinite)
	out := &Histogram{Count: n}
	if n > 0 {
		low, high, mean, deviation := float64(h.Min), float64(h.Max), float64(h.Mean), float64(h.Deviation)
		out.Min, out.Max, out.Sum, out.SumOfSquares = low, high, mean*n, (deviation*deviation+mean*mean)*n
		for i, count := range h.Counts {
			out.Limits = append(out.Limits, low+(high-low)*float64(i+1)/float64(len(h.Counts)))
			out.Counts = append(out.Counts, float64(count))
		}
	}
	values := []Value{{Tag: h.Name, Kind: Distribution, Histogram: out}}
	if h.NonFinite > 0 {
		values = append(values, Value{Tag: "nonfinite/" + h.Name, Kind: Scalar, Scalar: float32(h.NonFinite)})
	}
	return values
}

// sample is a line of samples.jsonl as a block of Markdown that is shown as it is.
func sample(s train.Sample) Value {
	text := bytes.ToValidUTF8([]byte("    "+strings.ReplaceAll(s.Prompt+s.Text, "\n", "\n    ")), []byte("�"))
	tag := "sample"
	if s.Asked {
		tag = "asked/" + strings.TrimSpace(s.Prompt)
	}
	return Value{Tag: tag, Kind: Text, Text: string(text)}
}
