package setup

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"sync"

	"gputrain/buffers"
	"gputrain/buffers/array"
	"gputrain/model"
	"gputrain/optim"
	"gputrain/state"
	"gputrain/train"
	"gputrain/train/runfile"
)

// Weights are the parameters that a run begins with.
type Weights struct {
	Params []buffers.Host // nil: all are drawn from the seed
	Dir    string         // where they are from
	Drawn  []string       // those of them that model.from lacks
	Tokens Tokens         // how text becomes tokens for them
	// LoRAFrom is the directory whose adapters are among them; "": there are none, or new ones.
	LoRAFrom string

	stored  *model.Stored // the files in Dir; nil: a plan needs none
	release func()
}

// Release closes the files that the parameters are read from; a second call does nothing.
func (w Weights) Release() {
	if w.release != nil {
		w.release()
	}
}

// Definition is the model that a run file describes, with its parameters where it takes them from a directory: they are read when they are used, until
// Release. What there is to say of that directory is written to out.
func Definition(cfg *runfile.Config, out io.Writer) (model.Definition, Weights, error) {
	return definition(cfg, out, from)
}

// definition takes a model of files from open.
func definition(cfg *runfile.Config, out io.Writer, open func(*runfile.Config, io.Writer) (model.Definition, Weights, error)) (model.Definition, Weights, error) {
	m, none := cfg.Model, Weights{}
	if m.From != "" {
		def, weights, err := open(cfg, out)
		if err != nil {
			return nil, none, err
		}
		if def, err = model.WithDropout(def, m.Dropout); err == nil {
			def, err = quantized(cfg, def)
		}
		if err == nil {
			def, err = adapted(cfg, def, &weights, out)
		}
		if err == nil {
			err = weights.Tokens.Fit(def, fmt.Sprintf("run file: model.from (%s): %s", cfg.Origin("model.from"), m.From))
		}
		if err != nil {
			weights.Release()
			return nil, none, &UsageError{err}
		}
		return def, weights, nil
	}
	tokens, err := tokensOf(cfg, "", out)
	if err != nil {
		return nil, none, err
	}
	none.Tokens = tokens
	if m.Vocab == 0 {
		m.Vocab = vocabOf(cfg, tokens)
	}
	def, err := model.New(m.Kind, m.Keys)
	if err == nil {
		err = tokens.Fit(def, fmt.Sprintf("run file: model.vocab (%s)", cfg.Origin("model.vocab")))
	}
	if err == nil {
		def, err = quantized(cfg, def)
	}
	if err != nil {
		return nil, none, &UsageError{err}
	}
	return def, none, nil
}

// onPaper reads what the directory of model.from says of its model, and its tokenizer; weights need not be there.
func onPaper(cfg *runfile.Config, out io.Writer) (model.Definition, Weights, error) {
	dir, leave, err := HoldModel(cfg.Model.From, out)
	if err != nil {
		return nil, Weights{}, err
	}
	w := Weights{Dir: dir, release: sync.OnceFunc(leave)}
	if w.Tokens, err = tokensOf(cfg, dir, out); err != nil {
		leave()
		return nil, Weights{}, err
	}
	def, err := model.ReadConfig(dir)
	if err != nil {
		leave()
		return nil, Weights{}, &ModelError{err}
	}
	return def, w, nil
}

// planned is from for a run that is not to be trained: of that, config.json is enough.
func planned(cfg *runfile.Config, out io.Writer) (model.Definition, Weights, error) {
	def, w, err := from(cfg, out)
	if !errors.Is(err, fs.ErrNotExist) {
		return def, w, err
	}
	var failure error
	if def, failure = model.ReadConfig(cfg.Model.From); failure != nil {
		return nil, w, err
	}
	fmt.Fprintf(out, "gputrain: %v; this is by its config.json alone\n", err)
	return def, Weights{Dir: cfg.Model.From, Params: model.Drawn(def, cfg.Train.Seed)}, nil
}

// from opens model.from.
func from(cfg *runfile.Config, out io.Writer) (model.Definition, Weights, error) {
	dir, leave, err := HoldModel(cfg.Model.From, out)
	if err != nil {
		return nil, Weights{}, err
	}
	switch base, err := model.AdapterBase(dir, ""); {
	case err != nil:
		leave()
		return nil, Weights{}, &ModelError{err}
	case base != "":
		leave()
		return nil, Weights{}, &UsageError{fmt.Errorf("run file: model.from (%s): found adapters in %s, wanted a model: model.from=%s with lora.from=%s goes on with them",
			cfg.Origin("model.from"), dir, base, cfg.Model.From)}
	}
	tokens, err := tokensOf(cfg, dir, out)
	if err != nil {
		leave()
		return nil, Weights{}, err
	}
	def, stored, err := model.OpenPartial(dir, cfg.Model.AllowMissing)
	var pattern *model.PatternError
	switch {
	case errors.As(err, &pattern):
		err = &UsageError{cfg.Wrong("model.allow_missing", err)}
	case err != nil:
		err = &ModelError{err}
	}
	if err != nil {
		leave()
		return nil, Weights{}, err
	}
	w := Weights{Dir: dir, Tokens: tokens, stored: stored, release: sync.OnceFunc(func() {
		_ = stored.Close() // nothing was written
		leave()
	})}
	w.Params, w.Drawn = stored.Params(cfg.Train.Seed)
	return def, w, nil
}

// vocabOf is the vocabulary of a new model where nobody has said it.
func vocabOf(cfg *runfile.Config, tokens Tokens) int {
	if rows := tokens.rows(); rows > 0 {
		return rows
	}
	vocab := map[string]int{byteTokens: 256, "u16": 1 << 16}[tokens.Kind]
	if end := cfg.Data.Layout.End; end != nil && tokens.Kind == byteTokens {
		vocab = max(vocab, *end+1)
	}
	return vocab
}

// quantized is def with the quantization that a run file describes, or none.
func quantized(cfg *runfile.Config, def model.Definition) (model.Definition, error) {
	q := cfg.Model.Quantize
	if q.Mode == runfile.NotQuantized {
		q = model.Quantization{}
	}
	def, err := model.WithQuantization(def, q)
	if err != nil {
		return nil, cfg.Wrong("model.quantize", err)
	}
	return def, nil
}

// State is what a run trains: its model, with the parameters that it begins with where it takes them from a directory, its optimizer,
// and the rows of a microbatch.
func State(cfg *runfile.Config, out io.Writer) (state.Config, Weights, error) {
	return described(cfg, out, from)
}

// AsBegun makes a run file that of the run in dir, where that has checkpoints and a record: its defaults are those that the run began with. With reschedule
// the run is to have another schedule.
func AsBegun(cfg *runfile.Config, dir string, reschedule bool) error {
	steps, err := Checkpoints(dir).Steps()
	if err != nil || len(steps) == 0 {
		return nil // training says what is wrong with them
	}
	if err := cfg.AsBegun(dir, reschedule); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return &UsageError{err}
	}
	return nil
}

// Plan is State of a run that is not to be trained: model.from may have a config.json alone, which is told.
func Plan(cfg *runfile.Config, out io.Writer) (state.Config, error) {
	c, begin, err := described(cfg, out, planned)
	begin.Release()
	return c, err
}

func described(cfg *runfile.Config, out io.Writer, open func(*runfile.Config, io.Writer) (model.Definition, Weights, error)) (state.Config, Weights, error) {
	def, begin, err := definition(cfg, out, open)
	if err != nil {
		return state.Config{}, Weights{}, err
	}
	c, err := training(cfg, def, begin)
	if err != nil {
		begin.Release()
		return state.Config{}, Weights{}, &UsageError{err}
	}
	tellDefault(cfg, out, "optimizer.learning_rate", cfg.Optimizer.LearningRate)
	tellDefault(cfg, out, "model.context", c.Sequence)
	if cfg.Data.Epochs == 0 { // else the text says how many steps there are
		err = layEvaluations(cfg, c, out)
	}
	return c, begin, err
}

// tellDefault tells of a default that is made for other values.
func tellDefault(cfg *runfile.Config, out io.Writer, key string, found any) {
	if from := cfg.Origin(key); from.IsDefault() && from != "default" {
		fmt.Fprintf(out, "gputrain: %s %v (%s)\n", key, found, from)
	}
}

// layEvaluations lays the tokens of an evaluation that suit the length of the run, unless somebody has said them, or the run has begun.
func layEvaluations(cfg *runfile.Config, c state.Config, out io.Writer) error {
	const key = "train.eval_tokens"
	t := cfg.Train
	n := train.EvaluationTokens(c, t.Steps, t.EvalEvery, t.EvalTokens)
	if cfg.Origin(key) == "default" && cfg.Data.Validation > 0 && n > 0 && n < t.EvalTokens {
		if err := cfg.Lay(key, strconv.FormatInt(n, 10), "default: all evaluations together read at most half of what training reads"); err != nil {
			return err
		}
	}
	tellDefault(cfg, out, key, cfg.Train.EvalTokens)
	return nil
}

// training is how a run file trains a model.
func training(cfg *runfile.Config, def model.Definition, begin Weights) (state.Config, error) {
	optimizer, err := fittingOptimizer(cfg, def)
	if err != nil {
		return state.Config{}, err
	}
	t, n := cfg.Train, cfg.Pipeline.Microbatches
	c := state.Config{Definition: def, Optimizer: optimizer, Batch: t.Batch / n, Microbatches: t.Accumulate * n, Seed: t.Seed}
	c.ShardOptimizer = cfg.Cluster.ShardOptimizer
	c.MeasureUpdates, c.Recompute, c.Accumulation = t.Spikes.UpdateNorm > 0, t.Recompute, t.Accumulation
	c.Documents, c.Preference = cfg.KeepsApart() && !cfg.Preference.On(), cfg.Preference.Model()
	c.Companions = begin.Tokens.Companions
	if err := cfg.FitContext(def.Context()); err != nil {
		return state.Config{}, err
	}
	c.Sequence = Context(cfg, def)
	if err := freeze(&c); err != nil {
		return state.Config{}, cfg.Wrong("optimizer.rates", err)
	}
	if c.Storage, err = array.ParseDType(t.Storage); err != nil {
		return state.Config{}, err
	}
	c.RoundProducts = t.Products == "f16"
	if c.FrozenDType, err = array.ParseDType(cfg.Model.Base); err != nil {
		return state.Config{}, err
	}
	if err := leaveFrozen(cfg, &c, begin); err != nil {
		return state.Config{}, cfg.Wrong("train.save_frozen", err)
	}
	if err := saveFrozenAs(cfg, &c); err != nil {
		return state.Config{}, cfg.Wrong("train.save_frozen_as", err)
	}
	job, err := state.NewJob(c)
	return job.Config, err
}

// leaveFrozen leaves what is frozen out of checkpoints, where there are adapters or a run file wants that, and the directory that it begins with has it.
func leaveFrozen(cfg *runfile.Config, c *state.Config, begin Weights) error {
	drawn := func(path string) bool { return slices.Contains(begin.Drawn, path) }
	switch i := slices.IndexFunc(c.Frozen, drawn); {
	case cfg.Train.SaveFrozen && cfg.LoRA.On() && !cfg.Origin("train.save_frozen").IsDefault():
		return errors.New("found true with adapters, wanted nothing: their checkpoints have what is trained alone")
	case cfg.Train.SaveFrozen && !cfg.LoRA.On() && len(c.Frozen) > 0 && c.FrozenDType.Format().File == "":
		return fmt.Errorf("found true and model.base %v, wanted false: what nested maxima stand for is not nested to the same again, or %s, which can be saved", c.FrozenDType, c.FrozenDType.Format().Load)
	case cfg.Train.SaveFrozen && !cfg.LoRA.On():
		return nil
	case len(c.Frozen) == 0:
		return errors.New("found false and no frozen parameters, wanted some: optimizer.rates with a multiplier of 0")
	case begin.Params == nil:
		return errors.New("found false and weights that are drawn from the seed, wanted those of a directory, model.from, to find what is frozen again")
	case i >= 0:
		return fmt.Errorf("found false, and %q frozen, which model.from lacks, wanted it there or trained", c.Frozen[i])
	}
	c.Base = begin.Dir
	return nil
}

// saveFrozenAs is the type of what is frozen in checkpoints: one that loses nothing.
func saveFrozenAs(cfg *runfile.Config, c *state.Config) (err error) {
	if c.SaveFrozenAs, err = array.ParseDType(cfg.Train.FrozenAs); err != nil || c.SaveFrozenAs == array.F32 {
		return err
	}
	switch {
	case len(c.Frozen) == 0:
		return fmt.Errorf("found %v and no frozen parameters, wanted some: optimizer.rates with a multiplier of 0; what is trained is saved in f32, and gputrain export rounds it", c.SaveFrozenAs)
	case c.Base != "":
		return fmt.Errorf("found %v and checkpoints without frozen parameters, wanted nothing", c.SaveFrozenAs)
	case c.FrozenDType != c.SaveFrozenAs:
		return fmt.Errorf("found %v and model.base %v, wanted both %v, so that a resumed run has the same bits", c.SaveFrozenAs, c.FrozenDType, c.SaveFrozenAs)
	}
	return nil
}

// Context is how many tokens a window has. A run file that was not read by runfile.ReadAll, and a run of a program that did not tell new models from
// read ones, name no context where they have the default: it is then the model's own.
func Context(cfg *runfile.Config, def model.Definition) int {
	if cfg.Origin("model.context") != "default" {
		return min(def.Context(), cfg.Model.Context)
	}
	return def.Context()
}

// freeze freezes the parameters whose rate is multiplied by 0.
func freeze(c *state.Config) (err error) {
	if c.Frozen, err = optim.AtRateZero(c.Optimizer.Options.Rates, model.Specs(c.Definition)); err != nil {
		return err
	}
	job, _ := state.NewJob(*c) // Validate says what is wrong with the rest
	c.Frozen = job.Frozen      // what adapters stand on too
	if len(c.Frozen) == len(c.Definition.Params()) {
		return fmt.Errorf("found a multiplier of 0 for all %d parameters, wanted one or more left to train", len(c.Frozen))
	}
	return nil
}

// fittingOptimizer is the optimizer of a run file for a model, whose paths its rules have to match.
func fittingOptimizer(cfg *runfile.Config, def model.Definition) (optim.Config, error) {
	c, err := cfg.OptimizerConfig()
	if err != nil {
		return c, err
	}
	if err := cfg.CheckRates(); err != nil {
		return c, err
	}
	tx, err := c.Build()
	if as := c.Following(optim.Config{Options: optim.Options{Edition: optim.First}}); err != nil && cfg.Resumed() {
		c = as // which may have parameters that are not read
		tx, err = c.Build()
	}
	if err == nil {
		err = tx.Check(model.Specs(def))
	}
	if err != nil {
		return c, cfg.Wrong("optimizer", err)
	}
	return c, nil
}
