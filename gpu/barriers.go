package gpu

// use is how a command uses a buffer. The library tracks buffers, not ranges of them.
type use int

const (
	usedBefore use = iota // whatever for
	usedRead
	usedWrite
	usedCopiedFrom
	usedCopiedTo
)

// barriers is how many commands of a submit have a barrier before them. wgpu-core 0.19 puts one where a command uses a buffer otherwise than the one before
// did, or writes it again, and one between submits, which is not counted.
func (t *piece) barriers() (n int) {
	last := map[*Buffer]use{}
	for _, s := range t.spans {
		for i := s.from; i < s.to; i++ {
			if s.program.commands[i].waits(last) {
				n++
			}
		}
	}
	return n
}

// waits tells whether a command has a barrier before it, and notes its uses.
func (c *command) waits(last map[*Buffer]use) (waits bool) {
	uses := func(b *Buffer, now use) {
		if before := last[b]; before != usedBefore && (before != now || now == usedWrite || now == usedCopiedTo) {
			waits = true
		}
		last[b] = now
	}
	if c.kind == kindDispatch {
		bindings := c.kernel.Bindings[len(c.kernel.Bindings)-len(c.bind):]
		seen := map[*Buffer]bool{}
		for i, r := range c.bind {
			if bindings[i].Access != Uniform && !seen[r.Buffer] { // one dispatch uses a buffer in one way
				seen[r.Buffer] = true
				uses(r.Buffer, map[bool]use{true: usedWrite, false: usedRead}[bindings[i].Access.writes()])
			}
		}
		return waits
	}
	if c.src.Buffer != nil {
		uses(c.src.Buffer, usedCopiedFrom)
	}
	if c.dst.Buffer != nil {
		uses(c.dst.Buffer, usedCopiedTo)
	}
	return waits
}
