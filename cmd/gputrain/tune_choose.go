package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"gputrain/chat"
	"gputrain/data"
	"gputrain/data/texts"
	"gputrain/gguf/modeldir"
	"gputrain/gpu"
	"gputrain/internal/stranger"
	"gputrain/internal/system"
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
	card        string // that is not here, to choose for
	given       tuning.Given
	device      *gpu.Device
	planned     state.Config // what was last asked about
	memory      uint64       // that it takes of the device
	host        uint64       // that it takes of the machine beside, where the device is a processor
	submits     []gpu.Planned
	begun       time.Time
	takes       string // how long, as far as is known
	definition  model.Definition
	description string // of the conversations
}

// choose chooses, says so, and writes the run file; for a card that is not here it only says so.
func (c *tuneCmd) choose(ctx context.Context, path, model string, rows []string) error {
	h := &choosing{set: c.Set, card: c.Memory, begun: time.Now(), given: tuning.Given{Model: model, Rows: rows}}
	recipe, cfg, err := h.chosen(ctx, c.Adapter)
	if err != nil {
		return err
	}
	defer h.device.Release()
	choices := recipe.Choices(cfg)
	if err := h.tell(os.Stdout, c.Model, recipe, choices); err != nil || c.Memory != "" {
		return err
	}
	var file bytes.Buffer
	if err := tuning.Write(&file, choices); err != nil {
		return err
	}
	fmt.Printf("run file   %s\n\n", terminal.Text(path))
	if err := system.MkdirAll(c.RunDir); err != nil {
		return err
	}
	return train.ReplaceFile(path, file.Bytes())
}

// chosen is the recipe, and the run file in force with it. The device is open then, if there is no error.
func (h *choosing) chosen(ctx context.Context, sel string) (r tuning.Recipe, cfg *runfile.Config, err error) {
	text, begun, err := h.read(ctx)
	if err != nil {
		return r, nil, err
	}
	defer text.Close()
	facts, err := h.measure(text, begun)
	if err != nil {
		return r, nil, err
	}
	if err := h.open(ctx, sel, &facts); err != nil {
		return r, nil, err
	}
	defer func() {
		if err != nil {
			h.device.Release()
		}
	}()
	if r, err = tuning.Choose(facts, func(r tuning.Recipe) (bool, error) { return h.fits(ctx, r) }); err != nil {
		return r, nil, err
	}
	if cfg, err = h.config(&r); err != nil {
		return r, nil, err
	}
	steps := cfg.Train.Steps
	if cfg.Data.Epochs > 0 {
		if steps, err = data.Steps(text.Train, h.planned.Sequence, h.planned.Batch*h.planned.Microbatches, h.planned.Seed, cfg.Data.Epochs); err != nil {
			return r, nil, usageError{err}
		}
		r.Last(steps)
		if cfg, err = h.config(&r); err != nil {
			return r, nil, err
		}
	}
	h.takes, err = h.expected(ctx, cfg, text, steps)
	return r, cfg, err
}

// expected is about how long a run of so many steps takes.
func (h *choosing) expected(ctx context.Context, cfg *runfile.Config, text *texts.Corpus, steps int64) (string, error) {
	peak, err := h.peak(ctx)
	if err != nil {
		return "", err
	}
	run := train.Config{Options: cfg.Train.Loop, State: h.planned, Validation: text.Validation}
	if run.Steps = steps; run.Validation != nil && run.Sample.Tokens > 0 {
		run.Answers = asked
	}
	return train.Expected(run, time.Since(h.begun), h.device.Adapter(), peak, h.submits)
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

// config is the run file of a recipe, nil for none yet, with what the user sets over it.
func (h *choosing) config(r *tuning.Recipe) (*runfile.Config, error) {
	cfg, err := tuning.Config(h.given, r, os.Environ(), h.set)
	if err == nil {
		err = h.own(cfg)
	}
	if err != nil {
		return nil, usageError{err}
	}
	return cfg, nil
}

// own refuses what tune does not leave to --set.
func (h *choosing) own(cfg *runfile.Config) error {
	switch {
	case cfg.Model.From != h.given.Model:
		return fmt.Errorf("tune: model.from (%s): found %s, wanted nothing: the model is the first argument", cfg.Origin("model.from"), cfg.Model.From)
	case !slices.Equal(cfg.Data.JSONL, h.given.Rows):
		return fmt.Errorf("tune: data.jsonl (%s): found %s, wanted nothing: files of conversations are arguments", cfg.Origin("data.jsonl"), strings.Join(cfg.Data.JSONL, ", "))
	case cfg.Preference.On():
		return fmt.Errorf("tune: preference.loss (%s): found %s, wanted nothing: %s", cfg.Origin("preference.loss"), cfg.Preference.Loss, preferring(h.given.Model, h.given.Rows))
	case !cfg.LoRA.On():
		return fmt.Errorf("tune: lora.rank (%s): found 0, wanted 1 or more: gputrain train --set model.from=%s trains all of a model", cfg.Origin("lora.rank"), shellWord(h.given.Model))
	case cfg.Pipeline.Stages > 1:
		return errors.New("tune: pipeline.stages: found more than 1, wanted 1: gputrain train takes a run file with stages")
	}
	return nil
}

// preferring says how a model learns from pairs.
func preferring(model string, rows []string) string {
	words := make([]string, len(rows))
	for i, file := range rows {
		words[i] = strconv.Quote(file)
	}
	return fmt.Sprintf("docs/preferences.md says how pairs are learned: gputrain train --set model.from=%s --set %s --set preference.loss=sigmoid --set lora.rank=16 --set lora.target=all-linear",
		shellWord(model), shellWord("data.jsonl=["+strings.Join(words, ", ")+"]"))
}

// read reads the model's description and the conversations, as the run file that it gives says.
func (h *choosing) read(ctx context.Context) (*texts.Corpus, *runfile.Config, error) {
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
	f.Wanted = tuning.WantedOf(cfg)
	if f.Model, err = h.facts(); err != nil {
		return f, err
	}
	if h.description = describe(text.Tallies); cfg.Data.LearnLast {
		h.description += ": the last answers"
	}
	return f, nil
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
	if h.card != "" {
		devices, err := devicesOn(cfg, h.card)
		if err != nil {
			return err
		}
		h.device = devices[0]
	} else if h.device, err = opened(ctx, cfg, sel); err != nil {
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

// opened is the adapter of a run file.
func opened(ctx context.Context, cfg *runfile.Config, sel string) (*gpu.Device, error) {
	adapters, err := setup.Adapters(cfg, sel)
	if err != nil {
		return nil, err
	}
	options, err := setup.DeviceOptions(cfg, adapters...)
	if err != nil {
		return nil, err
	}
	return gpu.Open(ctx, adapters[0], options)
}

// fits tells whether the plan of a recipe fits the adapter.
func (h *choosing) fits(ctx context.Context, r tuning.Recipe) (bool, error) {
	cfg, err := h.config(&r)
	if err != nil {
		return false, err
	}
	if h.card == "" { // which trains, so the weights are there
		_, begin, err := setup.State(cfg, io.Discard)
		if err != nil {
			return false, err
		}
		begin.Release()
	}
	c, err := plannedState(ctx, cfg, io.Discard)
	if err != nil {
		return false, err
	}
	dry, err := state.Dry(ctx, c, h.device.AsDry())
	if err != nil {
		return false, err
	}
	defer dry.Release()
	devices, memory := []*gpu.Device{h.device}, dry.Memory()
	h.planned, h.memory, h.host, h.submits = c, memory[0].Total(), 0, dry.Submits()[0]
	if h.device.Adapter().Class() != gpu.Hardware {
		copied, err := dry.CopyBytes()
		if err != nil {
			return false, err
		}
		host := state.PlanHost(devices, memory, copied)
		if h.host = host.Program + host.Staging; host.Copies(cfg.Train.SaveAsync) {
			h.host += host.Copy
		}
	}
	return state.FitsMemory(devices, memory), nil
}

// tell says what was chosen, and how long it takes.
func (h *choosing) tell(out io.Writer, name string, r tuning.Recipe, choices []tuning.Choice) error {
	of := "unknown"
	if bytes, _, known := h.device.Available(); known {
		of = gpu.SizeText(bytes)
	}
	lines := []string{
		fmt.Sprintf("model      %s: %s, %d parameters, stored as %s", name, h.definition.Kind(), model.Parameters(h.definition), r.Stored()),
		"data       " + h.description,
		fmt.Sprintf("adapter    %s", h.device.Adapter()),
	}
	for _, c := range choices {
		if c.Text != "" {
			lines = append(lines, c.Text)
		}
	}
	takes := fmt.Sprintf("takes      %s of %s memory", gpu.SizeText(h.memory+h.host), of)
	if h.host > 0 {
		takes += fmt.Sprintf(": buffers %s, program and checkpoints %s", gpu.SizeText(h.memory), gpu.SizeText(h.host))
	}
	lines = append(lines, takes, fmt.Sprintf("time       at least %s at half of the adapter's peak; what its driver has yet to compile is not in it", h.takes))
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

// peak is how many operations a second the adapter makes at best: by its published figure, or typical of its kind, where it is not here.
func (h *choosing) peak(ctx context.Context) (float64, error) {
	if h.card == "" {
		return pipeline.Peak(ctx, []*gpu.Device{h.device})
	}
	if c, ok := namedCard(h.card); ok && c.FLOPS > 0 {
		return c.FLOPS, nil
	}
	return gpu.Typical(h.device.Adapter()).FLOPS, nil
}

// widest is how many characters a line of choices has at most.
const widest = 120
