package train

import (
	"context"
	"fmt"
	"slices"

	"gputrain/buffers/prng"
	"gputrain/run/rollout"
)

// unless1 is 0 for 1, which asks for nothing either.
func unless1(x float64) float64 {
	if x == 1 {
		return 0
	}
	return x
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
// seed and the token's number alone, so sampling changes nothing of a run. yield gets every token as it is drawn, but for the one that ends the text, and
// may end the drawing by returning false. What decides about a token comes in the order of Hugging Face's: penalty, temperature, TopK, TopP, MinP.
func GenerateTokens(ctx context.Context, c SampleConfig, prompt []int32, m Decoder, yield func(int32) bool) error {
	if len(prompt) == 0 {
		return fmt.Errorf("train: sample: prompt: 0 tokens, want at least 1")
	}
	key := prng.NewKey(c.Seed).FoldIn(sampleStream)
	window := slices.Clone(prompt[max(0, len(prompt)-m.Window()):])
	said := rollout.NewSaid(c.RepetitionPenalty, prompt)
	draw := rollout.Chooser{Temperature: c.Temperature, TopK: c.TopK, TopP: c.TopP, MinP: c.MinP, ByWeight: true}
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
		next, err := draw.Choose(said.Penalized(values), key.Uniform(uint64(i)))
		if err != nil {
			return fmt.Errorf("train: sample: %w", err)
		}
		if slices.Contains(c.Stop, next) || !yield(next) {
			return nil
		}
		window = append(window, next)
		said.Add(next)
	}
	return nil
}

// sampleStream keeps the random numbers of sampling apart from all others of a run.
const sampleStream = 0x5a3b1e
