package train

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"

	"gputrain/gpu"
	"gputrain/model"
	"gputrain/state"
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

// recomputeKey is the setting that says what backward passes compute again.
const recomputeKey = "train.recompute"

// fit plans what the stages are to take. It decides what is computed again where that is left to the memory there is, and says it. run.yaml records
// it: a run that goes on computes again what it did, and more if it has to.
func (t *opening) fit(ctx context.Context) error {
	c := &t.config
	job, err := state.NewJob(c.State)
	if err != nil {
		return err
	}
	choices, had := job.Choices(), ""
	if len(choices) > 1 {
		if had, err = t.recomputed(); err != nil {
			return err
		}
	}
	var kept, takes uint64
	for i := max(0, slices.Index(model.Recomputes, had)); i < len(choices); i++ {
		planned, err := t.team.target.Plan(ctx, choices[i].Config)
		if err != nil {
			return err
		}
		c.State, t.reporter.planned, takes = choices[i].Config, planned, planned.bytes()
		if i == 0 {
			kept = takes
		}
		if t.fits = planned.Fits; planned.Fits {
			break
		}
	}
	t.planCopy()
	if len(choices) == 1 {
		return nil
	}
	what := c.State.Recompute
	c.Settings = slices.Clone(c.Settings)
	for i, s := range c.Settings {
		if s.Key == recomputeKey {
			c.Settings[i].Value, c.Settings[i].Origin = what, fmt.Sprintf("%s of %s", state.RecomputeAuto, s.Origin)
		}
	}
	if what == model.RecomputeNone {
		return nil
	}
	if kept == 0 { // the run has begun with less
		planned, err := t.team.target.Plan(ctx, choices[0].Config)
		if err != nil {
			return err
		}
		kept = planned.bytes()
	}
	text := fmt.Sprintf("%s, which takes %s instead of %s", what, gpu.SizeText(takes), gpu.SizeText(kept))
	if what == had {
		text += ", as before"
	}
	t.say("%s %s", recomputeKey, text)
	t.reporter.facts.add("recompute", "%s", text)
	return nil
}

// planCopy decides whether training goes on while a checkpoint is written: where there is room for a copy of it.
func (t *opening) planCopy() {
	h := t.reporter.planned.Host
	t.saves.copies = h.Copies(t.config.SaveAsync)
	if !t.saves.copies {
		h.Copy = 0
	}
	t.reporter.facts.add("host memory planned", "%s", h)
	if !t.saves.copies && t.config.SaveAsync && t.config.leads() {
		text := fmt.Sprintf("a copy of a checkpoint takes %s, the host has %s left: training waits while a checkpoint is written",
			gpu.SizeText(t.reporter.planned.Host.Copy), gpu.SizeText(h.Free))
		t.say("train.save_async: %s", text)
		t.reporter.facts.add("checkpoints", "%s", text)
	}
}

// recomputed is what the run of the directory computed again; "" where there is none.
func (t *opening) recomputed() (what string, err error) {
	settings, err := storedSettings(t.config.Dir)
	if json.Unmarshal([]byte(settings[recomputeKey]), &what) != nil {
		return "", err // none
	}
	return what, err
}
