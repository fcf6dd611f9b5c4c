package gpu

import "cmp"

// Limits are an adapter's limits, or smaller ones enforced in Go (Options.Limits). Sizes in bytes.
type Limits struct {
	BufferBytes    uint64 // one buffer
	BindingBytes   uint64 // one storage binding
	UniformBytes   uint64 // one uniform binding
	StorageBuffers int    // storage bindings a kernel
	Invocations    int    // a workgroup
	WorkgroupBytes int    // var<workgroup> a workgroup
	WorkgroupSize  [3]int
	Workgroups     uint32 // a dimension of a grid
	StorageAlign   uint64 // of the offset of a storage binding
	UniformAlign   uint64 // of the offset of a uniform binding
	Software       bool   // the adapter computes on the processor
	TexelBindings  int    // operands that a kernel can read as texels; 0 where the adapter has none
	Texels         TexelUse
	Registers      Registers // what kernels for GPUs choose their tiles by
	Matrix         MatrixUnits

	// Multiprocessors have a workgroup each: NVIDIA's SMs, AMD's compute units, Intel's Xe cores, Apple's GPU cores; 0 where nobody knows. Products choose
	// their tiles and slices of K by them, and sums their parts. MultiprocessorLanes are the additions of f32 that one begins a clock.
	Multiprocessors, MultiprocessorLanes int
}

// DefaultLimits are those that WebGPU guarantees everywhere.
func DefaultLimits() Limits {
	return Limits{
		BufferBytes: 256 << 20, BindingBytes: 128 << 20, UniformBytes: 64 << 10,
		StorageBuffers: 8, Invocations: 256, WorkgroupBytes: 16 << 10,
		WorkgroupSize: [3]int{256, 256, 64}, Workgroups: 65535,
		StorageAlign: 256, UniformAlign: 256, Registers: leastRegisters,
	}
}

// within returns l with every non-zero field of o in its place, where that is the stricter one.
func (l Limits) within(o Limits) Limits {
	l.BufferBytes = lower(l.BufferBytes, o.BufferBytes)
	l.BindingBytes = lower(l.BindingBytes, o.BindingBytes)
	l.UniformBytes = lower(l.UniformBytes, o.UniformBytes)
	l.StorageBuffers = lower(l.StorageBuffers, o.StorageBuffers)
	l.Invocations = lower(l.Invocations, o.Invocations)
	l.WorkgroupBytes = lower(l.WorkgroupBytes, o.WorkgroupBytes)
	for i := range l.WorkgroupSize {
		l.WorkgroupSize[i] = lower(l.WorkgroupSize[i], o.WorkgroupSize[i])
	}
	l.Workgroups = lower(l.Workgroups, o.Workgroups)
	l.StorageAlign = max(l.StorageAlign, o.StorageAlign)
	l.UniformAlign = max(l.UniformAlign, o.UniformAlign)
	l.TexelBindings = lower(l.TexelBindings, o.TexelBindings)
	if o.Texels != TexelsAuto {
		l.Texels = o.Texels
	}
	l.Registers = l.Registers.within(o.Registers)
	l.Multiprocessors = cmp.Or(o.Multiprocessors, l.Multiprocessors) // what is chosen by it: no limit
	l.MultiprocessorLanes = cmp.Or(o.MultiprocessorLanes, l.MultiprocessorLanes)
	return l
}

func lower[T int | uint32 | uint64](have, want T) T {
	if want == 0 {
		return have
	}
	return min(have, want)
}

// Grid is a number of workgroups in each dimension. A grid with a zero is skipped.
type Grid struct{ X, Y, Z uint32 }

// Linear is the grid for items handled perWorkgroup at a time, folded to X*Y above Limits.Workgroups.
// The kernel finds its first item at (wg.y*num_workgroups.x + wg.x) * perWorkgroup, see shared/grid.wgsl,
// and must ignore what lies past the end.
func Linear(items uint64, perWorkgroup int, lim Limits) Grid {
	groups := ceilDiv(items, uint64(perWorkgroup))
	if groups == 0 {
		return Grid{}
	}
	limit := uint64(lim.Workgroups)
	if groups <= limit {
		return Grid{X: uint32(groups), Y: 1, Z: 1}
	}
	// The flattest rectangle wastes fewest workgroups.
	y := ceilDiv(groups, limit)
	return Grid{X: uint32(ceilDiv(groups, y)), Y: uint32(y), Z: 1}
}

func ceilDiv(a, b uint64) uint64 { return (a + b - 1) / b }

func alignUp(n, align uint64) uint64 { return (n + align - 1) / align * align }

// orDefault fills zero fields from DefaultLimits.
func (l Limits) orDefault() Limits {
	def := DefaultLimits()
	return Limits{
		BufferBytes: cmp.Or(l.BufferBytes, def.BufferBytes), BindingBytes: cmp.Or(l.BindingBytes, def.BindingBytes),
		UniformBytes: cmp.Or(l.UniformBytes, def.UniformBytes), StorageBuffers: cmp.Or(l.StorageBuffers, def.StorageBuffers),
		Invocations: cmp.Or(l.Invocations, def.Invocations), WorkgroupBytes: cmp.Or(l.WorkgroupBytes, def.WorkgroupBytes),
		WorkgroupSize: cmp.Or(l.WorkgroupSize, def.WorkgroupSize), Workgroups: cmp.Or(l.Workgroups, def.Workgroups),
		StorageAlign: cmp.Or(l.StorageAlign, def.StorageAlign), UniformAlign: cmp.Or(l.UniformAlign, def.UniformAlign),
		Software: l.Software, TexelBindings: l.TexelBindings, Texels: l.Texels, Registers: l.Registers.OrLeast(),
		Matrix: l.Matrix, Multiprocessors: l.Multiprocessors, MultiprocessorLanes: l.MultiprocessorLanes,
	}
}
