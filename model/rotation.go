package model

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"

	"gputrain/graph"
)

// rotation is the rotary position embedding of some layers: pairs of the first width elements of each head are turned by frequencies
// theta^(-2i/width), which a rule may change for longer texts than a model began with.
type rotation struct {
	theta   float64
	width   int
	rule    string  // of rope_type; "default" for none
	factor  float64 // of linear, llama3 and yarn: how much longer texts may be
	began   float64 // positions that the model began with
	low     float64 // llama3: turns in that many positions up to which a frequency is divided by factor; yarn: beta_slow
	high    float64 // llama3: turns from which on it stays; yarn: beta_fast
	whole   bool    // yarn: the pairs between which frequencies change are whole
	amplify float64 // of turned pairs
	grow    float64 // and by how much a position's pairs grow besides, every so many positions: see graph.Rope
	every   float64
	still   int // proportional: how many pairs of the last do not turn
	short   []float64
	long    []float64 // longrope: what frequencies are divided by up to as many positions as the model began with, and beyond
}

// op turns heads of a width, in a network for so many positions.
func (r rotation) op(headDim, positions int) graph.Rope {
	if r.rule == "default" && r.width == headDim {
		return graph.Rope{HeadDim: headDim, Theta: r.theta, Grow: r.grow, Every: r.every}
	}
	op := graph.Rope{HeadDim: headDim, Frequencies: r.frequencies(positions), Grow: r.grow, Every: r.every}
	if r.amplify != 1 {
		op.Factor = r.amplify
	}
	return op
}

// frequencies are radians a position, pair by pair.
func (r rotation) frequencies(positions int) []float64 {
	f := make([]float64, r.width/2)
	for i := range f {
		f[i] = math.Pow(r.theta, -2*float64(i)/float64(r.width))
		switch r.rule {
		case "linear":
			f[i] /= r.factor
		case "llama3":
			f[i] = mixed(f[i]/r.factor, f[i], (r.began*f[i]/(2*math.Pi)-r.low)/(r.high-r.low))
		case "yarn":
			from, to := r.yarnRange()
			f[i] = mixed(f[i], f[i]/r.factor, (float64(i)-from)/(to-from))
		case "longrope":
			by := r.short
			if float64(positions) > r.began {
				by = r.long
			}
			f[i] /= by[i]
		case "proportional":
			if i >= len(f)-r.still {
				f[i] = 0
			}
		}
	}
	return f
}

// reach is how many positions a model has if config.json says so many. Whoever lengthens a model by yarn may leave there the positions that it began
// with, as Qwen's instructions do.
func (r *rotation) reach(positions int) int {
	if r == nil || r.rule != "yarn" || float64(positions) != r.began {
		return positions
	}
	return int(min(max(1, r.factor)*r.began, math.MaxInt32))
}

// mixed is a where share is 0 or less, b where it is 1 or more, and linear between.
func mixed(a, b, share float64) float64 {
	share = max(0, min(1, share))
	return (1-share)*a + share*b
}

// yarnRange are the pairs between which frequencies change: those that turn high times, and low times, in the positions that the model began with.
func (r rotation) yarnRange() (from, to float64) {
	pair := func(turns float64) float64 {
		return float64(r.width) * math.Log(r.began/(turns*2*math.Pi)) / (2 * math.Log(r.theta))
	}
	from, to = pair(r.high), pair(r.low)
	if r.whole {
		from, to = math.Floor(from), math.Ceil(to)
	}
	from, to = max(from, 0), min(to, float64(r.width-1))
	if from == to {
		to += 0.001
	}
	return from, to
}

// ropeKeys are those that each rule of rope_type takes.
var ropeKeys = map[string][]string{
	"default":  {},
	"linear":   {"factor"},
	"llama3":   {"factor", "original_max_position_embeddings", "low_freq_factor", "high_freq_factor"},
	"yarn":     {"factor", "original_max_position_embeddings", "attention_factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim", "truncate"},
	"longrope": {"factor", "original_max_position_embeddings", "attention_factor", "short_factor", "long_factor"},

	"proportional": {},
}

// rotation reads rope_parameters, or in older files rope_theta with rope_scaling, for heads of a width. absent is rope_theta where there is none.
func (c *ConfigReader) rotation(headDim int, absent float64) rotation {
	theta, part := c.Number("rope_theta", absent, false), c.Number("partial_rotary_factor", 1, false)
	rules := ""
	for _, key := range []string{"rope_scaling", "rope_parameters"} {
		if !c.has(key) || string(c.fields[key]) == "{}" {
			continue
		}
		if rules != "" {
			c.wrong(key, "null beside rope_scaling: one of them")
		}
		rules = key
	}
	return c.rotationIn(rules, c.object(rules), headDim, theta, part)
}

// object is the object at key, nil where it has none.
func (c *ConfigReader) object(key string) map[string]json.RawMessage {
	if key == "" || !c.has(key) {
		return nil
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(c.fields[key], &fields); err != nil {
		c.wrong(key, "an object")
	}
	return fields
}

// rotationIn reads the fields of an object that rules names in errors.
func (c *ConfigReader) rotationIn(rules string, fields map[string]json.RawMessage, headDim int, theta, part float64) rotation {
	in := newConfigReader(fields)
	r := rotation{theta: in.Number("rope_theta", theta, false), amplify: 1}
	r.width = int(float64(headDim) * in.Number("partial_rotary_factor", part, false))
	r.rule = in.text("rope_type", in.text("type", "default"))
	if r.rule == "proportional" && r.width <= headDim { // frequencies are those of the whole head
		r.width, r.still = headDim, headDim/2-r.width/2
	}
	if old := in.text("type", r.rule); old != r.rule {
		in.wrong("type", fmt.Sprintf("%s, as rope_type has it", r.rule))
	}
	if r.rule == "su" || r.rule == "yarn" && in.has("short_factor") { // older names
		r.rule = "longrope"
	}
	known, ok := ropeKeys[r.rule]
	if !ok {
		in.wrong("rope_type", fmt.Sprintf("one of %q: others are not supported", slices.Sorted(maps.Keys(ropeKeys))))
	}
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		if ok && !in.used[key] && string(fields[key]) != "null" && !slices.Contains(slices.Concat(known, c.ropeMore), key) {
			in.wrong(key, fmt.Sprintf("no such key beside rope_type %s: not supported", r.rule))
		}
	}
	if r.width < 2 || r.width%2 != 0 || r.width > headDim {
		c.errs = append(c.errs, fmt.Errorf("head dim: %d, of which pairs turn %d, want an even number of them from 2 on", headDim, r.width))
		r.width = 2
	}
	if ok && len(in.errs) == 0 {
		r.readRule(c, in)
	}
	for _, err := range in.errs {
		c.errs = append(c.errs, fmt.Errorf("%s: %w", cmp.Or(rules, "rope_scaling"), err))
	}
	return r
}

// readRule reads what the rule takes.
func (r *rotation) readRule(c, in *ConfigReader) {
	needed := func(key string) float64 {
		if !in.has(key) {
			in.wrong(key, "a number above 0")
		}
		return in.Number(key, 1, false)
	}
	switch r.rule {
	case "linear":
		r.factor = needed("factor")
	case "llama3":
		r.factor, r.began = needed("factor"), needed("original_max_position_embeddings")
		r.low, r.high = needed("low_freq_factor"), needed("high_freq_factor")
		if len(in.errs) == 0 && r.high <= r.low {
			in.wrong("high_freq_factor", "more than low_freq_factor")
		}
	case "yarn":
		// Without the positions that the model began with some programs take max_position_embeddings for them and others divide those.
		r.factor, r.began = needed("factor"), needed("original_max_position_embeddings")
		r.low, r.high, r.whole = in.Number("beta_slow", 1, false), in.Number("beta_fast", 32, false), in.Flag("truncate", true)
		r.amplify = in.Number("attention_factor", r.yarnAmplify(in.Number("mscale", 0, true), in.Number("mscale_all_dim", 0, true)), false)
		if r.theta == 1 {
			c.wrong("rope_theta", "more than 1 for yarn")
		}
	case "longrope":
		r.readLong(c, in)
	}
}

// yarnAmplify is what turned pairs are multiplied by where attention_factor does not say.
func (r *rotation) yarnAmplify(scale, all float64) float64 {
	grown := func(by float64) float64 { return 1 + 0.1*by*math.Log(max(1, r.factor)) }
	if scale > 0 && all > 0 {
		return grown(scale) / grown(all)
	}
	return grown(1)
}

func (r *rotation) readLong(c, in *ConfigReader) {
	list := func(key string) (numbers []float64) {
		if err := json.Unmarshal(in.fields[key], &numbers); err != nil || len(numbers) != r.width/2 || slices.ContainsFunc(numbers, func(x float64) bool { return !(x > 0) }) {
			in.wrong(key, fmt.Sprintf("%d numbers above 0", r.width/2))
			return slices.Repeat([]float64{1}, r.width/2)
		}
		return numbers
	}
	r.short, r.long = list("short_factor"), list("long_factor")
	r.began = in.Number("original_max_position_embeddings", c.Number("original_max_position_embeddings", 0, false), false)
	context := c.Number("max_position_embeddings", 1, false)
	if r.began <= 1 {
		in.wrong("original_max_position_embeddings", "the positions that the model began with, there or beside it")
		return
	}
	grown := context / r.began
	if in.Number("factor", grown, false) != grown {
		in.wrong("factor", fmt.Sprintf("%v, max_position_embeddings over original_max_position_embeddings", grown))
	}
	if grown > 1 {
		r.amplify = math.Sqrt(1 + math.Log(grown)/math.Log(r.began))
	}
	r.amplify = in.Number("attention_factor", r.amplify, false)
}
