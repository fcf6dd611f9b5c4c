package train

import (
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"strconv"
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
// Of two runs that end in the same bits these lines differ in TokensPerSecond, StepMS and what follows Skipped alone.
type Metrics struct {
	Step            int64  `json:"step"`
	Loss            Number `json:"loss"` // nats a token, the mean over the tokens of the step
	LearningRate    Number `json:"learning_rate"`
	GradNorm        Number `json:"grad_norm"` // global L2 norm before clipping
	Tokens          int64  `json:"tokens"`    // tokens that counted in the loss, since step 0
	TokensPerSecond Number `json:"tokens_per_second"`
	StepMS          Number `json:"step_ms"`               // between the arrival of metrics, without evaluation and saving
	Skipped         int64  `json:"skipped,omitempty"`     // updates left out since step 0 because loss or gradient was not finite
	Spikes          int64  `json:"spikes,omitempty"`      // and because they were beyond the usual, see SpikeConfig
	LeftOut         string `json:"left_out,omitempty"`    // why this step's update was: "not finite", or what was beyond: "loss, gradient norm"
	UpdateNorm      Number `json:"update_norm,omitempty"` // global L2 norm of the update, where SpikeConfig asks for it

	Watched map[string]Number `json:"watched,omitempty"` // figures of Config.Watchers, "NAME/params/PATH/KEY"

	// Where the model is cut into stages, shares of the time of the step, from 0 to 1.
	StageBusy []Number `json:"stage_busy,omitempty"` // in which each stage computed
	Bubble    Number   `json:"bubble,omitempty"`     // in which stages had nothing to do: 1 - the mean of StageBusy
	Transfer  Number   `json:"transfer,omitempty"`   // in which something was under way between stages
}

// EvalMetrics is a line of metrics.jsonl: an evaluation on the validation text.
type EvalMetrics struct {
	Step   int64  `json:"step"`
	Loss   Number `json:"eval_loss"`   // nats a token, the mean over all tokens evaluated
	Tokens int64  `json:"eval_tokens"` // how many they were
	MS     Number `json:"eval_ms"`
}

// Sample is one line of samples.jsonl.
type Sample struct {
	Step        int64   `json:"step"`
	Prompt      string  `json:"prompt"`
	Text        string  `json:"text"` // what the model wrote after the prompt
	Temperature float64 `json:"temperature"`
	TopK        int     `json:"top_k"`
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

// pace is the speed of the last windowSize steps of this process.
type pace struct {
	tokens []int64
	ms     []float64
}

func (p *pace) add(tokens int64, ms float64) {
	if len(p.ms) == windowSize {
		p.tokens, p.ms = append(p.tokens[:0], p.tokens[1:]...), append(p.ms[:0], p.ms[1:]...)
	}
	p.tokens, p.ms = append(p.tokens, tokens), append(p.ms, ms)
}

// rate is in tokens a second; NaN before the first step.
func (p *pace) rate() float64 {
	tokens, ms := int64(0), 0.0
	for i, n := range p.tokens {
		tokens, ms = tokens+n, ms+p.ms[i]
	}
	return float64(tokens) / ms * 1000
}

func perplexity(loss Number) float64 { return math.Exp(float64(loss)) }

// ReadMetrics reads what the run of a run directory has measured, in order. A directory without metrics has none.
func ReadMetrics(dir string) ([]Metrics, []EvalMetrics, error) {
	return readMetrics(filepath.Join(dir, metricsFile))
}
