package doctor

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/graph/compile"
	"gputrain/internal/histogram"
	"gputrain/kron"
	"gputrain/optim"
)

// optimizerRun is an optimizer at work on the leaves of a case.
type optimizerRun interface {
	call(grads []buffers.Host) error // one call, with the gradients of all leaves
	params() ([]buffers.Host, error)
	tensors() (map[string]buffers.Host, error) // the optimizer's state as it is saved, by name
	updates() int64
	// weights are those at which the gradient of the last call was taken (moved), or that are evaluated after it (evaluated).
	weights(which string) ([]buffers.Host, error)
}

// deviceRun is one on a device, by programs made once.
type deviceRun struct {
	ctx      context.Context
	tree     *buffers.Tree
	grads    *buffers.Tree
	opt      *optim.State
	tx       optim.Transform
	programs map[optim.Phase]*gpu.Program
	moved    []buffers.Host
}

// newDeviceRun makes one; whole are the leaves of the tree in its own order, none for that of their paths.
func newDeviceRun(ctx context.Context, dev *gpu.Device, tx optim.Transform, params []buffers.Host, whole ...buffers.Spec) (*deviceRun, error) {
	r := &deviceRun{ctx: ctx, tx: tx, programs: map[optim.Phase]*gpu.Program{}}
	if err := r.prepare(dev, tx, params, whole); err != nil {
		r.release()
		return nil, err
	}
	return r, nil
}

func (r *deviceRun) prepare(dev *gpu.Device, tx optim.Transform, params []buffers.Host, whole []buffers.Spec) error {
	var err error
	if r.tree, err = buffers.Upload(dev, "case.params", params, buffers.F32); err != nil {
		return err
	}
	if r.grads, err = buffers.NewTree(dev, "case.grads", r.tree.Layout(), buffers.F32); err != nil {
		return err
	}
	if len(whole) == 0 {
		for _, leaf := range r.tree.Layout().Leaves() {
			whole = append(whole, leaf.Spec())
		}
	}
	if r.opt, err = tx.InitStage(r.tree, whole); err != nil {
		return err
	}
	for _, phase := range r.opt.Phases() {
		rec := dev.Record("gputrain.doctor." + phase.String())
		if err := tx.Record(rec, phase, r.grads, r.opt, r.tree); err != nil {
			return err
		}
		program, err := rec.Program(r.ctx)
		if err != nil {
			return err
		}
		r.programs[phase] = program
	}
	return nil
}

func (r *deviceRun) call(grads []buffers.Host) error {
	if err := r.grads.WriteAll(grads); err != nil {
		return err
	}
	phase, err := r.opt.Prepare()
	if err != nil {
		return err
	}
	if r.opt.Moving() {
		if err := r.apart(r.tx.RecordMove); err != nil {
			return err
		}
	}
	if r.tx.LooksAhead() {
		if r.moved, err = r.params(); err != nil {
			return err
		}
	}
	return r.programs[phase].Submit(r.ctx)
}

// apart runs what changes the params apart from updates.
func (r *deviceRun) apart(record func(*gpu.Recording, *optim.State, *buffers.Tree) error) error {
	rec := r.tree.Device().Record("gputrain.doctor.apart")
	if err := record(rec, r.opt, r.tree); err != nil {
		return err
	}
	return rec.Submit(r.ctx)
}

func (r *deviceRun) weights(which string) (found []buffers.Host, err error) {
	if which == "moved" {
		return r.moved, nil
	}
	trained, err := r.params()
	if err != nil || !r.opt.Averaged() {
		return trained, err
	}
	if err = r.apart(r.tx.RecordAverage); err == nil {
		found, err = r.params()
	}
	if err == nil {
		err = r.tree.WriteAll(trained)
	}
	return found, err
}

func (r *deviceRun) params() ([]buffers.Host, error) { return r.tree.Download(r.ctx) }

func (r *deviceRun) tensors() (map[string]buffers.Host, error) {
	out := map[string]buffers.Host{}
	for _, t := range r.opt.Tensors() {
		values, err := t.Floats(r.ctx)
		if err != nil {
			return nil, err
		}
		out[t.Name] = buffers.Host{Path: t.Name, Shape: t.Shape, Data: values}
	}
	return out, nil
}

func (r *deviceRun) updates() int64 { return r.opt.Counts()["updates"] }

func (r *deviceRun) release() {
	for _, p := range r.programs {
		p.Release()
	}
	r.opt.Release()
	for _, t := range []*buffers.Tree{r.tree, r.grads} {
		t.Release()
	}
}

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
		if err := next(worstOf(devices, func(stages []*gpu.Device) Result { return runCheck(ctx, stages[0], check) })); err != nil {
			return err
		}
	}
	return nil
}

// RunUnitChecks runs checks on a device of an adapter whose matrix units are on. An adapter without some that make products has nothing to check.
func RunUnitChecks(ctx context.Context, a gpu.Adapter, checks []gpu.Check, next func(Result) error) error {
	if compile.UnitsOf(a.Limits) == "" || len(checks) == 0 {
		return nil
	}
	dev, err := gpu.Open(ctx, a, gpu.Options{Matrix: true})
	if err != nil {
		return errors.Join(err, next(Failed("open with matrix units", a, err)))
	}
	defer dev.Release()
	if compile.UnitsOf(dev.Limits()) == "" { // a line has said why
		return nil
	}
	return RunChecks(ctx, [][]*gpu.Device{{dev}}, checks, next)
}

// Checks are those of every kernel.
func Checks() []gpu.Check {
	return slices.Concat(buffers.Checks(), histogram.Checks(), kron.Checks(), optim.Checks(), compile.Checks())
}

// UnitChecks are the checks of products of f16, for a device whose matrix units make them.
func UnitChecks() (out []gpu.Check) {
	for _, c := range compile.Checks() {
		if strings.Contains(c.Name, " f16") {
			out = append(out, gpu.Check{Name: c.Name + " by matrix units", Run: c.Run})
		}
	}
	return out
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
