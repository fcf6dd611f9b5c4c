package gpu

import "gputrain/shaders"

// bf16Form is the key of a form of a kernel.
type bf16Form struct {
	bindings, halves uint64 // a bit each
	wide             bool
}

// InBF16 is the kernel with the elements of its arrays at some bindings, a bit each, in bf16, and at others (halves) in f16: see shaders.BF16. It is nil where
// there is no such form.
func (k *Kernel) InBF16(bindings, halves uint64, wide bool) *Kernel {
	key := bf16Form{bindings, halves, wide}
	if known, ok := k.forms.Load(key); ok {
		return known.(*Kernel)
	}
	source, ok := k.Source, k.err == nil
	for i := range k.Bindings {
		if half := halves>>i&1 == 1; ok && (half || bindings>>i&1 == 1) {
			source, ok = shaders.BF16(source, i, wide, half)
		}
	}
	form := (*Kernel)(nil)
	if ok {
		label := k.Label
		if bindings != 0 {
			label += "_bf16"
		}
		if halves != 0 {
			label += "_halves"
		}
		form = KernelOf(label, source)
		form.Reuse = k.Reuse
	}
	known, _ := k.forms.LoadOrStore(key, form)
	return known.(*Kernel)
}

// ReadsBack is whether a kernel also reads what it writes at a binding.
func (k *Kernel) ReadsBack(binding int) bool {
	return k.Bindings[binding].Access == ReadWrite && shaders.Passes(withoutComments(k.Source), k.Bindings[binding].Name) == 2
}
