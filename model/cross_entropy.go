package model

import (
	"math"

	"gputrain/graph"
)

// CrossEntropy is the loss of the next token with options and figures: of a label (1-e) (-log p) + e (the mean over the vocabulary of -log p) + k lse^2, with e for
// label_smoothing, k for z_loss and lse for the logarithm of the sum of the exponentials of the logits. Smoothing is that of Szegedy et al. 2015
// (arXiv:1512.00567), z-loss that of PaLM, Chowdhery et al. 2022 (arXiv:2204.02311).
const CrossEntropy = "cross_entropy"

func init() {
	smoothing := number{Name: "label_smoothing", Wanted: "a number from 0 to 1", Takes: func(v float64) bool { return v >= 0 && v <= 1 }}
	l := nextToken
	l.Name, l.Numbers = CrossEntropy, []number{smoothing, from0("z_loss")}
	l.Sums, l.Shown = []string{"nll", "z", "token_accuracy"}, []string{"perplexity", "token_accuracy"}
	l.derive = func(figures map[string]float64) { figures["perplexity"] = math.Exp(figures["nll"]) }
	l.head = func(b *Builder, built *Built, x, head *graph.Value, limit float64) error {
		numbers := b.o.Objective.Numbers
		n := b.Append(graph.HeadLoss{Cap: limit, Smoothing: numbers["label_smoothing"], ZLoss: numbers["z_loss"], Figures: true}, x, head, b.labels())
		b.scaled(built, n.Outputs[0])
		built.Sums = b.Sum(n.Outputs[2], 0)
		built.Figures = []figure{{"sums", built.Sums}}
		return nil
	}
	losses = append(losses, l)
}
