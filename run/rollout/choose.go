package rollout

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
)

// ErrNotFinite says that the model's answer is not numbers.
var ErrNotFinite = errors.New("not finite")

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

// A Chooser draws tokens of logits that are divided by Temperature; with 0 it takes the likeliest token, of equal ones the lower. Most probable first, each of
// TopK, TopP and MinP keeps a first part of what the one before it has kept, and the token drawn is the one in whose share of the weights kept a random
// number falls. The shares lie in the order of the ids, or with ByWeight most probable first: then only the part around that token is ever put in order.
type Chooser struct {
	Temperature float64
	TopK        int     // 0: all
	TopP, MinP  float64 // 0: all; 1 is all of TopP too
	ByWeight    bool

	candidates []candidate // kept for the next token
	weights    []float64   // likewise: of each token, 0 where it is not kept
}

// Choose draws a token; u is in [0, 1). It changes nothing of logits.
func (c *Chooser) Choose(logits []float32, u float32) (int32, error) {
	best, err := greatest(logits)
	if err != nil {
		return 0, err
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
	if !c.ByWeight {
		return c.byID(kept, len(logits), float64(u)), nil
	}
	return kept[reach(kept, float64(u), func(rest float64) bool { return rest < 0 })].token, nil
}

// greatest is the place of the greatest logit, of equal ones the first.
func greatest(logits []float32) (best int, err error) {
	for i, l := range logits {
		if l-l != 0 {
			return 0, fmt.Errorf("logit %d: %v: %w", i, l, ErrNotFinite)
		}
		if l > logits[best] {
			best = i
		}
	}
	return best, nil
}

// byID is the token in whose share of the weights u falls, where the shares lie in the order of the ids.
func (c *Chooser) byID(kept []candidate, vocab int, u float64) (token int32) {
	c.weights = slices.Grow(c.weights[:0], vocab)[:vocab]
	clear(c.weights)
	for _, x := range kept {
		c.weights[x.token] = x.weight
	}
	total := 0.0
	for _, w := range c.weights {
		total += w
	}
	rest := u * total
	for i, w := range c.weights {
		if w == 0 {
			continue
		}
		token = int32(i)
		if rest -= w; rest < 0 {
			break
		}
	}
	return token
}

// few candidates are put in order at once.
const few = 64

// Likeliest are the ids of the k greatest logits, the greatest first; among equal ones the smaller id comes first.
func Likeliest(logits []float32, k int) (ids []int32) {
	all := make([]candidate, len(logits))
	for i, l := range logits {
		all[i] = candidate{logit: l, token: int32(i)}
	}
	if k < len(all) {
		all = likeliest(all, k)
	}
	slices.SortFunc(all, byLogit)
	for _, c := range all {
		ids = append(ids, c.token)
	}
	return ids
}

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
