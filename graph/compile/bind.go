package compile

import (
	"cmp"
	"fmt"

	"gputrain/gpu"
	"gputrain/graph"
)

// Bytes is the size of the buffer that a program wants for a value of this type: contiguous, in whole vec4s.
func Bytes(t graph.Type) uint64 {
	return roundUp(max(typeBytes(t.Shape, t.DType), spanAlign), spanAlign)
}

// boundTarget is the name of the bound target that a root value is, "" for none.
func (c *Compiler) boundTarget(v *graph.Value) string {
	if len(c.bound) == 0 {
		return ""
	}
	if c.boundAt == nil {
		c.boundAt = map[*graph.Value]Target{}
		for _, t := range c.named {
			_, is := c.bound[t.Name]
			if _, taken := c.boundAt[c.root(t.Value)]; is && !taken {
				c.boundAt[c.root(t.Value)] = t
			}
		}
	}
	t, ok := c.boundAt[v]
	if ok && (t.Value.DType() != v.DType() || t.Value.Type().Elements() != v.Type().Elements()) {
		c.fail("bound target %q: %v, a view of %v, want a whole value", t.Name, t.Value.Type(), v.Type())
	}
	return t.Name
}

// bound checks the buffer that a caller gives for a storage.
func bound(st *storage, r gpu.Range) (gpu.Range, error) {
	if r.Buffer == nil || r.Bytes < st.bytes {
		return r, fmt.Errorf("graph: compile: bound %q: %d bytes, want %d", st.label, r.Bytes, st.bytes)
	}
	return r.Buffer.Range(r.Offset, st.bytes), nil
}

// Arena is scratch memory for programs of one device of which no two run at a time: what one leaves there, the next overwrites.
type Arena struct{ buffers []*gpu.Buffer }

// NewArena makes the buffers that programs of these plans can share.
func NewArena(dev *gpu.Device, label string, plans ...Plan) (*Arena, error) {
	var sizes []uint64
	for _, p := range plans {
		for i, size := range p.Shared {
			if i == len(sizes) {
				sizes = append(sizes, 0)
			}
			sizes[i] = max(sizes[i], size)
		}
	}
	a := &Arena{}
	for i, size := range sizes {
		b, err := dev.NewBuffer(fmt.Sprintf("gputrain.graph.%s.shared.%d", label, i), size)
		if err != nil {
			a.Release()
			return nil, fmt.Errorf("graph: arena: %w", err)
		}
		a.buffers = append(a.buffers, b)
	}
	return a, nil
}

// Bytes is the memory of the arena.
func (a *Arena) Bytes() (n uint64) {
	for _, b := range a.buffers {
		n += b.Bytes()
	}
	return n
}

// Release gives the memory back; programs that share it must not run any more.
func (a *Arena) Release() {
	if a == nil {
		return
	}
	for _, b := range a.buffers {
		b.Release()
	}
	a.buffers = nil
}

// scratch finds the program's shared buffers in an arena, or makes them.
func (p *Program) scratch(sizes []uint64, arena *Arena) ([]gpu.Range, error) {
	out := make([]gpu.Range, len(sizes))
	for i, size := range sizes {
		switch {
		case arena == nil:
			r, err := p.buffer(fmt.Sprintf("shared.%d", i), size)
			if err != nil {
				return nil, err
			}
			out[i] = r
		case i >= len(arena.buffers) || arena.buffers[i].Bytes() < size:
			return nil, fmt.Errorf("graph: compile: %s: the arena has no buffer %d of %d bytes", cmp.Or(p.label, "program"), i, size)
		default:
			out[i] = arena.buffers[i].Range(0, size)
		}
	}
	return out, nil
}
