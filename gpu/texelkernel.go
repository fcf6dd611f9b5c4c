package gpu

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"gputrain/shaders"
)

// TexelUse says which kernels of a device read texels.
type TexelUse int

const (
	TexelsAuto  TexelUse = iota // where it pays on the adapter
	TexelsOff                   // none
	TexelsReuse                 // those that read each element many times (Kernel.Reuse)
	TexelsAll                   // all whose work outweighs the refresh
	TexelsForce                 // all that can, however little they do: for tests
)

var texelUses = []string{"auto", "off", "reuse", "all", "force"}

func (u TexelUse) String() string { return texelUses[u] }

// ParseTexelUse is the opposite of String.
func ParseTexelUse(s string) (TexelUse, error) {
	i := slices.Index(texelUses, s)
	if i < 0 {
		return 0, fmt.Errorf("gpu: texels: found %q, wanted one of %s", s, strings.Join(texelUses, ", "))
	}
	return TexelUse(i), nil
}

func (d *Device) hasTexels() bool {
	return d.limits.TexelBindings > 0 && d.limits.Texels > TexelsOff
}

// A refresh costs some 25 us before its first byte. That is what a kernel saves with this many bytes of operands that it reads many times,
// and with this many invocations that load each operand once. Measured on lavapipe of Mesa 22.3.6 on Sapphire Rapids for TexelsReuse, by
// its cost of a load on Zen 3 for TexelsAll.
const (
	reuseBytes     = 16 << 10
	reuseBytesAll  = 2 << 10
	allInvocations = 1 << 10
)

// pays tells whether the kernel of a dispatch gains more by texels than their refresh costs. It is a function of the limits, the kernel and
// the sizes alone.
func (u TexelUse) pays(c *command) bool {
	bytes := uint64(0)
	for _, r := range c.bind {
		bytes += r.Bytes
	}
	w := c.kernel.workgroup
	invocations := uint64(c.grid.X) * uint64(c.grid.Y) * uint64(c.grid.Z) * uint64(w[0]*w[1]*w[2])
	switch {
	case u == TexelsForce:
		return true
	case c.kernel.Reuse && u == TexelsReuse:
		return bytes >= reuseBytes
	case c.kernel.Reuse && u == TexelsAll:
		return bytes >= reuseBytesAll
	}
	return u == TexelsAll && invocations >= allInvocations
}

// formOf is the kernel of a dispatch as this device runs it: what is bound to texels is rewritten in any case.
func (d *Device) formOf(c *command) *Kernel {
	if !d.hasTexels() {
		return c.kernel
	}
	var f texelForm
	for i, r := range c.bind {
		if r.Buffer.usage == usageTexels {
			f.bound |= 1 << (len(c.kernel.Bindings) - len(c.bind) + i)
		}
	}
	if d.limits.Texels.pays(c) {
		f.most = d.limits.TexelBindings - bits.OnesCount(f.bound)
	}
	if f == (texelForm{}) {
		return c.kernel
	}
	form, known := c.kernel.forms.Load(f)
	if !known {
		form, _ = c.kernel.forms.LoadOrStore(f, withTexels(c.kernel, f))
	}
	return form.(*Kernel)
}

// Kernels are those that a program of the recording runs on its device.
func (r *Recording) Kernels() []*Kernel {
	var out []*Kernel
	for i := range r.commands {
		if c := &r.commands[i]; c.kind == kindDispatch {
			if k := r.device.formOf(c); !slices.Contains(out, k) {
				out = append(out, k)
			}
		}
	}
	return out
}

// texelForm says what a kernel reads and writes as texels: the bindings of a set of bits, and up to most of its other operands.
type texelForm struct {
	bound uint
	most  int
}

// withTexels is k in a form, made once a process, or k itself where it reads none.
func withTexels(k *Kernel, f texelForm) *Kernel {
	form := *k
	form.Bindings = slices.Clone(k.Bindings)
	for i, b := range k.Bindings {
		bound := f.bound>>i&1 == 1
		if !bound && (b.Access != Read || f.most <= 0) {
			continue
		}
		rewrite, access := shaders.Texels, Texels
		if b.Access == ReadWrite {
			rewrite, access = shaders.WrittenTexels, WrittenTexels
		}
		source, ok := rewrite(form.Source, i)
		if !ok {
			if bound && form.err == nil {
				form.err = fmt.Errorf("binding %q: bound to texels, want an array that the kernel only reads, or one of vec4<f32> that it only writes", b.Name)
			}
			continue
		}
		form.Source, form.Bindings[i].Access = source, access
		if !bound {
			f.most--
		}
	}
	if form.err != nil {
		return &form
	}
	if form.Source == k.Source {
		return k
	}
	form.Label += "~"
	return &form
}
