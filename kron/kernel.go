package kron

import (
	"gputrain/gpu"
	"gputrain/shaders"
)

// kernelOf specialises shaders/kron_<name>.wgsl. The suffix tells variants apart in labels.
func kernelOf(name, suffix string, v shaders.Variant) *gpu.Kernel {
	return gpu.NewKernel("gputrain.kron."+name+suffix, "kron_"+name, v)
}
