package gpu

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
)

// Program is a recording made ready: pipelines, bind groups, one uniform buffer for the params of all its dispatches.
// Submitting it creates nothing. It keeps no memory of its own but the uniform buffer; the buffers it was recorded with
// must live as long.
type Program struct {
	device     *Device
	label      string
	commands   []command
	dispatches int
	uniform    *Buffer
	buffers    []*Buffer // every one it uses, once
	readbacks  []*Readback
	sizes      []uint64   // of the read-backs
	names      []spanName // of its groups in order, for the profile
	groups     []int      // places of these in list, the program's own first
	handles    []nativeGroup
	list       nativeList
	texels     []*pooledTexels
	released   atomic.Bool
}

// Program checks and compiles the recording. Errors: the recording's own, the compiler's with the kernel's label,
// NewBuffer's.
func (r *Recording) Program(ctx context.Context) (*Program, error) {
	if r.err != nil {
		return nil, r.err
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("gpu: program %q: %w", r.label, err)
	}
	if err := r.device.Err(); err != nil {
		return nil, fmt.Errorf("gpu: program %q: %w", r.label, err)
	}
	p := &Program{device: r.device, label: r.label, commands: append([]command(nil), r.commands...)}
	if err := p.readTexels(); err != nil {
		p.Release()
		return nil, fmt.Errorf("gpu: program %q: %w", r.label, err)
	}
	p.collect()
	if p.device.native != nil {
		p.device.owned.add(p)
	}
	if err := p.build(ctx); err != nil {
		p.Release()
		return nil, fmt.Errorf("gpu: program %q: %w", r.label, err)
	}
	return p, nil
}

func (p *Program) collect() {
	seen := map[*Buffer]bool{}
	use := func(ranges ...Range) {
		for _, r := range ranges {
			if r.Buffer != nil && !seen[r.Buffer] {
				seen[r.Buffer] = true
				p.buffers = append(p.buffers, r.Buffer)
			}
		}
	}
	for i := range p.commands {
		c := &p.commands[i]
		use(c.bind...)
		use(c.src, c.dst)
		switch c.kind {
		case kindDispatch:
			p.dispatches++
		case kindReadBack:
			p.readbacks = append(p.readbacks, c.readback)
			p.sizes = append(p.sizes, c.src.Bytes)
		}
	}
}

// placeParams gives every distinct block of params an aligned place in one uniform buffer.
func (p *Program) placeParams() (places []Range, err error) {
	places = make([]Range, len(p.commands))
	offsets := map[string]uint64{}
	var blob []byte
	for i := range p.commands {
		params := p.commands[i].params
		if params == nil {
			continue
		}
		off, ok := offsets[string(params)]
		if !ok {
			off = alignUp(uint64(len(blob)), p.device.limits.UniformAlign)
			blob = append(append(blob, make([]byte, off-uint64(len(blob)))...), params...)
			offsets[string(params)] = off
		}
		places[i] = Range{Offset: off, Bytes: uint64(len(params))}
	}
	if len(blob) == 0 {
		return places, nil
	}
	if p.uniform, err = p.device.newBuffer("gputrain.gpu.params "+p.label, uint64(len(blob)), usageUniform); err != nil {
		return nil, err
	}
	for i := range places {
		if places[i].Bytes > 0 {
			places[i].Buffer = p.uniform
		}
	}
	return places, p.device.Write(p.uniform.All(), blob)
}

func (p *Program) build(ctx context.Context) error {
	d := p.device
	places, err := p.placeParams()
	if err != nil {
		return err
	}
	if d.native == nil {
		for _, k := range p.kernels() {
			d.pipelines.slot(k)
		}
		return nil
	}
	pipelines, err := p.compile(ctx)
	if err != nil {
		return err
	}
	// The first group carries the recording's label, for what comes before any Group call.
	out := []nativeCommand{{kind: kindGroup, label: p.label}}
	p.names, p.groups = []spanName{{label: p.label}}, []int{0}
	shared := map[string]nativeGroup{}
	for i := range p.commands {
		c := &p.commands[i]
		n := nativeCommand{kind: c.kind, grid: c.grid, label: c.label}
		switch c.kind {
		case kindDispatch:
			n.pipeline = pipelines[c.kernel]
			if n.group, err = p.bind(c, n.pipeline, places[i], shared); err != nil {
				return fmt.Errorf("command %d: %s: %w", i, c.label, err)
			}
		case kindGroup:
			p.names, p.groups = append(p.names, spanName{p.label, c.label, c.operation}), append(p.groups, i+1)
		default:
			n.bytes = max(c.src.Bytes, c.dst.Bytes)
			if c.src.Buffer != nil {
				n.src, n.srcOffset = c.src.Buffer.native, c.src.Offset
			}
			if c.dst.Buffer != nil {
				n.dst, n.dstOffset, n.texels = c.dst.Buffer.native, c.dst.Offset, c.dst.Buffer.texels
			}
		}
		out = append(out, n)
	}
	p.list = makeList(out)
	return nil
}

// kernels are the kernels of its dispatches, each once.
func (p *Program) kernels() []*Kernel {
	var kernels []*Kernel
	seen := map[*Kernel]bool{}
	for i := range p.commands {
		if k := p.commands[i].kernel; k != nil && !seen[k] {
			seen[k] = true
			kernels = append(kernels, k)
		}
	}
	return kernels
}

func (p *Program) compile(ctx context.Context) (map[*Kernel]nativePipeline, error) {
	kernels, pipelines := p.kernels(), map[*Kernel]nativePipeline{}
	if err := p.device.Compile(ctx, kernels, nil); err != nil {
		return nil, err
	}
	for _, k := range kernels {
		var err error
		if pipelines[k], err = p.device.pipeline(k); err != nil {
			return nil, err
		}
	}
	return pipelines, nil
}

// bind makes the bind group of a dispatch, or finds one made for the same pipeline and ranges.
func (p *Program) bind(c *command, pipeline nativePipeline, params Range, shared map[string]nativeGroup) (nativeGroup, error) {
	d := p.device
	ranges := c.bind
	if c.params != nil {
		ranges = append([]Range{params}, c.bind...)
	}
	var key strings.Builder
	fmt.Fprintf(&key, "%p", pipeline.layout)
	for _, r := range ranges {
		fmt.Fprintf(&key, " %p:%d:%d", r.Buffer, r.Offset, r.Bytes)
	}
	if g, ok := shared[key.String()]; ok {
		return g, nil
	}
	g, err := d.native.group(c.label, pipeline, ranges)
	if err != nil {
		return nil, err
	}
	d.counts.bindGroups.Add(1)
	p.handles = append(p.handles, g)
	shared[key.String()] = g
	return g, nil
}

// Submit submits the program alone, see Device.Submit.
func (p *Program) Submit(ctx context.Context) error { return p.device.Submit(ctx, p) }

// String is the text form of the recording.
func (p *Program) String() string { return describeCommands(p.label, p.commands) }

// Dispatches is how many dispatches one submit does.
func (p *Program) Dispatches() int { return p.dispatches }

// UniformBytes is the size of the buffer that holds the params of all dispatches.
func (p *Program) UniformBytes() uint64 {
	if p.uniform == nil {
		return 0
	}
	return p.uniform.bytes
}

// Release gives back what the program made. Submits under way are not harmed.
func (p *Program) Release() {
	if p == nil || p.released.Swap(true) {
		return
	}
	p.device.owned.remove(p)
	p.uniform.Release()
	p.device.texels.giveBack(p.texels)
}

func (p *Program) releaseNative() {
	if !p.device.native.dead() {
		for _, g := range p.handles {
			p.device.native.releaseGroup(g)
		}
	}
	freeList(p.list)
}

// check tests what may have changed since the program was made.
func (p *Program) check() error {
	if p.released.Load() {
		return fmt.Errorf("program %q: is released", p.label)
	}
	for _, b := range p.buffers {
		if b.released.Load() {
			return fmt.Errorf("program %q: buffer %q is released", p.label, b.label)
		}
	}
	return nil
}
