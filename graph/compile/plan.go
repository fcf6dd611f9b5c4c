package compile

import (
	"cmp"
	"slices"
)

// allocate gives every transient storage a buffer. Storages that live at the same time never share one, so no dispatch
// sees one buffer in two roles. Greedy by size (Pisarchyk and Lee, "Efficient memory management for deep neural net
// inference", 2020): the largest storage first, into the buffer whose other tenants leave the least idle time around it.
func (c *Compiler) allocate() {
	for i, cmd := range c.commands {
		for _, s := range cmd.bind {
			if s.st.first < 0 {
				s.st.first = i
			}
			s.st.last = i
		}
	}
	c.plan.Dispatches = len(c.commands)
	var values, shared uint64
	for _, size := range assign(c.storages, false, &c.visits) {
		values += size
	}
	c.planned = assign(c.storages, true, &c.visits)
	for _, size := range c.planned {
		shared += size
	}
	c.plan.Shared = c.planned // in the order they were opened in, the largest first
	c.plan.Activations = min(values, shared)
	c.plan.Workspace = shared - c.plan.Activations
	for _, st := range c.storages {
		switch st.kind {
		case inputStorage, constantStorage:
			c.plan.Inputs += st.bytes
		case outputStorage:
			c.plan.Outputs += st.bytes
		}
	}
}

// assign sets the buffer of the transient storages (of the workspaces only when asked) and returns the buffers' sizes.
func assign(storages []*storage, workspaces bool, visits *int) []uint64 {
	var order []*storage
	for _, st := range storages {
		if st.kind == transientStorage && st.first >= 0 && (workspaces || !st.workspace) {
			order = append(order, st)
		}
	}
	slices.SortStableFunc(order, func(a, b *storage) int { return cmp.Compare(b.bytes, a.bytes) })
	var sizes []uint64
	idle := newIdleTimes(storages, visits)
	for _, st := range order {
		g, found := idle.nearest(st)
		if !found {
			g = gap{-1, idle.end, len(sizes)}
			sizes = append(sizes, st.bytes) // the first tenant is the largest
		}
		st.buffer = g.buffer
		idle.take(g, st)
	}
	return sizes
}
