package plan

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"gputrain/buffers/array"
	"gputrain/model"
	"gputrain/optim"
	"gputrain/run/runfile"
	"gputrain/state"
)

// Base is the model of a run file without adapters: what those of lora.from are read for.
func Base(spec *runfile.Config, w World) (model.Definition, error) {
	def, err := headed(spec, w.Model.Definition, w)
	if err == nil {
		def, err = model.WithDropout(def, spec.Model.Dropout)
	}
	if balance := spec.Model.Balance; err == nil && balance != nil {
		def, err = model.WithBalance(def, *balance)
	}
	if err == nil {
		def, err = quantized(spec, def)
	}
	return def, err
}

// Network is the model of a run file.
func Network(spec *runfile.Config, w World) (def model.Definition, err error) {
	m := spec.Model
	if w.Model == nil {
		if m.Vocab == 0 {
			m.Vocab = w.Tokens.vocabulary(spec)
		}
		if def, err = model.New(m.Kind, m.Keys); err != nil {
			return nil, err
		}
		if err = w.Tokens.Fit(def, "run file: "+spec.At("model.vocab")); err != nil {
			return nil, err
		}
		if def, err = headed(spec, def, w); err != nil {
			return nil, err
		}
		return quantized(spec, def)
	}
	if def, err = Base(spec, w); err == nil {
		def, err = adapted(spec, def, w.Adapters)
	}
	if err == nil {
		err = w.Tokens.Fit(def, fmt.Sprintf("run file: %s: %s", spec.At("model.from"), m.From))
	}
	return def, err
}

// quantized is def with the quantization that a run file describes, or none.
func quantized(spec *runfile.Config, def model.Definition) (model.Definition, error) {
	q := spec.Model.Quantize
	if q.Mode == runfile.NotQuantized {
		q = model.Quantization{}
	}
	def, err := model.WithQuantization(def, q)
	if err != nil {
		return nil, spec.Wrong("model.quantize", err)
	}
	return def, nil
}

// adapted is def with the adapters that were read, or new ones; without any it is as it was.
func adapted(spec *runfile.Config, def model.Definition, read *Adapters) (model.Definition, error) {
	switch {
	case read != nil:
		return read.Definition, nil
	case spec.LoRA.From != "" || spec.LoRA.Rank == 0:
		return def, nil
	}
	def, err := model.WithLoRA(def, spec.LoRA.LoRA)
	if err == nil {
		return def, nil
	}
	// An error of the package model names a key: "model: lora: target: ...".
	said, _ := strings.CutPrefix(err.Error(), "model: lora: ")
	key, _, _ := strings.Cut(said, ":")
	if key = "lora." + key; runfile.IsKey(key) {
		return nil, spec.Wrong(key, err)
	}
	return nil, fmt.Errorf("run file: lora (%s): %w", spec.Origin("lora.rank"), err)
}

// referred is the network with its reference, where the objective needs it in the same program, or a run file asks for that of the beginning.
func (p *Plan) referred(def model.Definition) (model.Definition, error) {
	o := p.Spec.Objective()
	if !o.WantsReference(def) && p.Spec.Preference.Reference != runfile.ReferenceStart {
		return def, nil
	}
	both, err := model.WithReference(def)
	if err == nil {
		copied := model.Parameters(both) - model.Parameters(def)
		p.Told = append(p.Told, fmt.Sprintf("%s: the reference is a copy of %d parameters as training begins, beside those that are trained, in %s (model.base)",
			o.Loss, copied, p.Spec.Model.Base))
	}
	return both, err
}

// train decides how the model is trained.
func (p *Plan) train(def model.Definition, w World) error {
	spec := p.Spec
	optimizer, err := p.optimizer(def, w.Earlier)
	if err != nil {
		return err
	}
	if err := fitsHead(spec, def); err != nil {
		return err
	}
	t, n := spec.Train, spec.Pipeline.Microbatches
	c := state.Config{Definition: def, Optimizer: optimizer, Batch: t.Batch / n, Microbatches: t.Accumulate * n, Seed: t.Seed}
	c.ShardOptimizer = spec.Cluster.ShardOptimizer
	c.MeasureUpdates, c.Recompute, c.Accumulation = t.Spikes.UpdateNorm > 0, t.Recompute, t.Accumulation
	c.Documents, c.Objective = spec.KeepsApart(), spec.Objective()
	if w.Text != nil {
		c.Ends = w.Text.Ends
	}
	if r := spec.Rollout; spec.DrawsRollouts() {
		c.Rows = min(r.Rows, c.Batch*c.Microbatches*r.Updates)
	}
	if err := FitContext(spec, def, w.Earlier); err != nil {
		return err
	}
	c.Sequence = Context(spec, def)
	if err := freeze(&c); err != nil {
		return spec.Wrong("optimizer.rates", err)
	}
	if c.Storage, err = array.ParseDType(t.Storage); err != nil {
		return err
	}
	c.RoundProducts = t.Products == "f16"
	if c.FrozenDType, err = array.ParseDType(spec.Model.Base); err != nil {
		return err
	}
	if err := leaveFrozen(spec, &c, w.Model); err != nil {
		return spec.Wrong("train.save_frozen", err)
	}
	if err := saveFrozenAs(spec, &c); err != nil {
		return spec.Wrong("train.save_frozen_as", err)
	}
	if err := p.teach(&c, w.Teacher); err != nil {
		return err
	}
	job, err := state.NewJob(c)
	p.State = job.Config
	return err
}

// freeze freezes the parameters whose rate is multiplied by 0, and what adapters stand on.
func freeze(c *state.Config) (err error) {
	if c.Frozen, err = optim.AtRateZero(c.Optimizer.Options.Rates, model.Specs(c.Definition)); err != nil {
		return err
	}
	if c.Frozen = state.Frozen(c.Definition, c.Frozen); len(c.Frozen) == len(c.Definition.Params()) {
		return fmt.Errorf("found a multiplier of 0 for all %d parameters, wanted one or more left to train", len(c.Frozen))
	}
	return nil
}

// optimizer is that of a run file for a model, whose paths its rules have to match.
func (p *Plan) optimizer(def model.Definition, e *Earlier) (optim.Config, error) {
	c, err := p.Spec.OptimizerConfig()
	if err != nil {
		return c, err
	}
	if err := p.checkRates(e); err != nil {
		return c, err
	}
	tx, err := c.Build()
	if as := c.Following(optim.Config{Options: optim.Options{Edition: optim.First}}); err != nil && e != nil {
		c = as // which may have parameters that are not read
		tx, err = c.Build()
	}
	if err == nil {
		err = tx.Check(model.Specs(def))
	}
	if err != nil {
		return c, p.Spec.Wrong("optimizer", err)
	}
	return c, nil
}

// leaveFrozen leaves what is frozen out of checkpoints, where there are adapters or a run file wants that, and the
// directory that it begins with has it.
func leaveFrozen(spec *runfile.Config, c *state.Config, from *Model) error {
	saves, frozen := spec.Train.SaveFrozen, ownFrozen(c)
	switch {
	case saves && spec.LoRA.On() && spec.Given("train.save_frozen"):
		return errors.New("found true with adapters, wanted nothing: their checkpoints have what is trained alone")
	case saves && !spec.LoRA.On() && len(frozen) > 0 && c.FrozenDType.Format().File == "":
		return fmt.Errorf("found true and model.base %v, wanted false: what nested maxima stand for is not nested to the same again, or %s, which can be saved",
			c.FrozenDType, c.FrozenDType.Format().Load)
	case saves && !spec.LoRA.On():
		return nil
	case len(frozen) == 0:
		return errors.New("found false and no frozen parameters, wanted some: optimizer.rates with a multiplier of 0")
	case from == nil:
		return errors.New("found false and weights that are drawn from the seed, wanted those of a directory, model.from, to find what is frozen again")
	}
	if i := slices.IndexFunc(frozen, func(path string) bool { return slices.Contains(from.Lacks, path) }); i >= 0 {
		return fmt.Errorf("found false, and %q frozen, which model.from lacks, wanted it there or trained", frozen[i])
	}
	c.Base = from.Dir
	return nil
}

// ownFrozen are the frozen parts of the network.
func ownFrozen(c *state.Config) []string {
	return slices.DeleteFunc(slices.Clone(c.Frozen), model.Consulted)
}

// saveFrozenAs is the type of what is frozen in checkpoints: one that loses nothing.
func saveFrozenAs(spec *runfile.Config, c *state.Config) (err error) {
	if c.SaveFrozenAs, err = array.ParseDType(spec.Train.FrozenAs); err != nil || c.SaveFrozenAs == array.F32 {
		return err
	}
	switch {
	case len(ownFrozen(c)) == 0:
		return fmt.Errorf("found %v and no frozen parameters, wanted some: optimizer.rates with a multiplier of 0; what is trained is saved in f32, and gputrain export rounds it", c.SaveFrozenAs)
	case c.Base != "":
		return fmt.Errorf("found %v and checkpoints without frozen parameters, wanted nothing", c.SaveFrozenAs)
	case c.FrozenDType != c.SaveFrozenAs:
		return fmt.Errorf("found %v and model.base %v, wanted both %v, so that a resumed run has the same bits", c.SaveFrozenAs, c.FrozenDType, c.SaveFrozenAs)
	}
	return nil
}

// laySteps puts the steps that data.epochs come to into train.steps.
func (p *Plan) laySteps(steps int64) error {
	spec := p.Spec
	if spec.Data.Epochs == 0 {
		return nil
	}
	if spec.Given("train.steps") && spec.Train.Steps != steps {
		return fmt.Errorf("run file: %s: found %d, wanted nothing beside %s: %d epochs are %d steps",
			spec.At("train.steps"), spec.Train.Steps, spec.At("data.epochs"), spec.Data.Epochs, steps)
	}
	spec.Put("train.steps", steps, "data.epochs")
	return nil
}

// layEvaluations lays the tokens of an evaluation that suit the length of the run, unless somebody has said them, or
// the run has begun.
func (p *Plan) layEvaluations() {
	t := p.Spec.Train
	n := evaluationTokens(p.State, t.Steps, t.EvalEvery, t.EvalTokens)
	if p.Spec.IsDefault(evalTokensKey) && p.Spec.HoldsOut() && n > 0 && n < t.EvalTokens {
		p.Spec.Put(evalTokensKey, n, "default: all evaluations together read at most half of what training reads")
	}
	p.tell(evalTokensKey, p.Spec.Train.EvalTokens)
}
