package main

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"gputrain/gpu"
	"gputrain/hub"
	"gputrain/internal/timeline"
	"gputrain/pipeline"
	"gputrain/pipeline/partition"
	"gputrain/run/plan"
	"gputrain/run/runfile"
	"gputrain/run/setup"
	"gputrain/run/tensorboard"
	"gputrain/run/train"
	"gputrain/state"
)

type trainCmd struct {
	runFlags
	serveFlags
	windowFlags
	RunDir   string `help:"Run directory; by default one below runs/, named for the run file and the changes of --set, so that the same command resumes its run." type:"path" placeholder:"DIR"`
	Adapter  string `help:"Index, part of a name, or backend:part." placeholder:"SEL"`
	Progress string `help:"auto, bar, plain, json or none." default:"auto" enum:"auto,bar,plain,json,none"`
	Fresh    bool   `help:"Start over: remove an earlier run's files from the run directory." xor:"start"`
	Profile  bool   `help:"Time every pass on the device: print a table at the end, and write profile.json for ui.perfetto.dev into the run directory, with a lane for each stage and link of a pipeline."`

	AllowCommand bool `help:"Start the commands of rewards also where a file names them: they run with your rights."`

	Reschedule bool `help:"Resume with another train.steps, data.epochs, optimizer.learning_rate or optimizer.schedule; if --set changes them, name the run directory with --run-dir." xor:"start"`

	together `kong:"-"`
	chosen   *train.File                   // the run file, which the run writes into its directory; nil: Files are
	begun    atomic.Bool                   // a step
	extend   func(run *train.Config) error // nil: the run is as the run file says
	result   train.Result                  // of the run
	again    func(next string) string      // the command that goes on from this run in another directory; nil: that is easily said
}

// Run trains, on several ranks where mpirun or srun has started them.
func (c *trainCmd) Run(ctx context.Context) error { return c.stoppable(ctx, c.train) }

// stoppable does what a signal ends as it ends a run; begin is when that was begun.
func (c *trainCmd) stoppable(ctx context.Context, do func(ctx context.Context, begin time.Time) error) error {
	begin := time.Now()
	if err := c.open(); err != nil {
		return err
	}
	ctx, stop := train.StepSignals(ctx, c.out, os.Exit, c.begun.Load)
	defer stop()
	if c.group == nil { // several ranks end together
		defer leaveEarly(ctx, &c.begun, leavePatience, func(err error) {
			tell(err)
			os.Exit(exitCode(err))
		})()
	}
	return c.close(ctx, do(ctx, begin))
}

// settings reads the run files, or the one that was chosen.
func (c *trainCmd) settings(dir string) (*runfile.Config, error) {
	if c.chosen == nil {
		return c.runFlags.load()
	}
	cfg, err := runfile.Layers(func(cfg *runfile.Config) error {
		return cfg.Take(runfile.Text{Path: filepath.Join(dir, c.chosen.Name), Text: c.chosen.Text})
	}, os.Environ(), c.Set)
	if err != nil {
		return nil, usageError{err}
	}
	return cfg, nil
}

func (c *trainCmd) train(ctx context.Context, begin time.Time) error {
	cfg, err := c.settings(c.RunDir)
	if err != nil {
		return err
	}
	dir := c.RunDir
	if dir == "" {
		dir = runDirOf(c.Files, cfg)
	}
	c.Fresh = c.Fresh && !startedOver(dir)
	var begun setup.Resumed
	if !c.Fresh {
		if begun.Earlier, err = setup.Earlier(dir, c.Reschedule); err != nil {
			return err
		}
	}
	fmt.Fprintf(c.out, "preparing the run in %s\n", dir)
	if limit := cfg.Train.TimeLimit.Time(); limit > 0 { // of the command, of which the run is only a part
		within, cancel := context.WithDeadlineCause(ctx, begin.Add(limit), &train.TimeLimitError{Limit: limit})
		defer cancel()
		ctx = within
	}
	if err := c.configure(ctx, cfg); err != nil {
		return err
	}
	run, release, err := c.config(ctx, cfg, dir, begun)
	if err != nil {
		return train.Stopping(ctx, err)
	}
	defer release()
	run.TimeLimit, run.Ranks = "", c.group
	run.Hooks = append(run.Hooks, train.HookFunc(func(_ context.Context, e train.Event) error {
		if e.Kind == train.StepBegin {
			c.begun.Store(true)
		}
		return nil
	}))
	if len(run.Asked) > 0 {
		run.Hooks = append(run.Hooks, answersHook(os.Stdout, run.Steps))
	}
	if c.extend != nil {
		if err := c.extend(&run); err != nil {
			return err
		}
	}
	if cfg.Train.TensorBoard {
		run.Hooks = append(run.Hooks, tensorboard.NewHook(dir))
	}
	if c.chosen != nil {
		run.Files = []train.File{*c.chosen}
	}
	run.Dir, run.Fresh, run.Launch, run.Reschedule, run.Progress = dir, c.Fresh, launchID(), c.Reschedule, c.Progress
	body := func(run train.Config) error {
		if cfg.Pipeline.Stages == 1 {
			return c.onOne(ctx, cfg, run)
		}
		return c.onStages(ctx, cfg, run)
	}
	if !c.group.Leads() {
		c.Profile = false
		return train.Stopping(ctx, body(run))
	}
	unserve, err := c.serveFlags.start(ctx, dir)
	if err != nil {
		return err
	}
	defer unserve()
	return grown(train.Stopping(ctx, c.around(run, body)), run, cfg, dir, c.again)
}

// startedOver tells whether the launch that this process is of has removed the earlier run, so that what is there now is wanted.
func startedOver(dir string) bool {
	m, err := train.ReadMarker(dir)
	return err == nil && m.Launch != "" && m.Launch == launchID() // of a marker that cannot be read, the run tells
}

// config is setup.Train of a run that may go on in dir: then it needs nothing of model.from, lora.from and data.tokenizer, which may be gone, but that they
// are what they were.
func (c *trainCmd) config(ctx context.Context, cfg *runfile.Config, dir string, begun setup.Resumed) (train.Config, func(), error) {
	begun.AllowCommand = c.AllowCommand
	if c.Fresh {
		return setup.Resume(ctx, cfg, begun, c.out)
	}
	places := map[string]string{"model.from": cfg.Model.From, "lora.from": cfg.LoRA.From, "data.tokenizer": cfg.Data.Tokenizer}
	maps.DeleteFunc(places, func(_, place string) bool { return !gone(place) })
	found, err := setup.Checkpoints(dir).Newest()
	if len(places) == 0 || err != nil || found.Path == "" {
		return setup.Resume(ctx, cfg, begun, c.out)
	}
	begin := found.Path
	if places["model.from"] != "" {
		if begin, err = c.beginning(cfg, begun.Earlier, dir, begin); err != nil {
			return train.Config{}, nil, err
		}
	}
	for key, place := range places {
		fmt.Fprintf(c.out, "gputrain: %s: %s is not there any more; the run goes on without it\n", cfg.At(key), place)
		places[key] = found.Path
	}
	begun.Adapters, begun.Tokenizer = places["lora.from"], places["data.tokenizer"]
	if places["model.from"] != "" {
		begun.Model = begin
	}
	return setup.Resume(ctx, cfg, begun, c.out)
}

// beginning is where a run whose model.from is gone has its model from: its newest checkpoint or, if that leaves parameters to a base, that.
func (c *trainCmd) beginning(cfg *runfile.Config, earlier *plan.Earlier, dir, newest string) (string, error) {
	from := cfg.Model.From
	if earlier != nil && earlier.Spec.Model.From != "" && !gone(earlier.Spec.Model.From) { // training says what is wrong with it
		return "", usageError{fmt.Errorf("%s: found %s, which is not there, wanted %s, with which the run in %s goes on", cfg.At("model.from"), from, earlier.Spec.Model.From, dir)}
	}
	base, err := hub.ReadBase(newest)
	switch {
	case err != nil:
		return "", &setup.ModelError{Err: err}
	case base == nil:
		return newest, nil
	case gone(base.Directory):
		return "", usageError{fmt.Errorf("%s: %s is not there any more, and what is frozen is in it: say where it is now, such as --set model.from=DIR", cfg.At("model.from"), from)}
	}
	return base.Directory, nil
}

// gone tells whether what a value names, if anything, is not there any more.
func gone(path string) bool {
	_, err := os.Stat(path)
	return path != "" && errors.Is(err, os.ErrNotExist)
}

// onOne trains on one device.
func (c *trainCmd) onOne(ctx context.Context, cfg *runfile.Config, run train.Config) error {
	dev, err := c.device(ctx, cfg)
	if err != nil {
		return err
	}
	defer dev.Release()
	run.Peak = peakOf(dev)
	if c.Profile {
		run.Profile = func(w io.Writer) error { return writeProfile(w, dev) }
	}
	c.entered = true
	c.result, err = train.Run(ctx, dev, run)
	return err
}

// onStages trains a model that is cut into stages.
func (c *trainCmd) onStages(ctx context.Context, cfg *runfile.Config, run train.Config) error {
	units, err := setup.Units(cfg, run.State)
	if err != nil {
		return err
	}
	devices, cut, release, err := c.stages(ctx, cfg, run.State, units)
	if err != nil {
		return err
	}
	defer release()
	p := setup.Pipeline(cfg, cut)
	p.Profile = c.Profile
	run.Peak = peakOf(slices.DeleteFunc(slices.Clone(devices), (*gpu.Device).Dry)...)
	var timeline *timeline.Recorder
	run.Hooks = append(run.Hooks, train.HookFunc(func(_ context.Context, e train.Event) error {
		if s, ok := e.State.(*pipeline.State); ok && e.Kind == train.Started {
			timeline = s.Recorder()
		}
		return nil
	}))
	if c.Profile {
		run.Profile = func(w io.Writer) error {
			if timeline == nil { // no step has begun
				return nil
			}
			return writeTimeline(w, timeline, devices)
		}
	}
	c.entered = true
	c.result, err = train.RunOn(ctx, train.Pipelined(devices, p), run)
	return err
}

// stages opens the devices of the stages, and cuts the model for them.
func (c *trainCmd) stages(ctx context.Context, cfg *runfile.Config, st state.Config, units []partition.Unit) (devices []*gpu.Device, cut partition.Assignment, release func(), err error) {
	adapters, err := c.adapters(cfg)
	if err != nil {
		return nil, cut, nil, err
	}
	options, err := setup.DeviceOptions(cfg, adapters...)
	if err != nil {
		return nil, cut, nil, err
	}
	options.Profile = c.Profile
	if !c.group.Spread() {
		if devices, release, err = setup.OpenStages(ctx, cfg, adapters, options); err != nil {
			return nil, cut, nil, err
		}
		cut, _, err = setup.Cut(ctx, cfg, st, units, devices)
	} else {
		var on setup.OnRanks
		if on, release, err = setup.OpenOnRanks(ctx, cfg, c.group, adapters, options); err != nil {
			return nil, cut, nil, err
		}
		devices = on.Devices
		cut, err = on.Cut(ctx, cfg, st, units)
	}
	if err != nil {
		release()
	}
	return devices, cut, release, err
}

// peakOf measures devices where that has not been done before.
func peakOf(devices ...*gpu.Device) func(context.Context) (float64, error) {
	return func(ctx context.Context) (float64, error) { return pipeline.Peak(ctx, devices) }
}

// device opens the adapter that --adapter names, else the one of the run file,
// else GPUTRAIN_ADAPTER's or the fastest.
func (c *trainCmd) device(ctx context.Context, cfg *runfile.Config) (*gpu.Device, error) {
	adapters, err := c.adapters(cfg)
	if err != nil {
		return nil, err
	}
	adapter := adapters[0]
	if c.Profile && !adapter.Timestamps {
		return nil, usageError{fmt.Errorf("--profile: adapter %s has no timestamps; gputrain devices lists those that have", adapter)}
	}
	options, err := setup.DeviceOptions(cfg, adapter)
	if err != nil {
		return nil, err
	}
	options.Profile = c.Profile
	return gpu.Open(ctx, adapter, options)
}

// runDirOf is the directory of a run below runs/: named for the run file, with a short hash of what was laid over it and makes it another run.
func runDirOf(files []string, cfg *runfile.Config) string {
	name := "default"
	if len(files) > 0 {
		base := filepath.Base(files[len(files)-1])
		name = strings.TrimSuffix(base, filepath.Ext(base))
	}
	if laid := cfg.Apart(files); len(laid) > 0 {
		name = fmt.Sprintf("%s-%08x", name, crc32.ChecksumIEEE([]byte(strings.Join(laid, "\n"))))
	}
	return filepath.Join("runs", name)
}

// leavePatience is how long a run that has made no step may take to end at a signal: with what it does to the end of a second.
const leavePatience = 800 * time.Millisecond

// leaveEarly calls leave where a run that is asked to end before its first step is still there after a time: in a driver, say, which nobody can break
// off. It has nothing that is not saved. begun tells that a step has begun; the run calls ended when it is over.
func leaveEarly(ctx context.Context, begun *atomic.Bool, patience time.Duration, leave func(err error)) (ended func()) {
	over := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-over:
		case <-time.After(patience):
			if !begun.Load() {
				leave(train.Stopping(ctx, context.Cause(ctx)))
			}
		}
	})
	return func() {
		stop()
		close(over)
	}
}
