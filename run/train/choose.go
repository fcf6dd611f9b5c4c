package train

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
)

// errLogits says that the model's answer is not numbers.
var errLogits = errors.New("not finite")

// A candidate is a token that may be drawn.
type candidate struct {
	logit  float32
	token  int32
	weight float64 // exp((logit - the largest one) / temperature)
}

// byLogit is the order of candidates: the most probable first, of equal ones the lower token.
func byLogit(a, b candidate) int {
	return cmp.Or(cmp.Compare(b.logit, a.logit), cmp.Compare(a.token, b.token))
}

// before is byLogit's order, for logits that are numbers.
func (a candidate) before(b candidate) bool {
	return a.logit > b.logit || a.logit == b.logit && a.token < b.token
}

// chooser draws tokens. In its order, most probable first, each of TopK, TopP and MinP keeps a first part of what the one before it has kept, and
// the token drawn is the one in whose share of the weights kept u falls. Of what is kept only the part around that token is ever put in order.
type chooser struct {
	SampleConfig
	candidates []candidate // kept for the next token
}

// choose draws a token; u is in [0, 1). It changes nothing of logits.
func (c *chooser) choose(logits []float32, u float32) (int32, error) {
	best := 0
	for i, l := range logits {
		if !finite(float64(l)) {
			return 0, fmt.Errorf("train: sample: logit %d: %v: %w", i, l, errLogits)
		}
		if l > logits[best] {
			best = i
		}
	}
	if c.Temperature == 0 {
		return int32(best), nil
	}
	kept := c.candidates[:0]
	for i, l := range logits {
		kept = append(kept, candidate{logit: l, token: int32(i)})
	}
	c.candidates = kept
	if c.TopK > 0 && c.TopK < len(kept) {
		kept = likeliest(kept, c.TopK)
	}
	exponent := func(logit float32) float64 { return (float64(logit) - float64(logits[best])) / c.Temperature }
	for i := range kept {
		kept[i].weight = math.Exp(exponent(kept[i].logit))
	}
	if c.TopP > 0 && c.TopP < 1 {
		kept = kept[:1+reach(kept, c.TopP, func(rest float64) bool { return rest <= 0 })]
	}
	if c.MinP > 0 {
		least := math.Log(c.MinP)
		kept = slices.DeleteFunc(kept, func(x candidate) bool { return exponent(x.logit) < least })
	}
	return kept[reach(kept, float64(u), func(rest float64) bool { return rest < 0 })].token, nil
}

// few candidates are put in order at once.
const few = 64

// likeliest moves the k likeliest to the front and returns them.
func likeliest(c []candidate, k int) []candidate {
	from, to := 0, len(c)
	for to-from > few {
		middle := from + divide(c[from:to])
		switch {
		case middle == k:
			return c[:k]
		case middle > k:
			to = middle
		default:
			from = middle
		}
	}
	slices.SortFunc(c[from:to], byLogit)
	return c[:k]
}

// divide moves likelier candidates, of more than two, before the others, and returns how many they are: one or more and not all.
func divide(c []candidate) int {
	a, pivot, b := c[0], c[len(c)/2], c[len(c)-1]
	if b.before(a) {
		a, b = b, a
	}
	if pivot.before(a) {
		pivot = a
	} else if b.before(pivot) {
		pivot = b
	}
	i, j := 0, len(c)-1
	for {
		for c[i].before(pivot) {
			i++
		}
		for pivot.before(c[j]) {
			j--
		}
		if i >= j {
			return j + 1
		}
		c[i], c[j] = c[j], c[i]
		i, j = i+1, j-1
	}
}

// reach is the place, in order, of the candidate at which a share of all weights is used up: taken from the share one after the other, the weights
// leave a rest that ends tells of. It is the last one where no rest is such. That candidate is put in its place, and all likelier ones before it.
func reach(c []candidate, share float64, ends func(rest float64) bool) int {
	if i, sure := seek(c, share, ends); sure {
		return i
	}
	slices.SortFunc(c, byLogit)
	rest := share * weightOf(c)
	for i := range c {
		if rest -= c[i].weight; ends(rest) {
			return i
		}
	}
	return len(c) - 1
}

// seek is reach in linear time. It makes sums in another order than reach, which rounds them otherwise, and so is not sure where a rest is as small
// as that may be.
func seek(c []candidate, share float64, ends func(rest float64) bool) (place int, sure bool) {
	if len(c) <= few {
		return 0, false
	}
	whole := weightOf(c)
	doubt := 8 * 0x1p-53 * float64(len(c)) * whole // a rest is made of two sums of weights, on either side: at most len(c) roundings each
	rest := share * whole
	from, to := 0, len(c)
	for to-from > few {
		middle := from + divide(c[from:to])
		if part := weightOf(c[from:middle]); ends(rest - part) {
			to = middle
		} else {
			from, rest = middle, rest-part
		}
	}
	slices.SortFunc(c[from:to], byLogit)
	if from > 0 && math.Abs(rest) <= doubt {
		return 0, false
	}
	for i := from; i < to; i++ {
		rest -= c[i].weight
		if math.Abs(rest) <= doubt {
			return 0, false
		}
		if ends(rest) {
			return i, true
		}
	}
	return 0, false
}

func weightOf(c []candidate) (total float64) {
	for i := range c {
		total += c[i].weight
	}
	return total
}
