package setup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"gputrain/buffers"
	"gputrain/hub"
	"gputrain/model"
	"gputrain/run/data/texts"
	"gputrain/run/plan"
	"gputrain/run/runfile"
	"gputrain/run/train"
	"gputrain/state"
)

// Weights are the parameters that a run begins with.
type Weights struct {
	Params []buffers.Host // nil: all are drawn from the seed
	Dir    string         // where they are from
	Drawn  []string       // those of them that model.from lacks
	Tokens Tokens         // how text becomes tokens for them
	LoRA   train.Adapters // those of a directory that are among them

	stored  *model.Stored // those of Dir; nil: a plan needs none
	files   []*hub.Bundle // of Dir, and of LoRA
	teacher *teacher      // nil: none
}

// Release closes the files that the parameters are read from; a second call does nothing.
func (w Weights) Release() {
	w.loaded()
	if w.teacher != nil {
		w.teacher.lists.Close()
	}
}

// loaded closes what nothing reads once parameters are on devices.
func (w Weights) loaded() {
	closeAll(w.files)
	if w.teacher != nil {
		_ = w.teacher.files.Close() // nothing was written
	}
}

// from is the model that the run begins with; nil: none.
func (w Weights) from() *hub.Bundle {
	if len(w.files) == 0 {
		return nil
	}
	return w.files[0]
}

// Definition is the model that a run file describes, with its parameters where it takes them from a directory: they are read when they are used, until
// Release. What there is to say of that directory is written to out.
func Definition(cfg *runfile.Config, out io.Writer) (model.Definition, Weights, error) {
	w, begin, err := look(cfg, out, from)
	if err != nil {
		return nil, Weights{}, err
	}
	def, err := plan.Network(cfg, w)
	if err != nil {
		begin.Release()
		return nil, Weights{}, &UsageError{err}
	}
	if err := begin.adapt(cfg, def); err != nil {
		begin.Release()
		return nil, Weights{}, err
	}
	return def, begin, nil
}

// opener opens model.from.
type opener func(*runfile.Config, io.Writer) (model.Definition, Weights, error)

// look finds what a run file names: a model, which open takes, adapters and a tokenizer.
func look(cfg *runfile.Config, out io.Writer, open opener) (w plan.World, begin Weights, err error) {
	if cfg.Model.From == "" {
		begin.Tokens, err = tokensOf(cfg, nil, out)
		w.Tokens = begin.Tokens.Tokens
		if err == nil {
			w.Labels, err = labelsOf(cfg, nil)
		}
		return w, begin, err
	}
	def, begin, err := open(cfg, out)
	if err != nil {
		return w, Weights{}, err
	}
	w.Model, w.Tokens = &plan.Model{Dir: begin.Dir, Definition: def, Lacks: begin.Drawn}, begin.Tokens.Tokens
	if w.Labels, err = labelsOf(cfg, def); err != nil {
		begin.Release()
		return w, Weights{}, err
	}
	if cfg.LoRA.From == "" {
		return w, begin, nil
	}
	if def, err = plan.Base(cfg, w); err == nil {
		def, err = begin.readAdapters(cfg, def, out)
	}
	if err != nil {
		begin.Release()
		return w, Weights{}, &UsageError{err}
	}
	w.Adapters = &plan.Adapters{Dir: begin.LoRA.From, Definition: def}
	return w, begin, nil
}

// labelsOf are the labels of the rows of a run file, where nothing else says which there are; else nil.
func labelsOf(cfg *runfile.Config, def model.Definition) (*plan.Labels, error) {
	if !plan.LooksForLabels(cfg, def) {
		return nil, nil
	}
	names, count, err := texts.LabelsOf(context.Background(), texts.Config{JSONL: cfg.Data.JSONL})
	if err != nil {
		return nil, &UsageError{err}
	}
	return &plan.Labels{Names: names, Count: count}, nil
}

// onPaper reads what the directory of model.from says of its model, and its tokenizer; weights need not be there.
func onPaper(cfg *runfile.Config, out io.Writer) (model.Definition, Weights, error) {
	return begin(cfg, out, false)
}

// from opens model.from, a whole model.
func from(cfg *runfile.Config, out io.Writer) (model.Definition, Weights, error) {
	return begin(cfg, out, true)
}

// begin opens model.from and its tokenizer, with weights or without.
func begin(cfg *runfile.Config, out io.Writer, weights bool) (def model.Definition, w Weights, err error) {
	b, err := Open(cfg.Model.From, out)
	if err != nil {
		return nil, w, err
	}
	w = Weights{Dir: b.Path("."), files: []*hub.Bundle{b}}
	defer func() {
		if err != nil {
			w.Release()
			w = Weights{}
		}
	}()
	if weights {
		switch base, err := b.Base(); {
		case err != nil:
			return nil, w, &ModelError{err}
		case base != nil:
			return nil, w, &UsageError{cfg.Wrong("model.from", fmt.Errorf("found adapters in %s, wanted a model: model.from=%s with lora.from=%s goes on with them",
				w.Dir, base.Path("."), cfg.Model.From))}
		}
	}
	if w.Tokens, err = tokensOf(cfg, b, out); err != nil {
		return nil, w, err
	}
	if !weights {
		if def, err = b.Definition(); err != nil {
			return nil, w, &ModelError{err}
		}
		return def, w, nil
	}
	def, w.stored, err = b.Partial(cfg.Model.AllowMissing)
	var pattern *hub.PatternError
	switch {
	case errors.As(err, &pattern):
		return nil, w, &UsageError{cfg.Wrong("model.allow_missing", err)}
	case err != nil:
		return nil, w, &ModelError{err}
	}
	w.Params, w.Drawn = w.stored.Params(cfg.Train.Seed)
	return def, w, nil
}

// planned is from for a run that is not to be trained: of that, config.json is enough.
func planned(cfg *runfile.Config, out io.Writer) (model.Definition, Weights, error) {
	def, w, err := from(cfg, out)
	if !errors.Is(err, fs.ErrNotExist) {
		return def, w, err
	}
	var failure error
	if def, failure = hub.ReadConfig(cfg.Model.From); failure != nil {
		return nil, w, err
	}
	fmt.Fprintf(out, "gputrain: %v; this is by its config.json alone\n", err)
	return def, Weights{Dir: cfg.Model.From, Params: model.Drawn(def, cfg.Train.Seed)}, nil
}

// State is what a run trains: its model, with the parameters that it begins with where it takes them from a directory, its optimizer,
// and the rows of a microbatch.
func State(cfg *runfile.Config, out io.Writer) (state.Config, Weights, error) {
	p, _, begin, err := described(cfg, nil, out, from)
	if err != nil {
		return state.Config{}, Weights{}, err
	}
	return p.State, begin, nil
}

// Earlier is the run in dir, which goes on, where that has checkpoints and a record; else nil. With reschedule it is to have another schedule.
func Earlier(dir string, reschedule bool) (*plan.Earlier, error) {
	steps, err := Checkpoints(dir).Steps()
	if err != nil || len(steps) == 0 {
		return nil, nil // training says what is wrong with them
	}
	was, err := OfRun(dir)
	if err != nil {
		return nil, &UsageError{err}
	}
	if was == nil {
		return nil, nil
	}
	return &plan.Earlier{Spec: was, Reschedule: reschedule}, nil
}

// Plan is the plan of a run that is not to be trained: model.from may have a config.json alone, which is told.
func Plan(cfg *runfile.Config, out io.Writer) (*plan.Plan, error) {
	p, _, begin, err := described(cfg, nil, out, planned)
	begin.Release()
	return p, err
}

// described is the plan of a run whose text is not read yet, what it is made of, and what the run begins with.
func described(cfg *runfile.Config, earlier *plan.Earlier, out io.Writer, open opener) (*plan.Plan, plan.World, Weights, error) {
	w, begin, err := look(cfg, out, open)
	if err != nil {
		return nil, w, Weights{}, err
	}
	w.Earlier = earlier
	p, err := begin.resolve(cfg, &w, out)
	if err != nil {
		begin.Release()
		return nil, w, Weights{}, &UsageError{err}
	}
	if err := begin.adapt(cfg, model.Student(p.State.Definition)); err != nil {
		begin.Release()
		return nil, w, Weights{}, err
	}
	if begin.teacher != nil {
		p.State.Consulted = begin.teacher.params
	}
	p.State.Consulted = append(p.State.Consulted, begin.reference(p.State)...)
	p.State.Companions = begin.Tokens.Companions
	if p.State.Scorers, err = scorersOf(p.Spec, p.State.Sequence); err != nil {
		begin.Release()
		return nil, w, Weights{}, &UsageError{err}
	}
	tell(out, p.Told)
	return p, w, begin, nil
}

// resolve opens the teacher, and makes the plan.
func (w *Weights) resolve(cfg *runfile.Config, world *plan.World, out io.Writer) (*plan.Plan, error) {
	if cfg.Distil.Teacher != "" {
		def, err := plan.Network(cfg, *world)
		if err != nil {
			return nil, err
		}
		if w.teacher, err = openTeacher(cfg, def.Vocab(), w.Tokens, out); err != nil {
			return nil, err
		}
		world.Teacher = &w.teacher.Teacher
	}
	return plan.Resolve(cfg, *world)
}

// tell tells of defaults that are made for other values.
func tell(out io.Writer, lines []string) {
	for _, line := range lines {
		fmt.Fprintf(out, "gputrain: %s\n", line)
	}
}
