package compile

import "gputrain/graph"

// collapse merges neighbouring axes of the domain that every index runs through as one, and chooses vec4s where the last
// axis that is left allows it. With pad the last vec4 may run over the end.
func (f *fused) collapse(root *ir, pad bool) {
	guarded := map[int]bool{}
	f.visit(root, func(x *ir) {
		if x.kind == irGuard {
			guarded[x.dim] = true
		}
	})
	f.merged = make([]int, len(f.domain))
	last := -1 // the axis merged last
	var axes []int
	for d, size := range f.domain {
		f.merged[d] = -1
		if size == 1 {
			continue
		}
		joins := last >= 0 && !guarded[d] && !guarded[last]
		for _, l := range f.linears {
			joins = joins && l.coef[last] == l.coef[d]*size
		}
		if joins {
			f.dims[len(f.dims)-1] *= size
			axes[len(axes)-1] = d
		} else {
			f.dims = append(f.dims, size)
			axes = append(axes, d)
		}
		f.merged[d] = len(f.dims) - 1
		last = d
	}
	if len(f.dims) == 0 {
		f.dims = []int{1}
	}
	for _, l := range f.linears {
		coef := make([]int, len(f.dims))
		for i, d := range axes {
			coef[i] = l.coef[d]
		}
		l.coef = coef
	}
	f.vec = f.fitsVectors(root, pad)
}

// fitsVectors is whether an invocation may compute four neighbours along the last axis.
func (f *fused) fitsVectors(root *ir, pad bool) bool {
	end := len(f.dims) - 1
	whole := f.dims[end]%4 == 0
	fits := true
	f.visit(root, func(x *ir) {
		if x.kind == irGuard && (!whole || f.merged[x.dim] == end && (x.lo%4 != 0 || x.hi%4 != 0)) {
			fits = false
		}
	})
	if whole || !fits {
		return fits
	}
	if !pad || end > 0 || f.dims[end] == 1 {
		return false
	}
	for _, l := range f.linears { // every operand from its start, or constant: the padding is there to read
		if l.off != 0 || l.coef[end] > 1 {
			return false
		}
	}
	return true
}

func (f *fused) lanes() int {
	if f.vec {
		return 4
	}
	return 1
}

// items is the number of invocations: elements, or vec4s.
func (f *fused) items() int {
	n := graph.Elements(f.dims)
	return (n + f.lanes() - 1) / f.lanes()
}

// A load of a vec4 kernel reads a vec4 where the operand is contiguous and aligned along the last axis, one number for
// all lanes where it is constant along it, four numbers elsewhere.
func (f *fused) contiguous(l *linear) bool {
	end := len(f.dims) - 1
	if l.coef[end] != 1 || l.off%4 != 0 {
		return false
	}
	for _, k := range l.coef[:end] {
		if k%4 != 0 {
			return false
		}
	}
	return true
}

// straight is whether an index is the invocation's own.
func (f *fused) straight(l *linear) bool {
	stride := 1
	for d := len(f.dims) - 1; d >= 0; d-- {
		if l.coef[d] != stride && f.dims[d] > 1 {
			return false
		}
		stride *= f.dims[d]
	}
	return l.off == 0
}
