package setup

import (
	"cmp"
	"fmt"
	"strings"

	"gputrain/hub"
	"gputrain/internal/stranger"
	"gputrain/run/train"
)

// generationFile says how text is drawn from the model beside it.
const generationFile = "generation_config.json"

// generation is what is read of generationFile.
type generation struct {
	Sample      *bool    `json:"do_sample"`
	Temperature *float64 `json:"temperature"`
	TopK        *int     `json:"top_k"`
	TopP        *float64 `json:"top_p"`
	MinP        *float64 `json:"min_p"`
	Repetition  *float64 `json:"repetition_penalty"`

	Ends stranger.IDs `json:"eos_token_id"`
}

// Sampling lays what generation_config.json of a model says of sampling over c, and names it; "" where it says nothing.
// do_sample: false is a temperature of 0. Where it has no eos_token_id, that of config.json ends a text.
func Sampling(b *hub.Bundle, c *train.SampleConfig) (says string, err error) {
	var g generation
	ends, err := stranger.Ends(b, "config.json")
	if err := cmp.Or(stranger.Beside(b, generationFile, &g), err); err != nil {
		return "", &ModelError{err}
	}
	if c.Stop = g.Ends; c.Stop == nil {
		c.Stop = ends
	}
	if g.Sample != nil && !*g.Sample {
		g.Temperature = new(float64)
	}
	var names []string
	lay := func(name string, value *float64, to *float64) {
		if value != nil {
			*to = *value
			names = append(names, fmt.Sprintf("%s %v", name, *value))
		}
	}
	lay("temperature", g.Temperature, &c.Temperature)
	if g.TopK != nil {
		c.TopK = *g.TopK
		names = append(names, fmt.Sprintf("top_k %d", *g.TopK))
	}
	lay("top_p", g.TopP, &c.TopP)
	lay("min_p", g.MinP, &c.MinP)
	lay("repetition_penalty", g.Repetition, &c.RepetitionPenalty)
	return strings.Join(names, ", "), nil
}
