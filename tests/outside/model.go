package main

import (
	"errors"
	"fmt"
	"math"

	"gputrain/model"
)

// averages is a language model without attention: every block adds silu(running_mean(x) Wᵀ) to x.
type averages struct {
	layers, width, vocab, context int
	tied                          bool
	deviation                     float64 // of the embedding at first
}

func init() {
	model.Register(model.Family{
		Kind: "averages", Embeddings: []string{"embed.weight"}, Head: "head.weight",
		Read: func(c *model.ConfigReader) (model.Definition, error) {
			return averages{
				c.Size("layers"), c.Size("width"), c.Size("vocab_size"), c.Size("context"), c.Flag("tied", false), c.Number("deviation", 0.1, false),
			}, nil
		},
		New: func(k model.Keys) (model.Definition, error) {
			return averages{k.Layers, k.Width, k.Vocab, k.Context, k.TieHead, 0.1}, nil
		},
	})
}

func (averages) Kind() string   { return "averages" }
func (a averages) Vocab() int   { return a.vocab }
func (a averages) Context() int { return a.context }

func (a averages) Settings() map[string]any {
	return map[string]any{
		"layers": a.layers, "width": a.width, "vocab_size": a.vocab, "context": a.context, "tied": a.tied, "deviation": a.deviation,
	}
}

func mix(layer int) string { return fmt.Sprintf("layers.%03d.mix.weight", layer) }

func (a averages) Params() []model.Param {
	deviation := 1 / math.Sqrt(float64(a.width))
	params := []model.Param{{Path: "embed.weight", Shape: []int{a.vocab, a.width}, Std: a.deviation}}
	if !a.tied {
		params = append(params, model.Param{Path: "head.weight", Shape: []int{a.vocab, a.width}, Std: deviation})
	}
	for i := range a.layers {
		params = append(params, model.Param{Path: mix(i), Shape: []int{a.width, a.width}, Std: deviation})
	}
	return params
}

func (a averages) Build(batch, seq int, o model.Options) (*model.Built, error) {
	b, err := model.NewBuilder(a, batch, seq, o)
	if err != nil {
		return nil, err
	}
	if o.Window > 0 {
		return nil, errors.New("averages: build: a window: it keeps nothing to go on with")
	}
	embedding := b.Read("embed.weight")
	x := b.Tokens(embedding)
	for i := range a.layers {
		mean := b.Append(runningMean{}, x).Outputs[0]
		x = b.Add(x, b.Apply("silu", b.Linear(mean, mix(i))))
	}
	x = b.Reshape(x, batch*seq, a.width)
	if a.tied {
		return b.Finish(x, embedding)
	}
	return b.Finish(x, b.Read("head.weight"))
}
