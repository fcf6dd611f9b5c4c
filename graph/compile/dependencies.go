package compile

import (
	"slices"

	"gputrain/graph"
)

// dependencies tell which units need which, while epilogues join units, from the last to the first.
type dependencies struct {
	c       *Compiler
	writer  map[*graph.Value]*unit
	readers map[*graph.Value][]*unit // of a root value that a unit writes, each once
	alone   map[*unit]walked
}

// walked is what a walk from each unit to those that it needs, which enters a unit once, finds of a unit before others follow it. It needs those that
// begin between its own begin and end, and may need more. newest is the highest number of a node in it and in all that it needs.
type walked struct{ begin, end, newest int }

// dependencies are those of units, given from the last to the first.
func (c *Compiler) dependencies(units []*unit) *dependencies {
	d := &dependencies{c: c, writer: map[*graph.Value]*unit{}, readers: map[*graph.Value][]*unit{}, alone: make(map[*unit]walked, len(units))}
	for _, u := range units {
		for _, v := range u.writes {
			d.writer[v] = u
		}
	}
	for _, u := range c.units {
		d.reads(u, u.reads)
	}
	begin := 0
	for _, u := range units {
		d.walk(u, &begin)
	}
	return d
}

// reads notes a unit among the readers of values.
func (d *dependencies) reads(u *unit, values []*graph.Value) {
	for _, v := range values {
		v = d.c.root(v)
		if d.writer[v] != nil && !slices.Contains(d.readers[v], u) {
			d.readers[v] = append(d.readers[v], u)
		}
	}
}

func (d *dependencies) walk(u *unit, begin *int) walked {
	if w, done := d.alone[u]; done {
		return w
	}
	w := walked{begin: *begin}
	*begin++
	d.alone[u] = w
	for _, n := range u.nodes {
		w.newest = max(w.newest, n.ID)
	}
	for _, v := range u.reads {
		if from := d.writer[d.c.root(v)]; from != nil {
			w.newest = max(w.newest, d.walk(from, begin).newest)
		}
	}
	w.end = *begin
	d.alone[u] = w
	return w
}

// merge notes that r follows u, which then reads those values.
func (d *dependencies) merge(u, r *unit, reads []*graph.Value) {
	d.writer[r.writes[0]] = u
	d.reads(u, reads)
}

// by is whether r needs u by way of a third unit, or what u stores besides its result. What is older than u does not need it: units that others follow are
// newer, so that what it needs has stayed what it was.
func (d *dependencies) by(r, u *unit) bool {
	result, begin, seen := u.root().Outputs[0], d.alone[u].begin, map[*unit]bool{}
	var needs func(x *unit) bool
	needs = func(x *unit) bool {
		if x == nil || seen[x] {
			return false
		}
		d.c.visits++
		seen[x] = true
		w := d.alone[x]
		switch {
		case x == u || w.begin < begin && begin < w.end:
			return true
		case w.newest < u.root().ID:
			return false
		}
		return slices.ContainsFunc(x.reads, func(v *graph.Value) bool { return needs(d.writer[d.c.root(v)]) })
	}
	return slices.ContainsFunc(r.reads, func(v *graph.Value) bool { return v != result && needs(d.writer[d.c.root(v)]) })
}
