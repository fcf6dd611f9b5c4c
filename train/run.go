package train

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"time"

	"gputrain/checkpoint"
	"gputrain/data"
	"gputrain/gpu"
	"gputrain/model"
	"gputrain/state"
)

// Result is how a run ended.
type Result struct {
	Reason     Reason
	Step       int64   // of the state at the end
	Resumed    int64   // the step that this run went on from; 0: it began
	Loss       float64 // mean of the last steps' training loss, nats a token
	EvalLoss   float64 // of the last evaluation; NaN without one
	BestLoss   float64 // the lowest of all evaluations; NaN without one
	BestStep   int64
	Checkpoint string // the newest checkpoint; "" without one
	Elapsed    time.Duration
	Times      []Span // where the time went
}

// checkpointsDir is the directory of a run's checkpoints.
const checkpointsDir = "checkpoints"

// TensorBoardDir is the directory that package train/tensorboard makes in a run directory.
const TensorBoardDir = "tensorboard"

// Run trains on a device until all steps are made, ctx ends (see Signals) or something stops it: Result.Reason says which, and the error,
// nil when all steps are made, more: it matches ErrStopped (and is a *TimeLimitError where that was it), ErrDiverged, gpu.ErrOutOfMemory or checkpoint.Err.
//
// The same call again goes on where the newest whole checkpoint of the run directory stands, to the same bits as if it had never
// stopped. A directory of a run with other settings is a *ChangedError.
func Run(ctx context.Context, dev *gpu.Device, c Config) (Result, error) {
	return RunOn(ctx, oneDevice{dev}, c)
}

// RunOn is Run on any target. The same run may go on on another one.
func RunOn(ctx context.Context, target Target, c Config) (Result, error) {
	started := time.Now()
	if limit := c.TimeLimit.Time(); limit > 0 {
		limited, cancel := context.WithTimeoutCause(ctx, limit, &TimeLimitError{Limit: limit})
		defer cancel()
		ctx = limited
	}
	result, err := run(ctx, target, c)
	err = Stopping(ctx, err)
	result.Reason, result.Elapsed = KindOf(err).Reason(), time.Since(started)
	return result, err
}

func run(ctx context.Context, target Target, c Config) (Result, error) {
	nothing := Result{Loss: math.NaN(), EvalLoss: math.NaN(), BestLoss: math.NaN()}
	together := &team{group: c.Ranks, target: target}
	if target == nil {
		return nothing, together.end(ctx, errors.New("train: target: found none, wanted one, such as Pipelined makes"))
	}
	if err := c.Validate(); err != nil {
		return nothing, together.end(ctx, err)
	}
	c = c.withDefaults()
	if perReplica(target) > 1 {
		if err := c.checkSpread(); err != nil {
			return nothing, together.end(ctx, err)
		}
	}
	if !c.leads() {
		c = c.follower(c.Ranks.Rank() < perReplica(target))
	}
	progress, err := newProgress(c.Progress, c.Output, c.Interval)
	if err != nil {
		return nothing, err
	}
	defer progress.Close()
	spent := newTimes(time.Now)
	c.State.Progress = spent.phase(progress.Phase)
	t := &trainer{
		config: c, team: together, progress: progress, evalLoss: math.NaN(),
		watched: map[int64]map[string]Number{}, given: map[int64]given{}, times: spent,
	}
	defer t.release()
	if err := t.enter(ctx); err != nil {
		_, err = together.agree(ctx, err, false)
		return nothing, together.end(ctx, err)
	}
	err = together.end(ctx, t.loop(ctx))
	defer together.waitForAll(ctx)
	if !c.leads() {
		return t.result(), err
	}
	err = errors.Join(err, t.tell(context.WithoutCancel(ctx), Event{Kind: Ended, Reason: KindOf(err).Reason(), Err: err}))
	if t.checkpoint != "" && t.dir.check() == nil {
		t.say("%s at step %s; model in %s, report in %s", KindOf(err).Reason(), grouped(t.state.Step()), t.checkpoint, t.dir.join(reportFile))
	}
	progress.Times(t.times.list())
	progress.Close()
	if reportErr := t.report(KindOf(err).Reason()); err == nil {
		err = reportErr
	}
	if profileErr := t.profile(); err == nil {
		err = profileErr
	}
	return t.result(), err
}

// profile writes ProfileFile.
func (t *trainer) profile() error {
	if t.config.Profile == nil {
		return nil
	}
	var trace bytes.Buffer
	if err := t.config.Profile(&trace); err != nil || trace.Len() == 0 {
		return err
	}
	return t.dir.replace(ProfileFile, trace.Bytes())
}

// enter takes the run directory, makes sure that all ranks are of one run, and opens it.
func (t *trainer) enter(ctx context.Context) error {
	if t.config.Ranks != nil {
		t.config.Ranks.Expect(StartPatience)
		if err := t.join(ctx); err != nil {
			return err
		}
	}
	reached, err := t.takeRun()
	if err != nil {
		return err
	}
	if err := t.team.share(ctx, t.config.Dir, t.dir); err != nil {
		return err
	}
	return t.open(ctx, reached)
}

// takeRun takes the run directory, and tells the step of its newest checkpoint. Ranks but the first only read in it.
func (t *trainer) takeRun() (reached int64, err error) {
	c := &t.config
	if c.leads() {
		if t.dir, err = takeDir(c.Dir); err != nil {
			return 0, err
		}
		if err := c.checkBase(); err != nil {
			return 0, err
		}
		if c.Fresh {
			if err := t.dir.checkFresh(*c); err != nil {
				return 0, err
			}
			if err := t.dir.remove(); err != nil {
				return 0, err
			}
		}
		c.State.FS = t.dir.held(c.State.FS)
	}
	t.store = checkpoint.Store{FS: c.State.FS, Dir: filepath.Join(c.Dir, checkpointsDir)}
	t.saves.saver = checkpoint.NewSaver(t.store)
	if !c.leads() {
		return 0, nil
	}
	steps, err := t.store.Steps()
	switch {
	case err != nil:
		return 0, err
	case len(steps) > 0:
		if err := t.accumulate(); err != nil {
			return 0, err
		}
		t.decided, err = readReschedule(*c)
		return steps[0], t.dir.advised(*c, err)
	case c.Reschedule:
		return 0, fmt.Errorf("train: run directory %q: reschedule: %w", c.Dir, ErrNoRun)
	}
	return 0, nil
}

// accumulate adds up gradients as the run in the directory began to.
func (t *trainer) accumulate() error {
	c, said, err := t.config.accumulatingAs(t.config.Dir)
	switch {
	case err != nil:
		return err
	case said != "":
		t.say("%s", said)
		t.facts.add("accumulation", "%s", said)
	}
	t.config = c
	if _, replicas := t.team.replica(); replicas > 1 && c.State.Accumulation == state.AccumulateSequence {
		return fmt.Errorf("train: run directory %q: train.accumulation: found %s, with which the run began, on %d ranks, wanted %s: its sums have the bits of one process alone",
			c.Dir, c.State.Accumulation, c.Ranks.Size(), state.AccumulateTree)
	}
	return nil
}

// open makes or restores everything that the loop needs, and says what it found; reached is the step of the newest checkpoint.
func (t *trainer) open(ctx context.Context, reached int64) error {
	t.say("run directory %s", t.config.Dir)
	for _, note := range t.notes {
		t.say("%s", note)
		t.facts.add("ranks", "%s", note)
	}
	t.say("planning a %s of %s parameters", t.config.State.Definition.Kind(), grouped(model.Parameters(t.config.State.Definition)))
	t.config = t.config.withRows(ctx)
	if err := t.fit(ctx); err != nil {
		return err
	}
	c := t.config
	text, err := settingsText(c.Settings)
	if err != nil {
		return err
	}
	if err := t.plan(ctx); err != nil {
		return err
	}
	if err := t.guess(reached); err != nil {
		return err
	}
	t.facts.add("batch", "%d sequences x %d batches x %d tokens", c.State.Batch, c.State.Microbatches, c.State.Sequence)
	if c.leads() {
		err = t.openRun(ctx, text)
	} else {
		err = t.follow(ctx)
	}
	t.loaded()
	if err != nil {
		return err
	}
	if err := t.openBatches(); err != nil {
		return err
	}
	if c.Validation != nil {
		if t.validation, err = c.evaluation(); err != nil {
			return err
		}
	}
	return t.level(ctx)
}

// openRun makes or restores the state, and the files of the run directory; settings are its record's.
func (t *trainer) openRun(ctx context.Context, settings []byte) error {
	removed, err := t.store.Clean()
	if err != nil {
		return err
	}
	for _, name := range removed {
		t.say("removed %s, left by an interrupted save", name)
	}
	if err := t.restore(ctx); err != nil {
		return err
	}
	if err := t.state.CheckSpace(ctx, t.config.Dir); err != nil {
		return err
	}
	if err := t.noteOrigin(); err != nil {
		return err
	}
	if err := t.record(settings); err != nil {
		return err
	}
	if err := t.logSession(); err != nil {
		return err
	}
	if err := t.openLogs(); err != nil {
		return err
	}
	return t.openHistograms(ctx)
}

// record writes run.yaml, and copies of the files that the settings came from, as they were.
func (t *trainer) record(settings []byte) error {
	head := bytes.NewBuffer(t.decided.text())
	for _, f := range t.config.Given {
		name := givenName(f.Text)
		if err := t.dir.replace(name, f.Text); err != nil {
			return err
		}
		fmt.Fprintf(head, "# %s as it was given: %s\n", f.Name, name)
	}
	return t.dir.replace(runFile, append(head.Bytes(), settings...))
}

// evaluation is over the windows of the validation data that are to be evaluated.
func (c Config) evaluation() (*data.Evaluation, error) {
	return data.NewEvaluation(c.Validation, c.State.Sequence, c.State.Evaluation, evaluationWindows(c.State, c.EvalTokens))
}

// evaluationWindows is how many sequences an evaluation of at most so many tokens reads; 0: all.
func evaluationWindows(c state.Config, tokens int64) int {
	if tokens == 0 {
		return 0
	}
	return int(max(1, tokens/int64(c.Sequence)))
}

// evaluationTokens is what a batch of an evaluation has: with fewer, processors wait more between kernels than they compute.
const evaluationTokens = 1024

// EvaluationRows is the number of sequences in a batch of an evaluation that reads at most so many tokens (0: all). It is that of a step's
// batch or, where that has fewer than 1,024 tokens, as many as make these, unless their pass takes more memory than a step. The loss does
// not depend on it but for the order of its sum.
func EvaluationRows(ctx context.Context, c state.Config, tokens int64) int {
	rows := max(c.Batch, (evaluationTokens+c.Sequence-1)/c.Sequence)
	if windows := evaluationWindows(c, tokens); windows > 0 {
		rows = min(rows, windows)
	}
	if rows <= c.Batch {
		return rows
	}
	// Planned for a device of no kind in particular: a run has the same batches wherever it goes on, on any number of
	// ranks, whatever it computes again.
	c.Recompute, c.Reducer = model.RecomputeNone, nil
	step, err := c.StepBytes(ctx, gpu.DefaultLimits())
	for ; err == nil && rows > c.Batch; rows /= 2 {
		bytes, failed := c.EvaluationBytes(ctx, rows, gpu.DefaultLimits())
		if err = failed; err == nil && bytes <= step {
			return rows
		}
	}
	return c.Batch // and an error is said where the run's own devices are planned for
}

// withRows is the configuration with the batches of its evaluations.
func (c Config) withRows(ctx context.Context) Config {
	if c.Validation != nil && c.State.Evaluation == 0 {
		c.State.Evaluation = EvaluationRows(ctx, c.State, c.EvalTokens)
	}
	return c
}

// restore finds the newest whole checkpoint and goes on from it, or begins.
func (t *trainer) restore(ctx context.Context) error {
	c := t.config
	found, err := t.store.Newest()
	for _, r := range found.Rejected {
		t.say("warning: %s", r)
	}
	if errors.Is(err, checkpoint.ErrCorrupt) {
		return fmt.Errorf("%w; put a whole one there, or start over with --fresh", err)
	}
	if err != nil {
		return err
	}
	if found.Path == "" {
		if err := t.lead(ctx, ""); err != nil {
			return err
		}
		return t.begin(ctx)
	}
	defer t.times.span(spanRestore)()
	begin := time.Now()
	record, err := checkpoint.ReadRecord(c.State.FS, found.Path)
	if err != nil {
		return err
	}
	switch {
	case record.Run.Fingerprint != c.Fingerprint:
		return t.dir.advised(c, &ChangedError{Dir: c.Dir, Key: "data (fingerprint of the text)", Found: record.Run.Fingerprint, Wanted: c.Fingerprint})
	case record.Run.Seed != c.State.Seed:
		return t.dir.advised(c, &ChangedError{Dir: c.Dir, Key: "train.seed", Found: fmt.Sprint(record.Run.Seed), Wanted: fmt.Sprint(c.State.Seed)})
	}
	if t.decided.moved != "" {
		t.say("%s", t.decided.moved)
	}
	if err := t.followBase(found.Path); err != nil {
		return err
	}
	t.config.State.Reschedule = t.reschedule(record.Step)
	if err := t.lead(ctx, found.Path); err != nil {
		return err
	}
	loaded, record, err := t.team.target.Load(ctx, t.config.State, found.Path)
	if err != nil {
		return err
	}
	t.state = loaded
	t.resume(record, found.Path)
	t.say("resumed from %s: parameters, optimizer state, counts, place in the text (epoch %d, window %d) and metrics of step %d, in %.2f s",
		found.Path, record.Run.Data.Epoch, record.Run.Data.Position, record.Step, time.Since(begin).Seconds())
	if len(found.Rejected) > 0 {
		t.say("warning: going on from step %d; newer checkpoints that are not whole: %d", record.Step, len(found.Rejected))
	}
	if here := t.adapter(); record.Adapter != here {
		t.say("warning: the checkpoint was computed on %q, this is %q: the run goes on, but not to the same bits", record.Adapter, here)
	}
	if record.Step > c.Steps {
		return fmt.Errorf("train: run directory %q: is at step %d, wanted %d steps", c.Dir, record.Step, c.Steps)
	}
	if record.Step == c.Steps && len(found.Rejected) == 0 { // nothing will be saved: a kill may have cut short the last rotation
		_, err = t.store.Rotate(t.keep())
	}
	return err
}

// loaded lets go of the parameters that the run was given: they are on the devices, or not needed.
func (t *trainer) loaded() {
	t.config.Params = nil
	if t.config.Loaded != nil {
		t.config.Loaded()
	}
}

// begin makes the state of step 0.
func (t *trainer) begin(ctx context.Context) error {
	defer t.times.span(spanCreate)()
	c := t.config
	t.run = checkpoint.Run{Seed: c.State.Seed, Fingerprint: c.Fingerprint}
	created, err := t.team.target.Create(ctx, c.State, c.Params)
	if err == nil {
		t.state = created
	}
	return err
}

// resume takes over what the record of a checkpoint has of a run.
func (t *trainer) resume(record checkpoint.Record, path string) {
	t.run, t.resumed, t.checkpoint = record.Run, record.Step, path
	t.saves.found(record)
	t.saveFollowed(record)
	t.window.losses = record.Run.Window
}

// adapter names the adapters of the run, as checkpoints do.
func (t *trainer) adapter() string { return cmp.Or(t.config.State.Adapter, t.team.target.Adapter()) }

// openLogs rewinds the logs to the state's step.
func (t *trainer) openLogs() (err error) {
	step := t.state.Step()
	if t.metrics, err = t.openLog(metricsFile); err != nil {
		return err
	}
	if t.samples, err = t.openLog(samplesFile); err != nil {
		return err
	}
	t.sampled = t.samples.last
	if t.metrics.lastOfStep+t.config.LogEvery <= step {
		t.say("warning: %s ends at step %d: its lines up to step %d are missing", metricsFile, t.metrics.lastOfStep, step)
	}
	var e EvalMetrics
	if json.Unmarshal(t.metrics.eval, &e) == nil {
		t.evaluated, t.evalLoss = e.Step, float64(e.Loss)
	}
	return nil
}

// openLog rewinds a log to the state's step, and says what is damaged in it.
func (t *trainer) openLog(name string) (*lineLog, error) {
	l, err := openLines(t.dir, t.dir.join(name), t.state.Step())
	if err == nil && l.damaged > 0 {
		t.say("warning: %s: %d lines cannot be read and are passed over", name, l.damaged)
	}
	return l, err
}

// report writes report.md once the run has ended.
func (t *trainer) report(reason Reason) error {
	if err := t.dir.check(); err != nil {
		return err
	}
	known := slices.Clone(t.facts)
	known.add("ended", "%s at step %s of %s", reason, grouped(t.state.Step()), grouped(t.config.Steps))
	if t.last.Skipped+t.last.Spikes > 0 {
		known.add("left out", "%s updates that were not finite, %s beyond the usual", grouped(t.last.Skipped), grouped(t.last.Spikes))
	}
	if t.resumed > 0 {
		known.add("resumed", "from step %s", grouped(t.resumed))
	}
	for _, d := range t.decided.decisions {
		known.add("schedule", "%s", d.text)
	}
	if t.checkpoint != "" {
		known.add("checkpoint", "%s", t.checkpoint)
	}
	r := report{title: t.config.Title, facts: known, work: t.work, spans: t.times.list(), memory: t.memory(), settings: t.config.Settings}
	return r.write(t.config.Dir)
}
