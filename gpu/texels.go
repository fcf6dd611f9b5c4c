package gpu

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
)

// Software adapters load from buffers lane by lane, from textures all lanes at once. So where a device has TexelBindings, a program reads
// operands from texels: a texture of four f32 a texel, filled from a range of a buffer by one command, a refresh, after the last write of
// the range and before its first reader. Results are written to buffers as ever, and the arithmetic stays what it was: texels change no bit.
//
// This is done when a recording becomes a program, so recordings and the packages that make them know nothing of it.

const (
	texelBytes = 16   // four f32
	texelRow   = 4096 // texels in a row of a texture: index i is at (i % texelRow, i / texelRow)
)

// texelKeep is how many commands a range may go unread before its texels are given to another; a later reader then refreshes them anew.
// A refresh costs little beside what reads it, and memory for all that a step ever reads would double the step's.
const texelKeep = 12

// texelRows is how many rows a texture has at least. Mesa's drivers compile a kernel anew where the number of rows of
// one of its textures is a power of two and was none before, or the other way round, which is part of their key of
// code: it is never one. They set aside fours of rows anyway.
const texelRows = 3

// texelCapacity is the bytes that any texture holds whose sides have at most that many texels.
func texelCapacity(side uint32) uint64 {
	if side < texelRow {
		return 0
	}
	return uint64(side-1) * texelRow * texelBytes
}

// texelSize is the size of the texture for that many bytes: rows of a power of two of texels where one row holds them, or of texelRow.
func texelSize(bytes uint64) uint64 {
	const row = texelRow * texelBytes
	rows, width := max(texelRows, (bytes+row-1)/row), uint64(row)
	if rows&(rows-1) == 0 {
		rows++
	}
	if bytes <= row {
		width = 64 * texelBytes
		for width < bytes {
			width *= 2
		}
	}
	return rows * width
}

// texelRead is a range that commands read as texels, from the refresh before the first of them to the last.
type texelRead struct {
	from        Range // of a buffer, in whole texels
	first, last int   // commands
	uses        []texelUse
	slot        int
}

// texelUse is binding bind of a command.
type texelUse struct{ command, bind int }

// readTexels lets the program's kernels read texels where the device has them: each kernel is exchanged for its form with texels, and the
// refreshes are put between the commands.
func (p *Program) readTexels() error {
	if !p.device.hasTexels() {
		return nil
	}
	reads := p.findTexelReads()
	if len(reads) == 0 {
		return nil
	}
	sizes := placeTexels(reads)
	var err error
	if p.texels, err = p.device.texels.take(p.device, sizes); err != nil {
		return err
	}
	refreshes := make(map[int][]command)
	for _, r := range reads {
		texels := p.texels[r.slot].buffer.Range(0, r.from.Bytes)
		refreshes[r.first] = append(refreshes[r.first], command{kind: kindRefresh, label: "refresh", dst: texels, src: r.from, work: Work{Bytes: 2 * float64(r.from.Bytes)}})
		for _, u := range r.uses {
			p.commands[u.command].bind[u.bind] = texels
		}
	}
	out := make([]command, 0, len(p.commands)+len(reads))
	for i, c := range p.commands {
		out = append(append(out, refreshes[i]...), c)
	}
	p.commands = out
	return nil
}

// findTexelReads exchanges the kernels and lists what they read as texels.
func (p *Program) findTexelReads() []*texelRead {
	var all []*texelRead
	live := map[*Buffer][]*texelRead{} // those whose texels are kept
	written := func(g Range) {
		live[g.Buffer] = slices.DeleteFunc(live[g.Buffer], func(r *texelRead) bool { return r.from.overlaps(g) })
	}
	for i := range p.commands {
		c := &p.commands[i]
		if c.kind != kindDispatch {
			if c.dst.Buffer != nil {
				written(c.dst)
			}
			continue
		}
		c.kernel, c.bind = p.device.formOf(c), slices.Clone(c.bind)
		bindings := c.kernel.Bindings[len(c.kernel.Bindings)-len(c.bind):]
		for b, binding := range bindings {
			if binding.Access != Texels || c.bind[b].Buffer.usage == usageTexels {
				continue
			}
			from := c.bind[b]
			from.Bytes = alignUp(from.Bytes, texelBytes)
			live[from.Buffer] = slices.DeleteFunc(live[from.Buffer], func(r *texelRead) bool { return i-r.last > texelKeep })
			read := findRead(live[from.Buffer], from)
			if read == nil {
				read = &texelRead{from: from, first: i}
				all = append(all, read)
				live[from.Buffer] = append(live[from.Buffer], read)
			}
			read.last = i
			read.uses = append(read.uses, texelUse{i, b})
		}
		for b, binding := range bindings {
			if binding.Access.writes() {
				written(c.bind[b])
			}
		}
	}
	return all
}

// findRead is the newest read of that very range.
func findRead(reads []*texelRead, from Range) *texelRead {
	for _, r := range slices.Backward(reads) {
		if r.from == from {
			return r
		}
	}
	return nil
}

// placeTexels gives each read a slot that no other has at the same time, the largest first, and returns the sizes of the slots in
// descending order.
func placeTexels(reads []*texelRead) (sizes []uint64) {
	bySize := slices.Clone(reads)
	slices.SortStableFunc(bySize, func(a, b *texelRead) int {
		return cmp.Or(cmp.Compare(texelSize(b.from.Bytes), texelSize(a.from.Bytes)), cmp.Compare(a.first, b.first))
	})
	commands := 0
	for _, r := range reads {
		commands = max(commands, r.last+1)
	}
	var slots [][]bool // taken, by command
	for _, r := range bySize {
		r.slot = slices.IndexFunc(slots, func(taken []bool) bool { return !slices.Contains(taken[r.first:r.last+1], true) })
		if r.slot < 0 {
			r.slot = len(slots)
			slots, sizes = append(slots, make([]bool, commands)), append(sizes, texelSize(r.from.Bytes))
		}
		for i := r.first; i <= r.last; i++ {
			slots[r.slot][i] = true
		}
	}
	return sizes
}

// texelPool is the textures of a device. Its programs run one after the other and refresh what they read, so they share them.
type texelPool struct {
	mu   sync.Mutex
	live []*pooledTexels // in descending order of size
}

type pooledTexels struct {
	buffer   *Buffer
	programs int // that use it
}

// take finds or makes textures of at least these sizes, given in descending order.
func (t *texelPool) take(d *Device, sizes []uint64) (out []*pooledTexels, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	at := 0
	for _, size := range sizes {
		if at == len(t.live) || t.live[at].buffer.bytes < size {
			b, err := d.newTexels(fmt.Sprintf("gputrain.gpu.texels %d", size), size)
			if err != nil {
				t.release(out)
				return nil, err
			}
			t.live = slices.Insert(t.live, at, &pooledTexels{buffer: b})
		}
		t.live[at].programs++
		out = append(out, t.live[at])
		at++
	}
	return out, nil
}

// giveBack releases the textures that no other program uses.
func (t *texelPool) giveBack(taken []*pooledTexels) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.release(taken)
}

func (t *texelPool) release(taken []*pooledTexels) {
	for _, p := range taken {
		if p.programs--; p.programs == 0 {
			t.live = slices.DeleteFunc(t.live, func(o *pooledTexels) bool { return o == p })
			p.buffer.Release()
		}
	}
}

// TexelBytes is what the textures of the device take, part of Counters.LiveBytes.
func (d *Device) TexelBytes() uint64 {
	d.texels.mu.Lock()
	defer d.texels.mu.Unlock()
	bytes := uint64(0)
	for _, p := range d.texels.live {
		bytes += p.buffer.bytes
	}
	return bytes
}

// NewTexels is NewBuffer for what kernels alone read and write, from its start on: where the device has texels it is a texture of its own, and
// no program refreshes what it reads of it. Such a kernel may only read it, or write it in whole vec4s of f32. It may be larger than asked for.
func (d *Device) NewTexels(label string, bytes uint64) (*Buffer, error) {
	if !d.hasTexels() {
		return d.NewBuffer(label, bytes)
	}
	if bytes > d.limits.BindingBytes {
		return nil, fmt.Errorf("gpu: new texels: %w", &LimitError{fmt.Sprintf("%q", label), bytes, d.limits.BindingBytes, "BindingBytes"})
	}
	return d.newTexels(label, texelSize(bytes))
}

// newTexels makes a zero-filled texture of that many bytes, a texelSize; refreshes or kernels write it, kernels alone read it.
func (d *Device) newTexels(label string, bytes uint64) (*Buffer, error) {
	if err := d.Err(); err != nil {
		return nil, fmt.Errorf("gpu: new texels %q: %w", label, err)
	}
	if err := d.account.take(label, bytes); err != nil {
		return nil, fmt.Errorf("gpu: new texels: %w", err)
	}
	b := &Buffer{device: d, label: label, bytes: bytes, usage: usageTexels}
	if d.native != nil {
		native, err := d.native.makeTexels(label, bytes)
		if err != nil {
			d.account.free(bytes)
			return nil, fmt.Errorf("gpu: new texels %q: %d live: %w", label, d.account.liveBytes(), err)
		}
		b.texels = native
		d.owned.add(b)
	}
	return b, nil
}
