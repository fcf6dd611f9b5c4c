package doctor

import (
	"context"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"gputrain/buffers"
	"gputrain/buffers/histogram"
	"gputrain/gpu"
	"gputrain/graph/compile"
	"gputrain/kron"
	"gputrain/optim"
)

// RunCases runs cases on each of the devices, which have one for each stage, and hands on the worst result of each case until next has seen enough.
func RunCases(ctx context.Context, devices [][]*gpu.Device, cases map[string]fs.FS, next func(Result) error) error {
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		if err := next(worstOf(devices, func(stages []*gpu.Device) Result { return RunCase(ctx, stages, name, cases[name]) })); err != nil {
			return err
		}
	}
	return nil
}

// RunChecks does the same with checks of kernels.
func RunChecks(ctx context.Context, devices [][]*gpu.Device, checks []gpu.Check, next func(Result) error) error {
	for _, check := range checks {
		if err := next(worstOf(devices, func(stages []*gpu.Device) Result { return RunCheck(ctx, stages[0], check) })); err != nil {
			return err
		}
	}
	return nil
}

// Checks are those of every kernel.
func Checks() []gpu.Check {
	return slices.Concat(buffers.Checks(), histogram.Checks(), kron.Checks(), optim.Checks(), compile.Checks())
}

// worstOf is the first result that fails, else the one with the largest error.
// Where that is one with texels, what is worst says so.
func worstOf(devices [][]*gpu.Device, run func([]*gpu.Device) Result) (worst Result) {
	for i, stages := range devices {
		r := run(stages)
		if i > 0 && r.Pass && r.MaxError <= worst.MaxError {
			continue
		}
		if stages[0].Limits().Texels > gpu.TexelsOff {
			r.Worst = strings.TrimSpace("texels: " + r.Worst)
		}
		if worst = r; !r.Pass {
			break
		}
	}
	return worst
}
