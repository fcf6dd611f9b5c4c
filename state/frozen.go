package state

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"gputrain/buffers"
	"gputrain/buffers/array"
	"gputrain/gpu"
	"gputrain/hub"
	"gputrain/internal/suggest"
	"gputrain/model"
	"gputrain/optim"
	"gputrain/state/checkpoint"
)

// checkFrozen says what is wrong with the parameters that are not to be trained.
func (j Job) checkFrozen() error {
	var paths []string
	for _, p := range j.Definition.Params() {
		paths = append(paths, p.Path)
	}
	known, before := setOf(paths), map[string]bool{}
	for _, path := range j.Frozen {
		switch {
		case !known[path]:
			return fmt.Errorf("frozen: %q: found no such parameter%s", path, suggest.DidYouMean(path, paths))
		case before[path]:
			return fmt.Errorf("frozen: %q: given twice", path)
		}
		before[path] = true
	}
	if !slices.Contains(array.Bases, j.FrozenDType) {
		return fmt.Errorf("frozen: dtype: found %v, wanted %s", j.FrozenDType, suggest.Or(array.Names(array.Bases)))
	}
	if j.SaveFrozenAs != buffers.F32 && (j.SaveFrozenAs.Packed() || j.FrozenDType != j.SaveFrozenAs) {
		return fmt.Errorf("frozen: saved as %v, wanted f32, or bf16 where dtype is bf16 and not %v", j.SaveFrozenAs, j.FrozenDType)
	}
	if len(j.Frozen) == len(paths) {
		return fmt.Errorf("frozen: found all %d parameters, wanted one or more left to train", len(paths))
	}
	return nil
}

// WithBase completes the configuration of a state that begins with these parameters, so that its checkpoints find the frozen ones in Base.
// Errors: nothing that is frozen, or parameters that are yet to be drawn (nil), which no directory has.
func (j Job) WithBase(params []buffers.Host) (Job, error) {
	switch {
	case j.Base == "":
		j.BaseRecord = nil
		return j, nil
	case len(saved(j.Frozen)) == 0:
		return j, errors.New("base: found no frozen parameters, wanted some that checkpoints leave out")
	case params == nil:
		return j, errors.New("base: found parameters that are drawn from the seed, wanted those of the directory")
	}
	if j.BaseRecord != nil { // of a checkpoint, which has compared the parameters
		return j, nil
	}
	dir, err := filepath.Abs(j.Base)
	if err != nil {
		return j, err
	}
	fingerprint, err := model.Fingerprint(j.frozenOf(params))
	j.BaseRecord = &model.Base{Directory: dir, Fingerprint: fingerprint, DType: j.FrozenDType.String()}
	return j, err
}

// setOf is a set of paths: deep models have thousands, which are asked of each other.
func setOf(paths []string) map[string]bool {
	set := make(map[string]bool, len(paths))
	for _, path := range paths {
		set[path] = true
	}
	return set
}

// saved are those of some frozen parameters that are the model's own, not those that it consults.
func saved(frozen []string) []string {
	return slices.DeleteFunc(slices.Clone(frozen), model.Consulted)
}

// All are parameters that training begins with, nil those drawn from Seed, and with them those that it consults, in the order of the definition.
func (j Job) All(params []buffers.Host) []buffers.Host {
	if len(j.Consulted) == 0 {
		return params
	}
	if params == nil {
		params = model.Drawn(model.Student(j.Definition), j.Seed)
	}
	byPath := map[string]buffers.Host{}
	for _, h := range slices.Concat(params, j.Consulted) {
		byPath[h.Path] = h
	}
	var all []buffers.Host
	for _, p := range j.Definition.Params() {
		if h, there := byPath[p.Path]; there { // what lacks is refused where it is uploaded
			all = append(all, h)
		}
	}
	return all
}

// frozenOf are those of params that are frozen, but for those that are consulted.
func (j Job) frozenOf(params []buffers.Host) []buffers.Host {
	frozen := setOf(saved(j.Frozen))
	return slices.DeleteFunc(slices.Clone(params), func(h buffers.Host) bool { return !frozen[h.Path] })
}

// Fingerprint is that of some of the parameters that training begins with. It is known, and nothing is read, where they are those that WithBase has seen.
func (j Job) Fingerprint(params []buffers.Host) (string, error) {
	if j.BaseRecord != nil && len(params) == len(saved(j.Frozen)) && len(j.frozenOf(params)) == len(params) {
		return j.BaseRecord.Fingerprint, nil
	}
	return model.Fingerprint(params)
}

// leftToBase is WithBase of the parameters of a checkpoint that has all of them: Base, which it knows nothing of, has to have the same frozen ones.
func (j Job) leftToBase(params []buffers.Host) (Job, error) {
	j, err := j.WithBase(params)
	if err != nil || j.BaseRecord == nil {
		return j, err
	}
	files := hub.Open(j.Base)
	defer files.Close()
	_, weights, err := files.Partial([]string{""}) // what is trained may lack there
	if err != nil {
		return j, err
	}
	there, _ := weights.Params(0)
	found, err := model.Fingerprint(j.frozenOf(there))
	if err == nil && found != j.BaseRecord.Fingerprint {
		err = fmt.Errorf("base %q: found frozen parameters of fingerprint %s, wanted %s, as the checkpoint has them: let checkpoints go on having all parameters (train.save_frozen)",
			j.Base, found, j.BaseRecord.Fingerprint)
	}
	return j, err
}

// Divide divides the leaves of the definition into those that are trained and those that are frozen.
func (j Job) Divide() (trained, frozen []buffers.Spec) {
	isFrozen := setOf(j.Frozen)
	for _, s := range model.Specs(j.Definition) {
		if isFrozen[s.Path] {
			frozen = append(frozen, s)
		} else {
			trained = append(trained, s)
		}
	}
	return trained, frozen
}

// layouts are those of the trained and the frozen leaves; nil where none are frozen.
func (j Job) layouts(lim gpu.Limits) (trained, frozen *buffers.Layout, err error) {
	own, rest := j.Divide()
	if trained, err = j.Layout(own, lim); err != nil || len(rest) == 0 {
		return trained, nil, err
	}
	frozen, err = buffers.NewLayoutFor(j.FrozenDType, rest, lim)
	return trained, frozen, err
}

// upload makes the trees of a model's parameters: trained, and frozen, which is nil where none are.
func (j Job) upload(dev *gpu.Device, params []buffers.Host) (trained, frozen *buffers.Tree, err error) {
	own, rest := params, []buffers.Host(nil)
	if len(j.Frozen) > 0 {
		isFrozen := setOf(j.Frozen)
		own = slices.DeleteFunc(slices.Clone(params), func(h buffers.Host) bool { return isFrozen[h.Path] })
		rest = slices.DeleteFunc(slices.Clone(params), func(h buffers.Host) bool { return !isFrozen[h.Path] })
	}
	var leaves []buffers.Spec
	for _, h := range own {
		leaves = append(leaves, h.Spec())
	}
	layout, err := j.Layout(leaves, dev.Limits())
	if err != nil {
		return nil, nil, err
	}
	if trained, err = buffers.UploadAs(dev, "params", layout, own, buffers.F32); err != nil || len(rest) == 0 {
		return trained, nil, err
	}
	if frozen, err = buffers.Upload(dev, frozenLabel, rest, j.FrozenDType); err != nil {
		trained.Release()
	}
	return trained, frozen, err
}

const frozenLabel = "frozen"

// frozen are the paths of the frozen parameters, sorted.
func (f Fields) frozen() []string {
	_, frozen, _ := trees(f.residents())
	return pathsOf(frozen...)
}

// pathsOf are those of the leaves of trees, sorted; a nil tree has none.
func pathsOf(trees ...*buffers.Tree) (paths []string) {
	for _, tree := range buffers.Given(trees...) {
		for _, leaf := range tree.Layout().Leaves() {
			paths = append(paths, leaf.Path)
		}
	}
	slices.Sort(paths)
	return paths
}

// freeze leaves the frozen parameters out of a transformation.
func (f Fields) freeze(tx optim.Transform) optim.Transform {
	_, frozen, _ := trees(f.residents())
	if len(frozen) == 0 {
		return tx
	}
	return optim.Freeze(specsOf(frozen...), tx)
}

// specsOf are the leaves of trees.
func specsOf(trees ...*buffers.Tree) (out []buffers.Spec) {
	for _, tree := range trees {
		for _, leaf := range tree.Layout().Leaves() {
			out = append(out, leaf.Spec())
		}
	}
	return out
}

// frozenAs tells whether the parameters are divided as the configuration does.
func (f Fields) frozenAs(j Job) bool {
	return slices.Equal(f.frozen(), slices.Sorted(slices.Values(j.Frozen))) && (f.Frozen == nil || f.Frozen.DType() == j.FrozenDType)
}

// dividedAs tells whether the parameters lie as the configuration has them, with the trained ones in that layout. Those of another definition need
// no copy: they are refused.
func (f Fields) dividedAs(j Job, trained *buffers.Layout) bool {
	found := f.Params.Layout()
	return f.frozenAs(j) && (found.Equal(trained) || !sameLeaves(found, trained))
}

// narrow are the types of the parameters that are not kept in f32.
func (j Job) narrow() map[string]buffers.DType {
	if j.FrozenDType == buffers.F32 {
		return nil
	}
	out := map[string]buffers.DType{}
	for _, path := range j.Frozen {
		out[path] = j.FrozenDType
	}
	return out
}

// tables are the frozen parameters that the host keeps, in the type in which they would be kept.
func (j Job) tables() map[string]buffers.DType {
	out := map[string]buffers.DType{}
	_, frozen := j.Divide()
	for _, s := range frozen {
		if s.Table {
			out[s.Path] = j.FrozenDType
		}
	}
	return out
}

// divided are the fields with the parameters divided as the configuration does: copies, where they are not yet. After an error
// they have the copies that were made.
func (f Fields) divided(ctx context.Context, j Job) (Fields, error) {
	all, dev := buffers.Given(f.Params, f.Frozen), f.device()
	own, rest, err := j.layouts(dev.Limits())
	if err != nil || f.dividedAs(j, own) {
		return f, err
	}
	f.Params, err = copyAs(ctx, "params", buffers.F32, all, dev, own)
	f.Frozen = nil
	if err == nil && rest != nil {
		f.Frozen, err = copyAs(ctx, frozenLabel, j.FrozenDType, all, dev, rest)
	}
	return f, err
}

// sameFrozen compares the frozen parameters of a checkpoint with those that are wanted.
func sameFrozen(found, wanted []string) error {
	missing := func(of, in []string) []string {
		return slices.DeleteFunc(slices.Clone(of), func(path string) bool { return slices.Contains(in, path) })
	}
	for _, d := range []struct {
		paths         []string
		found, wanted string
	}{{missing(found, wanted), "frozen", "trained"}, {missing(wanted, found), "trained", "frozen"}} {
		if len(d.paths) > 0 {
			return fmt.Errorf("parameter %q: found it %s, wanted it %s: the optimizer remembers what is trained alone; its weights can begin a run of their own: %w",
				d.paths[0], d.found, d.wanted, checkpoint.ErrMismatch)
		}
	}
	return nil
}
