package compile

import "slices"

// gap is a time in which a buffer is idle: behind the command after, up to the command before. after is -1 before a buffer's first tenant, before is
// the number of all commands behind its last one.
type gap struct{ after, before, buffer int }

// mirrored is the gap where time runs backwards.
func (g gap) mirrored(end int) gap { return gap{end - 1 - g.before, end - 1 - g.after, g.buffer} }

// idleTimes are the gaps of some buffers. The nearest tenant is found in a tree over time, without a look at all of them.
type idleTimes struct {
	end                 int // the number of commands
	forwards, backwards neighbours
}

// newIdleTimes are of no buffers. It counts visits of gaps and of the nodes of trees.
func newIdleTimes(storages []*storage, visits *int) *idleTimes {
	t := &idleTimes{}
	for _, st := range storages {
		t.end = max(t.end, st.last+1)
	}
	leaves := 1
	for leaves < t.end+1 {
		leaves *= 2
	}
	for _, n := range []*neighbours{&t.forwards, &t.backwards} {
		n.gaps, n.latest, n.visits = make([][]gap, t.end), make([]int, 2*leaves), visits
	}
	return t
}

// nearest is the gap for a storage that leaves the least idle time between it and another tenant, of alike ones that of the first buffer.
func (t *idleTimes) nearest(st *storage) (best gap, found bool) {
	least := t.end + 1
	consider := func(g gap, idle int) {
		if idle < least || idle == least && g.buffer < best.buffer {
			best, least = g, idle
		}
	}
	for _, g := range t.forwards.behind(st.first, st.last) {
		consider(g, st.first-g.after)
	}
	for _, g := range t.backwards.behind(t.end-1-st.last, t.end-1-st.first) {
		g = g.mirrored(t.end)
		consider(g, g.before-st.last)
	}
	return best, least <= t.end
}

// take puts a storage into a gap.
func (t *idleTimes) take(g gap, st *storage) {
	t.forwards.drop(g)
	t.backwards.drop(g.mirrored(t.end))
	for _, left := range []gap{{g.after, st.first, g.buffer}, {st.last, g.before, g.buffer}} {
		t.forwards.put(left)
		t.backwards.put(left.mirrored(t.end))
	}
}

// neighbours are gaps by the command that they come behind.
type neighbours struct {
	gaps   [][]gap
	latest []int // a tree: the leaves, its second half, have the largest before of each command's gaps, the nodes that of their two
	visits *int
}

func (n *neighbours) leaf(command int) int { return len(n.latest)/2 + command }

func (n *neighbours) put(g gap) {
	if g.after >= 0 { // behind nothing is no neighbour
		n.gaps[g.after] = append(n.gaps[g.after], g)
		n.update(g.after)
	}
}

func (n *neighbours) drop(g gap) {
	if g.after >= 0 {
		at := slices.Index(n.gaps[g.after], g)
		n.gaps[g.after] = slices.Delete(n.gaps[g.after], at, at+1)
		n.update(g.after)
	}
}

func (n *neighbours) update(after int) {
	latest := 0
	for _, g := range n.gaps[after] {
		latest = max(latest, g.before)
	}
	for i := n.leaf(after); i > 0; i /= 2 {
		*n.visits++
		if 2*i < len(n.latest) {
			latest = max(n.latest[2*i], n.latest[2*i+1])
		}
		n.latest[i] = latest
	}
}

// behind are the gaps that hold commands first to last and come behind the latest command that such a gap comes behind.
func (n *neighbours) behind(first, last int) (out []gap) {
	i := n.leaf(first)
	for n.latest[i] <= last || i == n.leaf(first) { // up and to the left, until something there is free for long enough
		*n.visits++
		for i%2 == 0 {
			i /= 2
		}
		if i--; i <= 0 {
			return nil
		}
	}
	for 2*i < len(n.latest) {
		*n.visits++
		if i = 2*i + 1; n.latest[i] <= last {
			i--
		}
	}
	for _, g := range n.gaps[i-n.leaf(0)] {
		*n.visits++
		if g.before > last {
			out = append(out, g)
		}
	}
	return out
}
