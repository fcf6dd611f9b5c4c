package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"gputrain/cmd/gputrain/tuning"
	"gputrain/hub"
	"gputrain/internal/stranger"
	"gputrain/internal/terminal"
	"gputrain/run/data/texts"
	"gputrain/run/reward"
	"gputrain/run/rollout"
	"gputrain/run/runfile"
	"gputrain/run/setup"
	"gputrain/run/train"
	"gputrain/state/checkpoint"
)

// tuneFile is the run file that tune writes into the run directory.
const tuneFile = tuning.File

type tuneCmd struct {
	Model    string   `arg:"" help:"Model directory in the Hugging Face layout, or GGUF file, with its tokenizer and chat template. With --from it is left out."`
	Data     []string `arg:"" optional:"" help:"Files of rows: a JSON object a line, an array of objects (both also .gz), or Parquet; or the directory of a data set of Hugging Face's hub." placeholder:"DATA"`
	Held     []string `help:"File of rows that are held out, to evaluate by, in the place of a share of DATA; may be given several times." placeholder:"FILE" sep:"none"`
	From     string   `help:"Go on from the adapters of a run, by its best checkpoint, or of a directory, with new data: tune --from RUN DATA." type:"path" placeholder:"RUN"`
	Method   string   `help:"sft, dpo, kto, grpo, reward, classes or embed; by default the one that the rows tell." placeholder:"METHOD"`
	Reward   []string `help:"What is good of completions that the model draws (grpo), such as number:answer, equal:answer or length; several are added up." placeholder:"KIND[:VALUE]" sep:"none"`
	Set      []string `help:"Override one value of the run file, such as --set lora.rank=4." placeholder:"KEY=VALUE" sep:"none"`
	Ask      []string `help:"A question for the model before, at evaluations and after; several are put side by side. Without it, two of what is held out are put before and after." placeholder:"QUESTION" sep:"none"`
	System   string   `help:"With --ask: message of the system that precedes each question." placeholder:"TEXT"`
	RunDir   string   `help:"Run directory; by default one below runs/, named for the model, the first file and the changes of --set, so that the same command resumes its run." type:"path" placeholder:"DIR"`
	Adapter  string   `help:"Index, part of a name, or backend:part." placeholder:"SEL" xor:"adapter"`
	Memory   string   `help:"Say what would be chosen for a card that is not here, of so much memory or by its name, and train nothing." placeholder:"24GiB|CARD" xor:"adapter"`
	DryRun   bool     `help:"Say what would be chosen, what it takes and how long, and train nothing."`
	Progress string   `help:"auto, bar, plain, json or none." default:"auto" enum:"auto,bar,plain,json,none"`
	Fresh    bool     `help:"Choose anew, and start over: remove an earlier run's files from the run directory."`

	AllowCommand bool `help:"Start the commands of rewards also where a file names them: they run with your rights."`

	serveFlags

	rewards []reward.Spec
	sets    []string // what is said of the data sets that DATA names
	holds   bool     // --held is given
	begin   string   // with --from: where the adapters are
	method  string   // by which they were tuned; "": nobody knows
}

// trains tells whether the command does, and not only says what it would choose.
func (c *tuneCmd) trains() bool { return c.Memory == "" && !c.DryRun }

// Help says what the command does.
func (*tuneCmd) Help() string {
	return "Chooses the method, adapters (LoRA), the storage of the base, window, batch, rate and steps from the model, the rows and the memory, says why, writes " +
		"them as " + tuneFile + " into the run directory, and trains. The same command resumes with these choices."
}

func (c *tuneCmd) Run(ctx context.Context) error {
	if c.Serve != "" && !c.trains() {
		return usageError{fmt.Errorf("tune: --serve %s: found --dry-run or --memory, too, wanted a run to show", c.Serve)}
	}
	t := &trainCmd{Adapter: c.Adapter, Progress: c.Progress, Fresh: c.Fresh, AllowCommand: c.AllowCommand, serveFlags: c.serveFlags}
	return t.stoppable(ctx, func(ctx context.Context, begin time.Time) error { return train.Stopping(ctx, c.tune(ctx, begin, t)) })
}

// tune chooses, or reads what was chosen before, and trains by that.
func (c *tuneCmd) tune(ctx context.Context, begin time.Time, t *trainCmd) error {
	if err := c.arguments(); err != nil {
		return usageError{err}
	}
	model, rows, err := c.places()
	if err != nil {
		return err
	}
	c.rewards = nil
	for _, text := range c.Reward {
		spec, err := tuning.Reward(text)
		if err != nil {
			return usageError{fmt.Errorf("tune: --reward: %w", err)}
		}
		c.rewards = append(c.rewards, spec)
	}
	if c.RunDir == "" {
		if c.RunDir, err = c.runDir(model); err != nil {
			return err
		}
	}
	if err := c.asks(); err != nil {
		return err
	}
	path := filepath.Join(c.RunDir, tuneFile)
	if info, err := os.Stat(c.RunDir); err == nil && !info.IsDir() && c.trains() {
		return usageError{fmt.Errorf("tune: --run-dir: %s: found %s, wanted a directory, or a new name for one", c.RunDir, stranger.Kind(info))}
	}
	if !c.trains() {
		_, err := c.choose(ctx, path, model, rows)
		return err
	}
	switch _, err := os.Stat(path); {
	case err == nil && !c.Fresh:
		if err := c.recorded(path, model, rows); err != nil {
			return err
		}
		t.Files = []string{path}
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	default:
		if err := c.replaceable(path); err != nil {
			return err
		}
		text, err := c.choose(ctx, path, model, rows)
		if err != nil {
			return err
		}
		t.chosen = &train.File{Name: tuneFile, Text: text, Ours: tuning.Wrote}
	}
	t.Set, t.RunDir = c.Set, c.RunDir
	a := &asker{out: os.Stdout}
	t.again = c.again
	chosen := train.Span{Name: "choose", Spent: time.Since(begin)}
	t.extend = func(run *train.Config) error {
		run.Before = append([]train.Span{chosen}, run.Before...)
		return a.ask(run)
	}
	if err := t.train(ctx, begin); err != nil {
		return notRescheduled(err)
	}
	if a.drawn.over(); a.best {
		if err := c.askBest(ctx, a, model, t.result); err != nil && ctx.Err() == nil { // the run is done
			return err
		}
	}
	return c.farewell(os.Stdout, path, t.result)
}

// asks makes keys of the questions, which the run directory is not named for.
func (c *tuneCmd) asks() error {
	if len(c.Ask) == 0 {
		if c.System != "" {
			return usageError{fmt.Errorf("tune: --system: found %q and no question, wanted --ask with it", c.System)}
		}
		return nil
	}
	for _, q := range append(slices.Clone(c.Ask), c.System) {
		if !utf8.ValidString(q) || strings.TrimSpace(q) == "" && q != c.System {
			return usageError{fmt.Errorf("tune: --ask: found %q, wanted a text", q)}
		}
	}
	list, err := json.Marshal(c.Ask)
	if err == nil {
		c.Set = append(slices.Clone(c.Set), "train.ask="+string(list))
	}
	if c.System != "" && err == nil {
		list, err = json.Marshal(c.System)
		c.Set = append(c.Set, "train.ask_system="+string(list))
	}
	return err
}

// notRescheduled is what a run says to a command without --reschedule.
func notRescheduled(err error) error {
	var changed *train.ChangedError
	if errors.As(err, &changed) {
		changed.Schedule = false
	}
	return err
}

// places are the model and the files of rows, from wherever the command is given again.
func (c *tuneCmd) places() (model string, rows []string, err error) {
	if model, err = filepath.Abs(c.Model); err != nil {
		return "", nil, err
	}
	c.holds, c.sets = len(c.Held) > 0, nil
	for _, file := range c.Data {
		switch ext := strings.ToLower(filepath.Ext(strings.TrimSuffix(file, ".gz"))); ext {
		case ".txt", ".md":
			return "", nil, usageError{fmt.Errorf("tune: %s: found text, wanted rows (.jsonl, .json, .parquet); "+
				"gputrain train --set model.from=%s --set data.text=%s --set lora.rank=16 trains adapters on text", file, c.Model, file)}
		}
		abs, err := filepath.Abs(file)
		if err != nil {
			return "", nil, err
		}
		if info, err := os.Stat(abs); err != nil || !info.IsDir() {
			if how := hub.DownloadData(file); errors.Is(err, fs.ErrNotExist) && filepath.Ext(file) == "" && how != "" {
				return "", nil, usageError{fmt.Errorf("tune: DATA: %w%s", err, how)}
			}
			rows = append(rows, abs)
		} else if rows, err = c.dataSet(abs, rows); err != nil {
			return "", nil, usageError{fmt.Errorf("tune: %w", err)}
		}
	}
	for i := range c.Held {
		if c.Held[i], err = filepath.Abs(c.Held[i]); err != nil {
			return "", nil, err
		}
	}
	return model, rows, nil
}

// dataSet adds the files of a data set to those of rows, and to those that are held out, unless the command names some.
func (c *tuneCmd) dataSet(dir string, rows []string) ([]string, error) {
	for _, other := range []string{"config.json", runfile.RecordFile} {
		if hub.Has(dir, other) {
			return nil, fmt.Errorf("%s: found %s, as models and runs have, wanted the directory of a data set, or files of rows", dir, other)
		}
	}
	set, err := texts.FindDataSet(dir)
	if err != nil {
		return nil, err
	}
	said := fmt.Sprintf("%d files of %s to train on", len(set.Train), filepath.Base(dir))
	switch {
	case len(set.Held) > 0 && !c.holds:
		c.Held = append(c.Held, set.Held...)
		said += fmt.Sprintf(", its split %s held out (%d files)", set.Split, len(set.Held))
	case len(set.Held) > 0:
		set.Unread = append(set.Unread, set.Split)
	}
	if len(set.Unread) > 0 {
		said += "; not read: " + strings.Join(set.Unread, ", ")
	}
	c.sets = append(c.sets, said)
	return append(rows, set.Train...), nil
}

// runDir is the directory of the run below runs/: named for the model and the first file.
func (c *tuneCmd) runDir(model string) (string, error) {
	cfg, err := tuning.Set(tuning.Given{Rewards: c.rewards}, os.Environ(), c.Set)
	if err != nil {
		return "", usageError{err}
	}
	file := filepath.Base(c.Data[0])
	name, _, _ := strings.Cut(file, ".")
	if c.Method != "" {
		name += "-" + c.Method
	}
	of := strings.TrimSuffix(filepath.Base(model), ggufSuffix)
	if c.From != "" {
		of = filepath.Base(c.From)
	}
	return runDirOf([]string{of + "-" + name + ".yaml"}, cfg), nil
}

// recorded holds the command to the model and the files that the run was begun with.
func (c *tuneCmd) recorded(path, model string, rows []string) error {
	cfg := runfile.New()
	if err := cfg.Record(path); err != nil {
		return usageError{err}
	}
	switch found := cfg.Model.From; {
	case found == model:
	case gone(found) && !gone(model): // it has moved: the run compares its parameters
		c.Set = append(slices.Clone(c.Set), "model.from="+model)
	default:
		return usageError{fmt.Errorf("tune: run directory %q: found a run of the model %s, wanted %s: name another directory with --run-dir",
			c.RunDir, found, model)}
	}
	if found := cfg.Data.Held; !slices.Equal(found, c.Held) {
		said := func(files []string) string { return cmp.Or(strings.Join(files, ", "), "a share of the rows") }
		return usageError{fmt.Errorf("tune: run directory %q: found a run that holds out %s, wanted %s: name another directory with --run-dir",
			c.RunDir, said(found), said(c.Held))}
	}
	if found := cfg.Data.JSONL; !slices.Equal(found, rows) {
		return usageError{fmt.Errorf("tune: run directory %q: found a run on %s, wanted %s: name another directory with --run-dir; "+
			"to go on with these from what the run has learned: %s", c.RunDir, strings.Join(found, ", "), strings.Join(rows, ", "), c.again(nextDir(c.RunDir)))}
	}
	if err := c.wentOn(cfg); err != nil {
		return usageError{err}
	}
	if found := tuning.MethodOf(cfg.Objective().Row().Form).Name; c.Method != "" && c.Method != found {
		return usageError{fmt.Errorf("tune: run directory %q: found a run of --method %s, wanted %s: name another directory with --run-dir", c.RunDir, found, c.Method)}
	}
	if len(c.rewards) > 0 {
		c.Set = append(slices.Clone(c.Set), tuning.RewardsSet(c.rewards, cfg.Rollout.Tokens))
	}
	say("gputrain: tune: as chosen before: %s\n", path)
	return nil
}

// best is the checkpoint whose evaluation had the lowest loss, or where none of that step was saved the newest.
func (c *tuneCmd) best(r train.Result) string {
	best := filepath.Join(c.RunDir, "checkpoints", checkpoint.DirName(r.BestStep))
	if gone(best) {
		return r.Checkpoint
	}
	return best
}

// askBest puts the questions to the best checkpoint, which is not the last.
func (c *tuneCmd) askBest(ctx context.Context, a *asker, base string, r train.Result) error {
	p, err := train.NewProgress(c.Progress, os.Stderr, 10*time.Second)
	if err != nil {
		return err
	}
	defer p.Close()
	p.Busy("open the best checkpoint", 0, 0)
	f := modelFlags{baseFlag: baseFlag{Base: base}, Model: c.best(r)}
	if c.Adapter != "" {
		f.Adapter = []string{c.Adapter}
	}
	m, release, err := f.open(ctx)
	if err != nil {
		return err
	}
	defer release()
	return a.put(ctx, after, m, p)
}

// farewell says what may be done with the result.
func (c *tuneCmd) farewell(out io.Writer, path string, r train.Result) error {
	cfg := runfile.New()
	if err := cfg.Record(path); err != nil {
		return err
	}
	method := tuning.MethodOf(cfg.Objective().Row().Form)
	at, note, step := c.RunDir, "", r.Step
	if r.BestStep > 0 && r.BestStep != r.Step {
		note = fmt.Sprintf("step %d had the lowest loss on what is held out, %.3f", r.BestStep, r.BestLoss)
		if method.Draws {
			note = fmt.Sprintf("step %d had the highest reward on what is held out, %.3f", r.BestStep, 0-r.BestLoss)
		}
		if best := c.best(r); best != r.Checkpoint {
			at, step = best, r.BestStep
		} else {
			note += ", and no checkpoint of it was saved: train.save_every"
		}
		note = " (" + note + ")"
	}
	name := filepath.Base(c.RunDir)
	if strings.HasPrefix(name, "-") { // which would be a flag
		name = "./" + name
	}
	name = shellWord(name)
	ask := "gputrain chat " + shellWord(at)
	if method.Head {
		ask = fmt.Sprintf("gputrain score %s FILE", shellWord(at))
		note += accuracy(c.RunDir, step)
	}
	_, err := fmt.Fprintf(out, "\nthe adapters are in %s%s\n  %s\n  gputrain merge %s --to %s-merged\n  gputrain export %s --to %s-adapters\n",
		terminal.Text(at), note, ask, shellWord(at), name, shellWord(at), name)
	return err
}

// accuracy says how many held-out rows a step was right about.
func accuracy(dir string, step int64) string {
	_, evals, err := train.ReadMetrics(dir)
	if err != nil {
		return ""
	}
	for _, e := range slices.Backward(evals) {
		if share, there := e.Figures["accuracy"]; there && e.Step == step {
			return fmt.Sprintf(", right about %.1f %% of what is held out", 100*float64(share))
		}
	}
	return ""
}

// shellWord is a path as a shell takes it, and a terminal may have it: what is not seen is written as bash reads it in $”.
func shellWord(path string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-+,:@%=", r)
	}
	if path != "" && !strings.ContainsFunc(path, func(r rune) bool { return !plain(r) }) {
		return path
	}
	if terminal.Visible(path) != path || strings.ContainsAny(path, "\n\t") {
		seen := terminal.Visible(strings.NewReplacer(`\`, `\\`, `'`, `\'`, "\n", `\n`, "\t", `\t`).Replace(path))
		return "$'" + seen + "'"
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}

// asked is how many questions are put to the model before and after.
const asked = 2

// When questions are put.
const (
	before = "before tuning"
	after  = "after tuning"
)

// asker puts held-out questions to the model of a run.
type asker struct {
	out       io.Writer
	questions []texts.Question
	said      []string // the questions as the command has them; nil: they are held out
	sample    train.SampleConfig
	tokens    train.Tokenizer
	drawn     *drawn // of a run that is rewarded for completions; nil: another
	best      bool   // the run is done, and another checkpoint than the last is the best: that one is yet to be asked
}

// ask makes a run put them, before the first step and after the last.
func (a *asker) ask(run *train.Config) error {
	if a.drawn = drawnIn(run); a.drawn != nil {
		run.Hooks = append(run.Hooks, a.hook())
		return nil
	}
	if len(run.Asked) > 0 {
		a.said, a.sample, a.tokens = run.Ask, run.Sample, run.Tokenizer
		for _, q := range run.Asked {
			a.questions = append(a.questions, texts.Question{Prompt: q.Prompt, Answer: q.Stop})
		}
		run.Hooks = append(run.Hooks, a.hook())
		return nil
	}
	held, ok := run.Validation.(*texts.Documents)
	if run.Tokenizer == nil || !ok || run.Sample.Tokens == 0 {
		return nil
	}
	shown, err := held.Show(50, run.State.Sequence)
	if err != nil {
		return err
	}
	known := func(q texts.Question) bool {
		return slices.ContainsFunc(a.questions, func(o texts.Question) bool { return slices.Equal(o.Prompt, q.Prompt) })
	}
	for _, s := range shown {
		if q, ok := s.Question(max(run.State.Sequence-run.Sample.Tokens, 1)); ok && s.Left == 0 && len(a.questions) < asked && !known(q) {
			a.questions = append(a.questions, q)
		}
	}
	a.sample, a.tokens, run.Answers = run.Sample, run.Tokenizer, len(a.questions)
	run.Hooks = append(run.Hooks, a.hook())
	return nil
}

// hook asks before the first step, and after the last where that is the best.
func (a *asker) hook() train.Hook {
	return train.HookFunc(func(ctx context.Context, e train.Event) error {
		switch {
		case e.Kind == train.Started && e.Step == 0 && a.said == nil:
			return a.put(ctx, before, e.State, e.Progress)
		case e.Kind != train.Ended || e.Err != nil || e.State == nil:
		case e.BestStep > 0 && e.BestStep != e.Step:
			a.best = true
		case a.said == nil:
			return a.put(ctx, after, e.State, e.Progress)
		}
		return nil
	})
}

// put writes the questions with the answers of a model, beside those of the conversations, and counts tokens meanwhile.
func (a *asker) put(ctx context.Context, when string, m rollout.Model, p train.Progress) error {
	defer p.Clear()
	if a.drawn != nil {
		return a.drawn.put(ctx, a.out, when, m, p)
	}
	questions := make([]train.Question, len(a.questions))
	for i, q := range a.questions {
		questions[i] = train.Question{Prompt: q.Prompt, Tokens: a.sample.Tokens, Stop: q.Answer[len(q.Answer)-1:]} // what ends the turn
	}
	p.Busy("answers "+when, 0, len(questions))
	return train.Answers(ctx, a.sample, a.tokens, m, questions, func(i int, found train.Answer) error {
		if found.Err != nil {
			return found.Err
		}
		p.Clear()
		defer p.Busy("answers "+when, i+1, len(questions))
		q := a.questions[i]
		if a.said != nil {
			return tellAnswer(a.out, when, a.said[i], found.Text)
		}
		if err := tellAnswer(a.out, when, setup.Spoken(a.tokens, q.Prompt), found.Text); err != nil {
			return err
		}
		_, err := fmt.Fprintf(a.out, "  held out  %s\n", line(train.TextOf(a.tokens, q.Prompt, q.Answer)))
		return err
	})
}

// tellAnswer writes an answer, below when it was given; "": as the one before it.
func tellAnswer(out io.Writer, when, question, answer string) error {
	if when != "" {
		when += "\n"
	}
	_, err := fmt.Fprintf(out, "%s  question  %s\n  answer    %s\n", when, line(question), line(answer))
	return err
}

// answersHook writes what a run's model answers to the questions of the run.
func answersHook(out io.Writer, last int64) train.Hook {
	told := int64(-1)
	return train.HookFunc(func(_ context.Context, e train.Event) error {
		if e.Kind != train.Sampled || !e.Sample.Asked {
			return nil
		}
		when := fmt.Sprintf("step %d", e.Sample.Step)
		switch e.Sample.Step {
		case 0:
			when += ", before training"
		case last:
			when += ", the last"
		}
		if told == e.Sample.Step {
			when = ""
		}
		told = e.Sample.Step
		e.Progress.Clear()
		return tellAnswer(out, when, e.Sample.Prompt, e.Sample.Text)
	})
}

// line is a text on one line.
func line(text string) string { return terminal.Text(strings.Join(strings.Fields(text), " ")) }
