package train

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"gputrain/buffers/prng"
)

// SampleConfig says how text is drawn from a model.
type SampleConfig struct {
	Prompt      string  // at least one token long
	Tokens      int     // how many to draw
	Temperature float64 // 0 takes the most probable token each time
	TopK        int     // only the K most probable tokens; 0 all
	Seed        uint64
}

// Validate reports the first value that cannot be meant.
func (c SampleConfig) Validate() error {
	switch {
	case c.Prompt == "":
		return fmt.Errorf("train: sample: prompt: empty, want at least one token")
	case c.Tokens < 1:
		return fmt.Errorf("train: sample: tokens: %d, want at least 1", c.Tokens)
	case !(c.Temperature >= 0) || math.IsInf(c.Temperature, 1):
		return fmt.Errorf("train: sample: temperature: %v, want 0 or more", c.Temperature)
	case c.TopK < 0:
		return fmt.Errorf("train: sample: top_k: %d, want 0 or more", c.TopK)
	}
	return nil
}

// Tokenizer turns text into tokens and back.
type Tokenizer interface {
	Encode(text string) []int32
	Decode(tokens []int32) string
}

// Decoder is a model that continues text: *state.Model and every State are one.
type Decoder interface {
	// Window is the number of tokens that the model sees at most.
	Window() int
	// Logits gives the logits of the token that follows a window of 1 to Window tokens.
	Logits(ctx context.Context, window []int32) ([]float32, error)
	// Decode appends a token to that window and gives the logits of the next one, until the window is full.
	Decode(ctx context.Context, token int32) ([]float32, error)
}

// GenerateTokens draws tokens after a prompt, of which the model sees at most the last Window. Each token drawn goes into its window; once that is
// full, the newer half of it is taken in as a window of its own, which has room for as many again. Random numbers are a function of the
// seed and the token's number alone, so sampling changes nothing of a run. yield gets every token as it is drawn and may end the
// drawing by returning false.
func GenerateTokens(ctx context.Context, c SampleConfig, prompt []int32, m Decoder, yield func(int32) bool) error {
	if len(prompt) == 0 {
		return fmt.Errorf("train: sample: prompt: 0 tokens, want at least 1")
	}
	key := prng.NewKey(c.Seed).FoldIn(sampleStream)
	window := slices.Clone(prompt[max(0, len(prompt)-m.Window()):])
	begun := false
	for i := range c.Tokens {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		var values []float32
		var err error
		if len(window) > m.Window() {
			window, begun = window[len(window)-max(1, m.Window()/2):], false
		}
		if begun {
			values, err = m.Decode(ctx, window[len(window)-1])
		} else {
			values, err = m.Logits(ctx, window)
			begun = true
		}
		if err != nil {
			return err
		}
		next, err := choose(values, c.Temperature, c.TopK, key.Uniform(uint64(i)))
		if err != nil {
			return err
		}
		window = append(window, next)
		if !yield(next) {
			return nil
		}
	}
	return nil
}

// errLogits says that the model's answer is not numbers.
var errLogits = errors.New("not finite")

// sampleStream keeps the random numbers of sampling apart from all others of a run.
const sampleStream = 0x5a3b1e

// choose draws a token: probabilities are softmax(logits/temperature) over the topK highest, and the token is the one in whose
// share of [0, 1) u falls, most probable first. Equal logits stand in the order of their ids.
func choose(logits []float32, temperature float64, topK int, u float32) (int32, error) {
	order := make([]int32, len(logits))
	for i, l := range logits {
		if !finite(float64(l)) {
			return 0, fmt.Errorf("train: sample: logit %d: %v: %w", i, l, errLogits)
		}
		order[i] = int32(i)
	}
	slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(logits[b], logits[a]) })
	if temperature == 0 {
		return order[0], nil
	}
	if topK > 0 {
		order = order[:min(topK, len(order))]
	}
	weights := make([]float64, len(order))
	total := 0.0
	for i, token := range order {
		weights[i] = math.Exp((float64(logits[token]) - float64(logits[order[0]])) / temperature)
		total += weights[i]
	}
	rest := float64(u) * total
	for i, w := range weights {
		if rest -= w; rest < 0 {
			return order[i], nil
		}
	}
	return order[len(order)-1], nil
}
