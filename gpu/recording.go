package gpu

import (
	"context"
	"fmt"
)

type commandKind int

const (
	kindDispatch commandKind = iota
	kindCopy
	kindZero
	kindReadBack
	kindGroup
	kindRefresh // texels of a buffer; inserted by Program
)

// command is one entry of a recording.
type command struct {
	kind      commandKind
	label     string // of the kernel or the group
	operation string // of the group
	kernel    *Kernel
	grid      Grid
	params    []byte // contents of binding 0, nil when the caller binds all
	bind      []Range
	dst, src  Range
	readback  *Readback
	work      Work
}

// Recording lists commands. Every command is checked when it is recorded; the first error is kept with the index and the
// label of its command and returned by Err, Program and Submit. Not for several goroutines at once.
type Recording struct {
	device   *Device
	label    string
	commands []command
	err      error

	expected  *Work   // of the next dispatch, where that was told
	intensity float64 // of the others
}

// Record starts a recording.
func (d *Device) Record(label string) *Recording { return &Recording{device: d, label: label} }

func (r *Recording) add(c command, err error) {
	if c.kind != kindDispatch {
		c.work.Bytes = float64(c.src.Bytes + c.dst.Bytes)
	}
	if err != nil && r.err == nil {
		r.err = fmt.Errorf("gpu: record %q: command %d: %s: %w", r.label, len(r.commands), c.label, err)
	}
	r.commands = append(r.commands, c)
}

// Dispatch runs a kernel over a grid. With params not nil (see Kernel.Params) they become the kernel's constant uniform at binding 0
// (one shared buffer a program) and bind lists the bindings from 1 on; otherwise bind lists all of them. A grid with a zero is skipped.
func (r *Recording) Dispatch(k *Kernel, g Grid, params any, bind ...Range) {
	expected := r.expected
	r.expected = nil
	if k == nil {
		r.add(command{label: "dispatch"}, fmt.Errorf("no kernel"))
		return
	}
	if g.X == 0 || g.Y == 0 || g.Z == 0 {
		return
	}
	c := command{kind: kindDispatch, label: k.Label, kernel: k, grid: g, bind: append([]Range(nil), bind...)}
	var err error
	if c.params, err = k.Params(params); err == nil {
		err = r.checkDispatch(&c)
	}
	if err == nil {
		c.work = r.workOf(&c, expected)
	}
	r.add(c, err)
}

// Copy copies src to dst, of equal size, in multiples of 4 bytes; within one buffer it is refused.
func (r *Recording) Copy(dst, src Range) {
	if dst.Bytes == 0 && src.Bytes == 0 {
		return
	}
	c := command{kind: kindCopy, label: "copy", dst: dst, src: src}
	r.add(c, r.checkCopy(dst, src))
}

// Zero fills a range with zero bytes.
func (r *Recording) Zero(dst Range) {
	if dst.Bytes == 0 {
		return
	}
	r.add(command{kind: kindZero, label: "zero", dst: dst}, dst.checkMoved(r.device))
}

// ReadBack copies src into the next free staging buffer of the ring, at each submit.
func (r *Recording) ReadBack(rb *Readback, src Range) {
	c := command{kind: kindReadBack, label: "readback", readback: rb, src: src}
	err := src.checkMoved(r.device)
	switch {
	case rb == nil:
		err = fmt.Errorf("no readback")
	case err != nil:
	case rb.device != r.device:
		err = fmt.Errorf("readback %q: belongs to another device", rb.label)
	case src.Bytes > rb.bytes:
		err = fmt.Errorf("readback %q: %d bytes do not fit its %d", rb.label, src.Bytes, rb.bytes)
	case src.Buffer.usage&usageStorage != usageStorage:
		err = fmt.Errorf("%s: a uniform buffer cannot be read", src)
	}
	r.add(c, err)
}

// Group names the commands that follow, for the profile and for debuggers.
func (r *Recording) Group(name string) { r.GroupOf("", name) }

// GroupOf is Group of commands that belong to an operation, such as "products", under which the profile adds up groups; "": the group is one of its own.
func (r *Recording) GroupOf(operation, name string) {
	r.add(command{kind: kindGroup, label: name, operation: operation}, nil)
}

// Fail refuses what would be recorded next, as a command that is wrong does.
func (r *Recording) Fail(err error) {
	if r.err == nil {
		r.err = fmt.Errorf("gpu: record %q: command %d: %w", r.label, len(r.commands), err)
	}
}

// Err is the first error of the commands recorded so far.
func (r *Recording) Err() error { return r.err }

// Submit makes a program, submits it once and releases it: for work done once.
func (r *Recording) Submit(ctx context.Context) error {
	p, err := r.Program(ctx)
	if err != nil {
		return err
	}
	defer p.Release()
	return p.Submit(ctx)
}
