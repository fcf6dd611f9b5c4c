package train

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"gputrain/internal/jsonline"
	"gputrain/model"
	"gputrain/state"
)

// Number is a float64 whose JSON form also has "NaN", "Infinity" and "-Infinity", as strings: a measured value is never replaced.
type Number float64

// MarshalJSON writes the shortest number that reads back as n.
func (n Number) MarshalJSON() ([]byte, error) {
	v := float64(n)
	switch {
	case math.IsNaN(v):
		return []byte(`"NaN"`), nil
	case math.IsInf(v, 1):
		return []byte(`"Infinity"`), nil
	case math.IsInf(v, -1):
		return []byte(`"-Infinity"`), nil
	}
	return json.Marshal(v)
}

// UnmarshalJSON reads what MarshalJSON writes.
func (n *Number) UnmarshalJSON(data []byte) error {
	text := string(data)
	if len(data) > 1 && data[0] == '"' {
		text = text[1 : len(text)-1]
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return fmt.Errorf("train: metrics: number %s: %w", data, err)
	}
	*n = Number(v)
	return nil
}

// Metrics is one line of metrics.jsonl: what is known of one training step. "Step n" is the step that led to the state after n updates.
// Of two runs that end in the same bits these lines differ in their Cost alone.
type Metrics struct {
	Step            int64  `json:"step"`
	Loss            Number `json:"loss"` // nats a token, the mean over the tokens of the step
	LearningRate    Number `json:"learning_rate"`
	GradNorm        Number `json:"grad_norm"`                   // global L2 norm before clipping
	GradNormClipped Number `json:"grad_norm_clipped,omitempty"` // and after, where the optimizer clips by it
	Tokens          int64  `json:"tokens"`                      // tokens that counted in the loss, since step 0
	Epoch           Number `json:"epoch,omitempty"`             // how often the text has been gone through; none where it has no end
	Skipped         int64  `json:"skipped,omitempty"`           // updates left out since step 0 because loss or gradient was not finite
	Spikes          int64  `json:"spikes,omitempty"`            // and because they were beyond the usual, see SpikeConfig
	LeftOut         string `json:"left_out,omitempty"`          // why this step's update was: "not finite", or what was beyond: "loss, gradient norm"
	UpdateNorm      Number `json:"update_norm,omitempty"`       // global L2 norm of the update, where SpikeConfig asks for it

	// Scale is the power of two that the loss was scaled by, with products of f16.
	Scale Number `json:"scale,omitempty"`

	// Figures are those of the objective, by name, means over the step.
	Figures map[string]Number `json:"figures,omitempty"`

	// Rollout are figures of the generation that begins with this step, by name: rewards and lengths of completions, before any of them was learned from.
	Rollout map[string]Number `json:"rollout,omitempty"`

	// Routing are figures of experts: load_balancing, the loss that balances them, the mean over the batches of the step, and how evenly they are chosen
	// (model.Routing.Spread). ExpertTokens is how many tokens chose each expert of each layer that has some.
	Routing      map[string]Number `json:"routing,omitempty"`
	ExpertTokens [][]int64         `json:"expert_tokens,omitempty"`

	Watched map[string]Number `json:"watched,omitempty"` // figures of Config.Watchers, "NAME/params/PATH/KEY"

	Cost
}

// places are where the members of a line stand in a Metrics.
var places = func() map[string][]int {
	out := map[string][]int{}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Metrics]()) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
			out[name] = f.Index
		}
	}
	return out
}()

// read is json.Unmarshal of a line, in a third of the time: what is no usual line is left to that.
func (m *Metrics) read(line []byte) error {
	if bytes.HasPrefix(line, []byte("{")) && m.usual(line) {
		return nil
	}
	*m = Metrics{}
	return json.Unmarshal(line, m)
}

// usual says whether it could read a line. Nearly all of one is numbers.
func (m *Metrics) usual(line []byte) bool {
	into := reflect.ValueOf(m).Elem()
	usual := true
	return jsonline.Members(line, func(name, value []byte) {
		at, known := places[string(name)]
		if usual = usual && known; !usual {
			return
		}
		var err error
		switch f := into.FieldByIndex(at).Addr().Interface().(type) {
		case *Number:
			err = f.UnmarshalJSON(value)
		case *int64:
			*f, err = strconv.ParseInt(string(value), 10, 64)
		case *uint64:
			*f, err = strconv.ParseUint(string(value), 10, 64)
		default:
			err = json.Unmarshal(value, f)
		}
		usual = err == nil
	}) && usual
}

const trainedWeights, averagedWeights = "trained", "averaged"

// EvalMetrics is a line of metrics.jsonl: an evaluation on the validation text.
type EvalMetrics struct {
	Step   int64  `json:"step"`
	Loss   Number `json:"eval_loss"`   // nats a token, the mean over all tokens evaluated
	Tokens int64  `json:"eval_tokens"` // model.Loss.Counts of the objective
	MS     Number `json:"eval_ms"`

	// Weights are those that the loss is of, where the run keeps a mean of them: "trained", or "averaged" once the mean has a share in them.
	Weights string `json:"eval_weights,omitempty"`

	Figures map[string]Number `json:"eval_figures,omitempty"` // as in Metrics
	Rollout map[string]Number `json:"eval_rollout,omitempty"` // as in Metrics: the loss is the mean reward, with the other sign
}

// Renamed are members of lines by the names that they had when there were figures of pairs alone.
var Renamed = map[string]string{"pairs": "figures", "eval_pairs": "eval_figures"}

// UnmarshalJSON reads Renamed, too.
func (m *Metrics) UnmarshalJSON(line []byte) error {
	type plain Metrics
	return unmarshalRenamed(line, (*plain)(m), &m.Figures)
}

// UnmarshalJSON reads Renamed, too.
func (m *EvalMetrics) UnmarshalJSON(line []byte) error {
	type plain EvalMetrics
	return unmarshalRenamed(line, (*plain)(m), &m.Figures)
}

func unmarshalRenamed(line []byte, into any, figures *map[string]Number) error {
	var earlier struct {
		Pairs     map[string]Number `json:"pairs"`
		EvalPairs map[string]Number `json:"eval_pairs"`
	}
	if err := json.Unmarshal(line, into); err != nil {
		return err
	}
	if err := json.Unmarshal(line, &earlier); err != nil {
		return err
	}
	for _, found := range []map[string]Number{earlier.Pairs, earlier.EvalPairs} {
		if found != nil {
			*figures = found
		}
	}
	return nil
}

// Sample is one line of samples.jsonl.
type Sample struct {
	Step        int64   `json:"step"`
	Prompt      string  `json:"prompt"`
	Asked       bool    `json:"asked,omitzero"`  // it is a question of the run's, on a line of its own
	System      string  `json:"system,omitzero"` // the message before that
	Text        string  `json:"text"`            // what the model wrote after the prompt
	Temperature float64 `json:"temperature"`
	TopK        int     `json:"top_k"`
	TopP        float64 `json:"top_p,omitzero"`
	MinP        float64 `json:"min_p,omitzero"`
	Repetition  float64 `json:"repetition_penalty,omitzero"`
	Seed        uint64  `json:"seed"`
}

// windowSize is the number of steps that the mean loss of the progress line covers.
const windowSize = 32

// window is the losses of the last steps, oldest first. It is kept in checkpoints, so that the mean does not jump at a resume. What is
// not finite is not added: it stands in the metrics of its step, and would hide the others here.
type window struct{ losses []float64 }

func (w *window) add(loss float64) {
	if !finite(loss) {
		return
	}
	if len(w.losses) == windowSize {
		w.losses = append(w.losses[:0], w.losses[1:]...)
	}
	w.losses = append(w.losses, loss)
}

// mean is NaN when nothing has been added.
func (w *window) mean() float64 {
	sum := 0.0
	for _, l := range w.losses {
		sum += l
	}
	return sum / float64(len(w.losses))
}

func perplexity(loss Number) float64 { return math.Exp(float64(loss)) }

// ReadMetrics reads what the run of a run directory has measured, in order. A directory without metrics has none. With lines that cannot be read comes
// an error that says which; the others are there.
func ReadMetrics(dir string) ([]Metrics, []EvalMetrics, error) {
	steps, evals, damaged, err := readMetrics(filepath.Join(dir, metricsFile))
	if err == nil && len(damaged) > 0 {
		err = fmt.Errorf("train: run directory %q: %s", dir, damagedText(metricsFile, damaged))
	}
	return steps, evals, err
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// figures are those of the objective of a step or an evaluation, by name; nil where it has none.
func (c Config) figures(means []float64) (all map[string]Number) {
	for name, v := range c.State.Objective.Row().Figures(means) {
		if all == nil {
			all = map[string]Number{}
		}
		all[name] = Number(v)
	}
	return all
}

// routing are the figures of experts of a step, and how many tokens chose each, by layer; nil without experts.
func (c Config) routing(m state.Metrics) (figures map[string]Number, tokens [][]int64) {
	if m.Experts == nil {
		return nil, nil
	}
	r := model.RoutingOf(c.State.Definition)
	greatest, least, entropy := r.Spread(m.Experts)
	figures = map[string]Number{
		"load_balancing": Number(m.Balance), "greatest_share": Number(greatest), "least_share": Number(least), "entropy": Number(entropy),
	}
	return figures, slices.Collect(slices.Chunk(m.Experts, r.Experts))
}

// shownFigures are the figures that tell of an evaluation, as text.
func shownFigures(l model.Loss, figures map[string]Number) (texts []string) {
	for _, name := range l.Shown {
		text := fmt.Sprintf("%.4f", float64(figures[name]))
		if _, there := figures[name]; !there { // such as a margin of good completions alone
			text = "none"
		} else if strings.HasSuffix(name, "accuracy") {
			text = percent(float64(figures[name]))
		}
		texts = append(texts, text)
	}
	return texts
}
