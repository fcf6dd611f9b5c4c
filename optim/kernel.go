package optim

import (
	"fmt"
	"maps"

	"gputrain/gpu"
	"gputrain/shaders"
)

// operatorKernel specialises shaders/optim_<file>.wgsl, which binds params first and then what follows, in workgroups of lanes. The label
// tells its uses apart.
func operatorKernel(file, label string, flags map[string]bool, constants map[string]string, bindings ...gpu.Binding) (*gpu.Kernel, error) {
	all := map[string]string{"LANES": fmt.Sprint(lanes)}
	maps.Copy(all, constants)
	source, err := shaders.Source("optim_"+file+".wgsl", shaders.Variant{Flags: flags, Constants: all})
	if err != nil {
		return nil, fmt.Errorf("optim: %s: %w", label, err)
	}
	return &gpu.Kernel{
		Label: "gputrain.optim." + label, Source: source, Workgroup: [3]int{lanes, 1, 1},
		Bindings: append([]gpu.Binding{{Name: "params", Access: gpu.Uniform}}, bindings...),
	}, nil
}
