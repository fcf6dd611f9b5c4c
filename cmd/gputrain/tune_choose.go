package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"gputrain/chat"
	"gputrain/data"
	"gputrain/data/texts"
	"gputrain/gguf/modeldir"
	"gputrain/gpu"
	"gputrain/internal/stranger"
	"gputrain/internal/terminal"
	"gputrain/model"
	"gputrain/pipeline"
	"gputrain/state"
	"gputrain/tokenizer"
	"gputrain/train"
	"gputrain/train/runfile"
	"gputrain/train/setup"
	"gputrain/train/tuning"
)

// choosing is what tune knows when it chooses.
type choosing struct {
	set         []string
	given       tuning.Given
	device      *gpu.Device
	planned     state.Config // what was last asked about
	memory      uint64       // that it takes
	definition  model.Definition
	description string // of the conversations
}

// choose chooses, says so, and makes the run file, which the run writes once it has its directory.
func (c *tuneCmd) choose(ctx context.Context, path, model string, rows []string) ([]byte, error) {
	h := &choosing{set: c.Set, given: tuning.Given{Model: model, Rows: rows}}
	text, begun, err := h.read(ctx)
	if err != nil {
		return nil, err
	}
	defer text.Close()
	facts, err := h.measure(text, begun)
	if err != nil {
		return nil, err
	}
	if err := h.open(ctx, c.Adapter, &facts); err != nil {
		return nil, err
	}
	defer h.device.Release()
	recipe, err := tuning.Choose(facts, func(r tuning.Recipe) (bool, error) { return h.fits(ctx, r) })
	if err != nil {
		return nil, err
	}
	cfg, err := h.config(&recipe)
	if err != nil {
		return nil, err
	}
	if recipe.Epochs > 0 {
		steps, err := data.Steps(text.Train, h.planned.Sequence, h.planned.Batch*h.planned.Microbatches, h.planned.Seed, cfg.Data.Epochs)
		if err != nil {
			return nil, usageError{err}
		}
		recipe.Last(steps)
	}
	if err := h.tell(ctx, os.Stdout, c.Model, recipe); err != nil {
		return nil, err
	}
	var file bytes.Buffer
	if err := recipe.Write(&file, h.given); err != nil {
		return nil, err
	}
	fmt.Printf("run file   %s\n\n", terminal.Text(path))
	return file.Bytes(), nil
}

// replaceable refuses to choose anew in the place of a file that this command has not written, and of a run that another process trains.
func (c *tuneCmd) replaceable(path string) error {
	text, err := stranger.Read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && !tuning.Wrote(text) {
		err = usageError{fmt.Errorf("tune: --fresh: %s: found a file of others, wanted one that tune has written: name another directory with --run-dir, or move the file", path)}
	}
	if err != nil {
		return err
	}
	return train.CheckFree(c.RunDir)
}

// byTune is the origin of a value until the run file is written; those of arguments are theirs.
const byTune runfile.Origin = "chosen by tune"

var arguments = map[string]runfile.Origin{"model.from": "MODEL", "data.jsonl": "DATA"}

// config is the run file of a recipe, nil for none yet, with what the user sets over it.
func (h *choosing) config(r *tuning.Recipe) (*runfile.Config, error) {
	var text bytes.Buffer
	var err error
	if r != nil {
		err = r.Write(&text, h.given)
	} else {
		err = h.given.Write(&text)
	}
	if err != nil {
		return nil, err
	}
	cfg := runfile.New()
	err = cfg.Parse(tuneFile, text.Bytes())
	cfg.Renamed(tuneFile, func(key string) runfile.Origin { return cmp.Or(arguments[key], byTune) })
	if err == nil {
		err = cfg.Environment(os.Environ())
	}
	for _, s := range h.set {
		if err == nil {
			err = cfg.Set(s)
		}
	}
	for key, argument := range arguments {
		if from := cfg.Origin(key); err == nil && from != argument {
			err = fmt.Errorf("tune: %s (%s): found another than the argument %s, wanted that alone", key, from, argument)
		}
	}
	switch from := cfg.Origin("lora.rank"); {
	case r != nil || err != nil || cfg.LoRA.On():
	case from != "default":
		err = fmt.Errorf("tune: lora.rank (%s): found 0, wanted 1 or more: gputrain train --set model.from=%s trains without adapters",
			from, shellWord(h.given.Model))
	default: // the other keys of adapters go with it
		err = cfg.Lay("lora.rank", "1", byTune)
	}
	if err == nil {
		err = cfg.Validate()
	}
	if err != nil {
		return nil, usageError{err}
	}
	return cfg, nil
}

// read reads the model's description and the conversations, as the run file that it gives says.
func (h *choosing) read(ctx context.Context) (*texts.Corpus, *runfile.Config, error) {
	if err := h.whole(); err != nil {
		return nil, nil, err
	}
	cfg, err := h.config(nil)
	if err != nil {
		return nil, nil, err
	}
	text, err := h.text(ctx, cfg, told)
	if errors.Is(err, chat.ErrRewritten) && cfg.Origin("data.learn_last") == "default" {
		h.given.LastOnly = true
		say("gputrain: tune: %v\ngputrain: tune: so of each conversation the last answer learns alone (data.learn_last)\n", err)
		if cfg, err = h.config(nil); err == nil {
			text, err = h.text(ctx, cfg, told)
		}
	}
	if err != nil {
		return nil, nil, err
	}
	if all, ok := text.Train.(*texts.Documents); ok && cfg.Origin("data.validation") != "default" && cfg.Data.Validation == 0 {
		h.given.Validation, err = tuning.Share(all.Count())
		text.Close()
		if err != nil {
			return nil, nil, usageError{err}
		}
		if cfg, err = h.config(nil); err == nil {
			text, err = h.text(ctx, cfg, io.Discard)
		}
	}
	return text, cfg, err
}

// measure tells what there is to learn, and by which model.
func (h *choosing) measure(text *texts.Corpus, cfg *runfile.Config) (f tuning.Facts, err error) {
	documents, ok := text.Train.(*texts.Documents)
	if !ok {
		return f, usageError{fmt.Errorf("tune: data: found no rows, wanted files of conversations")}
	}
	if f.Lengths, err = documents.Lengths(); err != nil {
		return f, err
	}
	if held, ok := text.Validation.(*texts.Documents); ok {
		f.Held = held.Count()
		shown, err := held.Show(f.Held, h.definition.Context())
		if err != nil {
			return f, err
		}
		for _, s := range shown {
			f.Answer = max(f.Answer, longestRun(s.Learned))
		}
	}
	f.Wanted = wanted(cfg)
	if f.Model, err = h.facts(); err != nil {
		return f, err
	}
	if h.description = describe(text.Tallies); h.given.LastOnly {
		h.description += ": the last answers"
	}
	return f, nil
}

// whole refuses what is not a whole model, as adapters and runs, with what makes one of it.
func (h *choosing) whole() error {
	from := h.given.Model
	dir, release, err := setup.HoldModel(from, told)
	if err != nil {
		return err
	}
	defer release()
	switch {
	case has(dir, model.AdapterConfigFile):
		base, err := model.AdapterBase(dir, "")
		if err != nil {
			base = "BASE"
		}
		return usageError{fmt.Errorf("tune: %s: found adapters, wanted a whole model: gputrain tune %s DATA --set lora.from=%s goes on with them, "+
			"and gputrain merge %s --to DIR writes the model that they make",
			from, shellWord(base), shellWord(from), shellWord(from))}
	case dir != from:
		return usageError{fmt.Errorf("tune: %s: found a run, wanted a model: gputrain export %s --to DIR writes what it has trained",
			from, shellWord(from))}
	}
	return nil
}

// text opens the conversations, of a model that has a tokenizer.
func (h *choosing) text(ctx context.Context, cfg *runfile.Config, out io.Writer) (*texts.Corpus, error) {
	def, err := model.ReadConfig(h.given.Model)
	if err != nil {
		return nil, &setup.ModelError{Err: err}
	}
	h.definition = def
	if cfg.Data.Tokenizer == "" && !tokenizer.Has(h.given.Model) {
		return nil, usageError{fmt.Errorf("tune: %s: found no tokenizer, wanted tokenizer.json or tokenizer.model: copy it from where the model is from, "+
			"or name one with --set data.tokenizer=DIR", h.given.Model)}
	}
	text, _, _, err := setup.Text(ctx, cfg, out)
	return text, err
}

// longestRun is the longest stretch of what is learned.
func longestRun(learned []bool) (most int) {
	n := 0
	for _, l := range learned {
		if n++; !l {
			n = 0
		}
		most = max(most, n)
	}
	return most
}

// describe says what the conversations are, in a line.
func describe(tallies []texts.Tally) string {
	var parts []string
	for _, t := range tallies {
		text := fmt.Sprintf("%d documents (%s), longest %d tokens, %.0f %% of the tokens learned", t.Documents, strings.Join(t.Forms, ", "), t.Longest, 100*float64(t.Learned)/float64(max(t.Tokens, 1)))
		if t.Unlearned > 0 {
			text += fmt.Sprintf(", %d left out", t.Unlearned)
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "; ")
}

// wanted are the choices that the user has made.
func wanted(cfg *runfile.Config) (w tuning.Wanted) {
	given := func(key string) bool {
		from := cfg.Origin(key)
		return !from.IsDefault() && from != byTune
	}
	for key, lay := range map[string]func(){
		"lora.rank":               func() { w.Rank = cfg.LoRA.Rank },
		"lora.target":             func() { w.Target = cfg.LoRA.Target },
		"lora.from":               func() { w.From = cfg.LoRA.From },
		"model.base":              func() { w.Base = cfg.Model.Base },
		"model.context":           func() { w.Context = cfg.Model.Context },
		"train.batch":             func() { w.Batch = cfg.Train.Batch },
		"train.accumulate":        func() { w.Accumulate = cfg.Train.Accumulate },
		"train.recompute":         func() { w.Recompute = cfg.Train.Recompute },
		"data.epochs":             func() { w.Epochs = cfg.Data.Epochs },
		"train.steps":             func() { w.Steps = cfg.Train.Steps },
		"optimizer.name":          func() { w.Optimizer = cfg.Optimizer.Name },
		"optimizer.learning_rate": func() { w.Rate = cfg.Optimizer.LearningRate },
	} {
		if given(key) {
			lay()
		}
	}
	return w
}

// facts are the model's sizes.
func (h *choosing) facts() (tuning.Model, error) {
	def := h.definition
	m := tuning.Model{Parameters: model.Parameters(def), Context: def.Context(), Stored: "f32"}
	for _, p := range def.Params() {
		if len(p.Shape) != 2 {
			continue
		}
		a, b := p.Shape[0], p.Shape[1]
		if a == def.Vocab() {
			m.Width = b
			continue
		}
		if side := min(a, b); m.Side == 0 || side < m.Side {
			m.Side = side
		}
	}
	var stored struct {
		Old string `json:"torch_dtype"`
		New string `json:"dtype"`
	}
	if err := modeldir.ReadJSON(filepath.Join(h.given.Model, "config.json"), &stored); err != nil {
		return m, &setup.ModelError{Err: err}
	}
	for _, name := range []string{stored.Old, stored.New} {
		if short, ok := map[string]string{"bfloat16": "bf16", "float16": "f16"}[name]; ok {
			m.Stored = short
		}
	}
	return m, nil
}

// open opens the adapter, and says what it can give.
func (h *choosing) open(ctx context.Context, sel string, f *tuning.Facts) error {
	cfg, err := h.config(nil)
	if err != nil {
		return err
	}
	adapters, err := setup.Adapters(cfg, sel)
	if err != nil {
		return err
	}
	options, err := setup.DeviceOptions(cfg, adapters...)
	if err != nil {
		return err
	}
	if h.device, err = gpu.Open(ctx, adapters[0], options); err != nil {
		return err
	}
	f.Machine.Memory, _, _ = h.device.Available()
	f.Machine.Software = h.device.Adapter().Class() != gpu.Hardware
	for _, base := range []string{"f32", "bf16", "nf4"} {
		if cfg.Set("model.base="+base) == nil && cfg.Validate() == nil {
			f.Machine.Bases = append(f.Machine.Bases, base)
		}
	}
	return nil
}

// fits tells whether the plan of a recipe fits the adapter.
func (h *choosing) fits(ctx context.Context, r tuning.Recipe) (bool, error) {
	cfg, err := h.config(&r)
	if err != nil {
		return false, err
	}
	if cfg.Pipeline.Stages > 1 {
		return false, usageError{errors.New("tune: pipeline.stages: found more than 1, wanted 1: gputrain train takes a run file with stages")}
	}
	c, begin, err := setup.State(cfg, io.Discard)
	if err != nil {
		return false, err
	}
	begin.Release()
	c = c.WithDefaults()
	c.Sampling = cfg.Train.Sample.Tokens > 0
	if cfg.Data.Validation > 0 {
		c.Evaluation = train.EvaluationRows(ctx, c, cfg.Train.EvalTokens)
	}
	dry, err := state.Dry(ctx, c, h.device.AsDry())
	if err != nil {
		return false, err
	}
	defer dry.Release()
	h.planned, h.memory = c, 0
	for _, m := range dry.Memory() {
		h.memory += m.Total()
	}
	return state.FitsMemory([]*gpu.Device{h.device}, dry.Memory(), 0), nil
}

// tell says what was chosen, and how long it takes.
func (h *choosing) tell(ctx context.Context, out io.Writer, name string, r tuning.Recipe) error {
	peak, err := pipeline.Peak(ctx, []*gpu.Device{h.device})
	if err != nil {
		return err
	}
	takes, err := train.Expected(h.planned, r.Steps, h.device.Adapter(), peak)
	if err != nil {
		return err
	}
	of := "unknown"
	if bytes, _, known := h.device.Available(); known {
		of = gpu.SizeText(bytes)
	}
	lines := []string{
		fmt.Sprintf("model      %s: %s, %d parameters, stored as %s", name, h.definition.Kind(), model.Parameters(h.definition), r.Stored()),
		"data       " + h.description,
		fmt.Sprintf("adapter    %s", h.device.Adapter()),
	}
	for _, c := range r.Choices() {
		lines = append(lines, c.Text)
	}
	lines = append(lines, fmt.Sprintf("takes      %s of %s memory, and about %s at half of its peak; measured before the first step", gpu.SizeText(h.memory), of, takes))
	for _, line := range lines {
		text := []rune(terminal.Text(line))
		if len(text) > widest {
			text = append(text[:widest-1], '…')
		}
		if _, err := fmt.Fprintln(out, string(text)); err != nil {
			return err
		}
	}
	return nil
}

// widest is how many characters a line of choices has at most.
const widest = 120
