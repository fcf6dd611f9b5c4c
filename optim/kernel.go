package optim

import (
	"fmt"
	"maps"

	"gputrain/gpu"
	"gputrain/shaders"
)

// operatorKernel specialises shaders/optim_<file>.wgsl in workgroups of lanes. The label tells its uses apart.
func operatorKernel(file, label string, flags map[string]bool, constants map[string]string) *gpu.Kernel {
	all := map[string]string{"LANES": fmt.Sprint(lanes)}
	maps.Copy(all, constants)
	return gpu.NewKernel("gputrain.optim."+label, "optim_"+file, shaders.Variant{Flags: flags, Constants: all})
}
