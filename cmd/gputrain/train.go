package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"gputrain/data"
	"gputrain/gpu"
	"gputrain/pipeline"
	"gputrain/train"
	"gputrain/train/runfile"
	"gputrain/train/tensorboard"
)

type trainCmd struct {
	runFlags
	serveFlags
	windowFlags
	RunDir   string `help:"Run directory; by default one below runs/ named for the run file and for what --set changes in it, so that the same command goes on with its run." type:"path" placeholder:"DIR"`
	Adapter  string `help:"Index, part of a name, or backend:part." placeholder:"SEL"`
	Progress string `help:"auto, bar, plain, json or none." default:"auto" enum:"auto,bar,plain,json,none"`
	Fresh    bool   `help:"Start over: remove what an earlier run has left in the run directory." xor:"start"`
	Profile  bool   `help:"Time every pass on the device: a table at the end, and profile.json in the run directory for ui.perfetto.dev; of a pipeline, with a lane for each stage and link."`
	Autotune string `help:"on measures the variants of hot kernels once for each adapter; off takes those of a table, the same on every machine." default:"off" enum:"on,off"`

	Reschedule bool `help:"Go on with another train.steps, data.epochs, optimizer.learning_rate or optimizer.schedule than the run in the run directory has; name it with --run-dir where --set changes them." xor:"start"`
}

func (c *trainCmd) Run(ctx context.Context) error {
	begin := time.Now()
	ctx, stop := train.Signals(ctx, os.Stderr, os.Exit)
	defer stop()
	cfg, err := c.load()
	if err != nil {
		return err
	}
	dir := c.RunDir
	if dir == "" {
		dir = runDirOf(c.Files, cfg)
	}
	limit, err := runfile.ParseDuration(cfg.Train.TimeLimit)
	if err != nil {
		return usageError{err}
	}
	if limit > 0 { // of the command, of which the run is only a part
		within, cancel := context.WithDeadlineCause(ctx, begin.Add(limit), &train.TimeLimitError{Limit: limit})
		defer cancel()
		ctx = within
	}
	run, release, err := c.config(ctx, cfg, dir)
	if err != nil {
		return train.Stopping(ctx, err)
	}
	defer release()
	run.TimeLimit = 0
	if cfg.Train.TensorBoard {
		run.Hooks = append(run.Hooks, tensorboard.NewHook(dir))
	}
	run.Dir, run.Fresh, run.Reschedule, run.Progress = dir, c.Fresh, c.Reschedule, c.Progress
	unserve, err := c.serveFlags.start(ctx, dir)
	if err != nil {
		return err
	}
	defer unserve()
	err = train.Stopping(ctx, c.around(run, func(run train.Config) error {
		if cfg.Pipeline.Stages == 1 {
			return c.onOne(ctx, cfg, run)
		}
		return c.onStages(ctx, cfg, run)
	}))
	return err
}

// config is trainConfig of a run that may go on in dir: then it needs nothing of model.from, which may be gone, but that it is what it was.
func (c *trainCmd) config(ctx context.Context, cfg *runfile.Config, dir string) (train.Config, func(), error) {
	from := cfg.Model.From
	if _, err := os.Stat(from); from == "" || c.Fresh || !errors.Is(err, os.ErrNotExist) {
		return trainConfig(ctx, cfg)
	}
	found, err := checkpoints(dir).Newest()
	if err != nil || found.Path == "" {
		return trainConfig(ctx, cfg)
	}
	fmt.Fprintf(os.Stderr, "gputrain: model.from (%s): %s is not there any more; the run goes on without it\n", cfg.Origin("model.from"), from)
	cfg.Model.From = found.Path
	run, release, err := trainConfig(ctx, cfg)
	cfg.Model.From = from
	if run.Settings != nil {
		run.Settings = settings(cfg)
	}
	return run, release, err
}

// onOne trains on one device.
func (c *trainCmd) onOne(ctx context.Context, cfg *runfile.Config, run train.Config) error {
	dev, err := c.device(ctx, cfg)
	if err != nil {
		return err
	}
	defer dev.Release()
	run.Peak = peakOf(dev)
	_, err = train.Run(ctx, dev, run)
	if c.Profile {
		err = errors.Join(err, writeProfile(dev, filepath.Join(run.Dir, train.ProfileFile)))
	}
	return err
}

// onStages trains a model that is cut into stages.
func (c *trainCmd) onStages(ctx context.Context, cfg *runfile.Config, run train.Config) error {
	units, err := modelUnits(cfg, run.State)
	if err != nil {
		return err
	}
	adapters, err := stageAdapters(cfg, c.Adapter)
	if err != nil {
		return err
	}
	options, err := deviceOptions(cfg, c.Profile, adapters...)
	if err != nil {
		return err
	}
	devices, release, err := openStages(ctx, cfg, adapters, options)
	if err != nil {
		return err
	}
	defer release()
	for _, d := range devices {
		d.SetAutotune(c.Autotune == "on")
	}
	cut, _, err := cutModel(ctx, cfg, run.State, units, devices)
	if err != nil {
		return err
	}
	p := pipelineConfig(cfg, cut)
	p.Profile = c.Profile
	run.Peak = peakOf(devices...)
	var timeline *pipeline.Recorder
	run.Hooks = append(run.Hooks, train.HookFunc(func(_ context.Context, e train.Event) error {
		if s, ok := e.State.(*pipeline.State); ok && e.Kind == train.Started {
			timeline = s.Recorder()
		}
		return nil
	}))
	_, err = train.RunOn(ctx, train.Pipelined(devices, p), run)
	if c.Profile && timeline != nil {
		err = errors.Join(err, writeTimeline(timeline, devices, filepath.Join(run.Dir, train.ProfileFile)))
	}
	return err
}

// peakOf measures devices where that has not been done before.
func peakOf(devices ...*gpu.Device) func(context.Context) (float64, error) {
	return func(ctx context.Context) (float64, error) { return pipeline.Peak(ctx, devices) }
}

// device opens the adapter that --adapter names, else the one of the run file,
// else GPUTRAIN_ADAPTER's or the fastest.
func (c *trainCmd) device(ctx context.Context, cfg *runfile.Config) (*gpu.Device, error) {
	sel := c.Adapter
	if sel == "" && len(cfg.Pipeline.Adapters) == 1 {
		sel = strconv.Itoa(cfg.Pipeline.Adapters[0])
	}
	adapter, err := selectAdapter(sel)
	if err != nil {
		return nil, err
	}
	if c.Profile && !adapter.Timestamps {
		return nil, usageError{fmt.Errorf("--profile: adapter %s has no timestamps; gputrain devices lists those that have", adapter)}
	}
	options, err := deviceOptions(cfg, c.Profile, adapter)
	if err != nil {
		return nil, err
	}
	dev, err := gpu.Open(ctx, adapter, options)
	if err != nil {
		return nil, err
	}
	dev.SetAutotune(c.Autotune == "on")
	return dev, nil
}

// trainConfig turns a run file into a run: its text is opened, its model and
// optimizer are checked. Nothing is taken of a device yet.
func trainConfig(ctx context.Context, cfg *runfile.Config) (train.Config, func(), error) {
	var run train.Config
	c, begin, err := stateConfig(cfg)
	if err != nil {
		return run, nil, err
	}
	interval, err := runfile.ParseDuration(cfg.Train.SaveInterval)
	if err != nil {
		return run, nil, usageError{err}
	}
	limit, err := runfile.ParseDuration(cfg.Train.TimeLimit)
	if err != nil {
		return run, nil, usageError{err}
	}
	timeout, err := runfile.ParseDuration(cfg.Data.Timeout)
	if err != nil {
		return run, nil, usageError{err}
	}
	if err := train.CheckNames(cfg.Train.HistogramMatch, c.Definition); err != nil {
		return run, nil, usageError{fmt.Errorf("run file: train.histogram_match (%s): %w", cfg.Origin("train.histogram_match"), err)}
	}
	ahead := fmt.Sprintf("run file: data.prefetch (%s): %d batches of %d sequences of %d tokens", cfg.Origin("data.prefetch"), cfg.Data.Prefetch, c.Batch*c.Accumulate, c.Sequence)
	if err := fitsMachine(ahead, cfg.Data.Prefetch, c.Batch*c.Accumulate, c.Sequence); err != nil {
		return run, nil, err
	}
	from := dataConfig(cfg, c.Definition, c.Sequence)
	from.Timeout, from.Progress = timeout, readingProgress(os.Stderr)
	text, err := openText(ctx, from)
	if err != nil {
		return run, nil, err
	}
	release := func() { _ = text.Close() }
	if cfg.Data.Epochs > 0 {
		if err := layEpochs(cfg, text, c); err != nil {
			release()
			return run, nil, usageError{err}
		}
		if c.Optimizer, err = fittingOptimizer(cfg, c.Definition); err != nil { // its schedule ends with the run
			release()
			return run, nil, usageError{err}
		}
	}
	t := cfg.Train
	run = train.Config{
		State: c, Params: begin.params, Drawn: begin.drawn, Train: text.Train, Validation: text.Validation, Fingerprint: text.Fingerprint, FormerFingerprint: text.Former, Prefetch: cfg.Data.Prefetch,
		DataTimeout: timeout, Notes: append([]string{provenance(text)}, text.Notes...),
		Steps: int64(t.Steps), EvalEvery: int64(t.EvalEvery), EvalTokens: int64(t.EvalTokens),
		SaveEvery: saveEvery(t.SaveEvery), SaveInterval: interval, SaveSync: !t.SaveAsync, Keep: t.Keep, KeepBest: t.KeepBest,
		SampleEvery: int64(t.SampleEvery), LogEvery: int64(t.LogEvery), Patience: int64(t.NaNPatience), TimeLimit: limit,
		Spikes: train.SpikeConfig{
			Loss: t.SpikeLoss, GradNorm: t.SpikeGradNorm, UpdateNorm: t.SpikeUpdateNorm, Window: t.SpikeWindow, Patience: int64(t.SpikePatience),
		},
		HistogramEvery: int64(t.HistogramEvery), Histograms: t.HistogramMatch,
		Settings: settings(cfg), Given: given(cfg), Title: fmt.Sprintf("%s on %s", c.Definition.Kind(), text.Name),
	}
	// Only bytes can be written as text so far.
	if t.SampleTokens > 0 && text.Tokens == "bytes" {
		run.Sample = train.SampleConfig{Prompt: prompt(cfg), Tokens: t.SampleTokens, Temperature: t.Temperature, TopK: t.TopK, Seed: t.Seed}
	}
	return run, release, nil
}

// provenance tells what the text is: a report says it long after.
func provenance(text *data.Corpus) string {
	what := fmt.Sprintf("%s, files: %d, tokens: %s", text.Name, text.Files, text.Tokens)
	if t, ok := text.Train.(*data.Tokens); ok {
		what += fmt.Sprintf(", %d of them to train on", t.Len())
	}
	return fmt.Sprintf("%s, split %s, fingerprint %.12s", what, text.Split, text.Fingerprint)
}

// saveEvery is when permanent checkpoints are made.
func saveEvery(intervals runfile.Intervals) train.Intervals {
	var out train.Intervals
	for _, i := range intervals {
		out = append(out, train.Interval{Every: int64(i.Every), Until: int64(i.Until)})
	}
	return out
}

// prompt is what samples begin with: something that the text itself has.
func prompt(cfg *runfile.Config) string {
	if cfg.Train.Prompt != "" {
		return cfg.Train.Prompt
	}
	if d := cfg.Data; len(d.Text)+len(d.JSONL)+len(d.Mixture) == 0 {
		return "func "
	}
	return "\n"
}

// given are the run files as they were.
func given(cfg *runfile.Config) []train.Given {
	var out []train.Given
	for _, f := range cfg.Read {
		out = append(out, train.Given{Name: f.Path, Text: f.Text})
	}
	return out
}

// settings are the values that a resumed run must share, and those it may
// change.
func settings(cfg *runfile.Config) []train.Setting {
	var out []train.Setting
	for key, value := range cfg.Values() {
		if key == "model.from" && cfg.Model.From != "" {
			if abs, err := filepath.Abs(cfg.Model.From); err == nil { // a run goes on from any directory
				value = abs
			}
		}
		out = append(out, train.NewSetting(key, value, string(cfg.Origin(key))))
	}
	return out
}
