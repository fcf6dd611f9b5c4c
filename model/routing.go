package model

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"gputrain/graph"
)

// Routing is what the routers of a network have in common. Built.Routed is [2 Layers, Experts]: for each layer with experts how often tokens chose each of
// them, and behind these for each layer the sums of their probabilities over tokens, which the softmax over all experts is.
type Routing struct{ Layers, Experts, Chosen int }

// RoutingOf is that of a network; without layers where it has no experts.
func RoutingOf(def Definition) (r Routing) {
	m, _ := decoderOf(def)
	for _, l := range m.layers {
		if e := l.experts; e != nil {
			r = Routing{r.Layers + 1, e.count, e.chosen}
		}
	}
	return r
}

// Sums is how many numbers Built.Routed has.
func (r Routing) Sums() int { return 2 * r.Layers * r.Experts }

// Balance is the load-balancing loss of Built.Routed: see graph.LoadBalance. It is 1 times Chosen where all experts are chosen alike.
func (r Routing) Balance(sums []float32) float64 {
	of := func(sums []float32) *graph.Array {
		a := graph.NewArray([]int{r.Layers, r.Experts})
		for i, v := range sums {
			a.Data[i] = float64(v)
		}
		return a
	}
	counts, probs := of(sums[:len(sums)/2]), of(sums[len(sums)/2:])
	return graph.LoadBalance{Chosen: r.Chosen}.Eval(nil, []*graph.Array{counts, probs}, nil)[0].Data[0]
}

// Spread tells how evenly experts are chosen, of how often each is in each layer: the greatest and the smallest share of a layer's choices that one has, and
// the mean over layers of the entropy of these shares, divided by that of equal ones.
func (r Routing) Spread(counts []int64) (greatest, least, entropy float64) {
	least = 1
	for layer := range slices.Chunk(counts, max(1, r.Experts)) {
		all := 0.0
		for _, n := range layer {
			all += float64(n)
		}
		for _, n := range layer {
			share := float64(n) / max(1, all)
			greatest, least = max(greatest, share), min(least, share)
			if n > 0 && r.Experts > 1 {
				entropy -= share * math.Log(share) / math.Log(float64(r.Experts)) / float64(r.Layers)
			}
		}
	}
	return greatest, least, entropy
}

// Keys of config.json: whether experts are balanced, and what the loss that does it counts.
const balancedKey, balanceKey = "output_router_logits", "router_aux_loss_coef"

// WithBalance is def, which has no adapters, whose load-balancing loss counts coefficient; 0: nothing. A network without experts takes only that.
func WithBalance(def Definition, coefficient float64) (Definition, error) {
	switch {
	case RoutingOf(def).Layers > 0:
	case coefficient != 0:
		return nil, fmt.Errorf("model: %s: %s: found %v, wanted none: it has no experts", def.Kind(), balanceKey, coefficient)
	default:
		return def, nil
	}
	return placed(def, func(m decoder) decoder {
		m.layers, m.settings = slices.Clone(m.layers), maps.Clone(m.settings)
		for i, l := range m.layers {
			if l.experts != nil {
				e := *l.experts
				e.balance, m.layers[i].experts = coefficient, &e
			}
		}
		if m.settings[balancedKey] = coefficient > 0; coefficient > 0 {
			m.settings[balanceKey] = coefficient
		}
		return m
	}), nil
}

// routed is what routers have done in the layers so far: counts and probs are [layers, experts].
type routed struct {
	of            *experts
	counts, probs *graph.Value
}

// route notes what the router of a layer does, of a graph that learns.
func (b *Builder) route(e *experts, logits, ids *graph.Value) {
	if !b.o.Loss || b.o.prefix != "" {
		return
	}
	rows := b.batch * b.seq
	counted := b.Input(InputThere, graph.F32(rows))
	p := b.Softmax(logits)
	b.KeepF32(p)
	probs := b.Reshape(b.Sum(b.Mul(b.Reshape(counted, rows, 1), p), 0), 1, e.count)
	counts := b.Append(graph.RouterCounts{Experts: e.count}, ids, counted).Outputs[0]
	if r := &b.routed; r.of == nil {
		*r = routed{e, counts, probs}
	} else {
		r.counts, r.probs = b.Concat(0, r.counts, counts), b.Concat(0, r.probs, probs)
	}
}

// balance tells of routers, and adds what balances experts to what is learned.
func (b *Builder) balance(built *Built) {
	built.Learned = built.Loss
	r := b.routed
	if r.of == nil || built.Loss == nil {
		return
	}
	built.Routed = b.Concat(0, r.counts, r.probs)
	if r.of.balance > 0 {
		loss := b.Append(graph.LoadBalance{Chosen: r.of.chosen}, r.counts, r.probs).Outputs[0]
		built.Learned = b.Add(built.Loss, b.Mul(b.Scale(loss, r.of.balance), b.Input(InputBalance, graph.F32())))
	}
}
