package train

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"gputrain/gpu"
	"gputrain/model"
	"gputrain/run/record"
	"gputrain/state"
	"gputrain/state/checkpoint"
)

// opening makes a trainer ready for its first step.
type opening struct {
	*trainer
	decided reschedule
	earlier *earlier // nil: it is not read yet
	notes   []string // what there is to say of ranks
	// reference is what is to be written to referenceFile; nil: nothing, or it is there.
	reference []byte
}

// start takes the run directory, makes sure that all ranks are of one run, and opens it.
func (t *opening) start(ctx context.Context) error {
	if t.config.Ranks != nil {
		t.team.works = StartPatience
		t.config.Ranks.Expect(StartPatience)
		if err := t.join(ctx); err != nil {
			return err
		}
	}
	reached, err := t.takeDirectory()
	if err != nil {
		return err
	}
	if err := t.team.share(ctx, t.config.Dir, t.dir); err != nil {
		return err
	}
	return t.openAll(ctx, reached)
}

// takeDirectory takes the run directory, and tells the step of its newest checkpoint. Ranks but the first only read in it.
func (t *opening) takeDirectory() (reached int64, err error) {
	c := &t.config
	if c.leads() {
		if t.dir, err = takeDir(c.Dir); err != nil {
			return 0, err
		}
		if err := c.checkBase(); err != nil {
			return 0, err
		}
		for _, f := range c.Files {
			if err := t.dir.checkFile(f, c.Fresh); err != nil {
				return 0, err
			}
		}
		if c.Fresh {
			if err := t.dir.checkFresh(*c); err != nil {
				return 0, err
			}
			if t.dir.yields, err = bytesBelow(resolved(t.dir.join(checkpointsDir))); err != nil {
				return 0, dirError(c.Dir, err)
			}
		}
		c.State.FS = t.dir.held(c.State.FS)
	}
	t.store = checkpoint.Store{FS: c.State.FS, Dir: filepath.Join(c.Dir, checkpointsDir)}
	t.saves.saver = checkpoint.NewSaver(t.store)
	if !c.leads() || c.Fresh { // the earlier run is there until this one can begin
		return 0, nil
	}
	steps, err := t.store.Steps()
	switch {
	case err != nil:
		return 0, err
	case len(steps) > 0:
		e, err := t.earlierRecord()
		if err != nil {
			return 0, err
		}
		if err := t.accumulate(e); err != nil {
			return 0, err
		}
		t.decided, err = e.reschedule(*c)
		return steps[0], t.dir.advised(*c, err)
	case c.Reschedule:
		return 0, fmt.Errorf("train: run directory %q: reschedule: %w", c.Dir, errNoRun)
	}
	return 0, nil
}

// accumulate adds up gradients as the run in the directory began to.
func (t *opening) accumulate(e earlier) error {
	c, said, err := t.config.accumulatingAs(e)
	switch {
	case err != nil:
		return err
	case said != "":
		t.note("accumulation", "", said)
	}
	t.config = c
	if _, replicas := t.team.replica(); replicas > 1 && c.State.Accumulation == state.AccumulateSequence {
		return fmt.Errorf("train: run directory %q: train.accumulation: found %s, with which the run began, on %d ranks, wanted %s: its sums have the bits of one process alone",
			c.Dir, c.State.Accumulation, c.Ranks.Size(), state.AccumulateTree)
	}
	return nil
}

// note says a text behind another, and gives it to the report as a fact.
func (t *opening) note(fact, before, text string) {
	t.say("%s%s", before, text)
	t.reporter.facts.add(fact, "%s", text)
}

// openAll makes or restores everything that the loop needs, and says what it found; reached is the step of the newest checkpoint.
func (t *opening) openAll(ctx context.Context, reached int64) error {
	t.say("run directory %s", t.config.Dir)
	for _, note := range t.notes {
		t.note("ranks", "", note)
	}
	t.say("planning a %s of %s parameters", t.config.State.Definition.Kind(), grouped(model.Parameters(model.Student(t.config.State.Definition))))
	t.config = t.config.withRows(ctx)
	labelled, err := t.config.checkMismatched()
	if err != nil {
		return err
	}
	if said := t.config.uneven(labelled); said != "" {
		t.say("%s", said)
	}
	t.followEdition()
	if err := t.fit(ctx); err != nil {
		return err
	}
	c := t.config
	var text bytes.Buffer
	if err := record.Write(&text, c.Settings); err != nil {
		return err
	}
	if err := t.plan(ctx); err != nil {
		return err
	}
	t.since = c.begun()
	if err := t.estimate(max(reached, t.since)); err != nil {
		return err
	}
	t.reporter.facts.add("batch", "%d sequences x %d batches x %d tokens", c.State.Batch, c.State.Microbatches, c.State.Sequence)
	if c.leads() {
		err = t.openDirectory(ctx, text.Bytes())
	} else {
		err = t.loadAsTold(ctx)
	}
	t.loaded()
	if err != nil {
		return err
	}
	if err := t.openBatches(ctx); err != nil {
		return err
	}
	if c.evaluatesLoss() {
		if t.validation, err = t.config.evaluation(); err != nil {
			return err
		}
	}
	t.display.begun, t.reporter.resumed, t.reporter.checkpoint, t.reporter.decided = t.state.Step(), t.resumed, t.checkpoint, t.decided.Decisions
	t.display.config, t.reporter.config = t.config, t.config
	return t.makeEqual(ctx)
}

// openDirectory makes or restores the state, and the files of the run directory; settings are its record's.
func (t *opening) openDirectory(ctx context.Context, settings []byte) error {
	t.noteUnits()
	if err := t.restore(ctx); err != nil {
		return err
	}
	if err := t.checkSpace(ctx); err != nil {
		return err
	}
	if err := t.noteOrigin(); err != nil {
		return err
	}
	if t.config.Fresh { // nothing refuses any more
		if err := t.dir.remove(); err != nil {
			return err
		}
		if err := t.dir.mark(t.config.Launch); err != nil {
			return dirError(t.config.Dir, err)
		}
	}
	if err := t.record(settings); err != nil {
		return err
	}
	if err := t.recordReference(); err != nil {
		return err
	}
	if err := t.openLogs(); err != nil {
		return err
	}
	if err := t.logSession(); err != nil {
		return err
	}
	return t.openHistograms(ctx)
}

// record writes run.yaml, before it the files of the caller's, and copies of the files that the settings came from, as they were.
func (t *opening) record(settings []byte) error {
	for _, f := range t.config.Files {
		if err := t.dir.replace(f.Name, f.Text); err != nil {
			return err
		}
	}
	head := bytes.NewBuffer(t.decided.Head())
	for _, f := range t.config.Given {
		name := givenName(f.Text)
		if err := t.dir.replace(name, f.Text); err != nil {
			return err
		}
		fmt.Fprintf(head, "# %s as it was given: %s\n", f.Name, name)
	}
	return t.dir.replace(runFile, append(head.Bytes(), settings...))
}

// restore finds the newest whole checkpoint and goes on from it, or begins.
func (t *opening) restore(ctx context.Context) error {
	c := t.config
	if c.Fresh {
		return t.beginTold(ctx)
	}
	removed, err := t.store.Clean()
	if err != nil {
		return err
	}
	for _, name := range removed {
		t.say("removed %s, left by an interrupted save", name)
	}
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
		return t.beginTold(ctx)
	}
	defer t.times.span(spanRestore)()
	begin := time.Now()
	record, err := checkpoint.ReadRecord(c.State.FS, found.Path)
	if err != nil {
		return err
	}
	switch {
	case record.Run.Fingerprint != c.Fingerprint:
		changed := &ChangedError{Dir: c.Dir, Key: "data (fingerprint of the text)", Found: record.Run.Fingerprint, Wanted: c.Fingerprint}
		if changed.Earlier = record.Run.Fingerprint == c.Earlier.Fingerprint; changed.Earlier {
			changed.Why = ", as a row has other tokens than the program that began the run made of it: " + c.Earlier.Why
		}
		return t.dir.advised(c, changed)
	case record.Run.Seed != c.State.Seed:
		return t.dir.advised(c, &ChangedError{Dir: c.Dir, Key: "train.seed", Found: fmt.Sprint(record.Run.Seed), Wanted: fmt.Sprint(c.State.Seed)})
	case record.Run.MatrixUnits != t.units(): // each kind adds up in an order of its own
		return t.dir.advised(c, &ChangedError{Dir: c.Dir, Key: "device.matrix (products of f16)", Found: unitsText(record.Run.MatrixUnits), Wanted: unitsText(t.units())})
	}
	if t.decided.moved != "" {
		t.say("%s", t.decided.moved)
	}
	if err := t.followBase(found.Path); err != nil {
		return err
	}
	t.config.State.Reschedule = t.reschedule(record.Step)
	if err := t.tellCheckpoint(ctx, found.Path); err != nil {
		return err
	}
	t.dropValue()
	if err := t.openReference(ctx, false); err != nil {
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
func (t *opening) loaded() {
	t.config.Params = nil
	if t.config.Loaded != nil {
		t.config.Loaded()
	}
}

// beginTold begins, and tells the other ranks that there is no checkpoint.
func (t *opening) beginTold(ctx context.Context) error {
	if err := t.tellCheckpoint(ctx, ""); err != nil {
		return err
	}
	return t.begin(ctx)
}

// begin makes the state of step 0, or that of the value that the run begins with.
func (t *opening) begin(ctx context.Context) error {
	defer t.times.span(spanCreate)()
	c := &t.config
	t.run = checkpoint.Run{Seed: c.State.Seed, Fingerprint: c.Fingerprint, MatrixUnits: t.units()}
	job, err := state.NewJob(c.State)
	if err == nil {
		job, err = job.WithBase(c.Params) // noteOrigin reads nothing again
	}
	if err != nil {
		return fmt.Errorf("train: %w", err)
	}
	c.State = job.Config
	t.compareBases()
	var created State
	if c.begins() {
		t.say("begins with what it was given: %s", *c.Value)
		created, err = t.team.target.Begin(ctx, c.State, *c.Value)
	} else {
		created, err = t.team.target.Create(ctx, c.State, c.Params)
	}
	if err != nil {
		return err
	}
	t.state = created
	return t.openReference(ctx, true)
}

// resume takes over what the record of a checkpoint has of a run.
func (t *opening) resume(record checkpoint.Record, path string) {
	t.run, t.resumed, t.checkpoint = record.Run, record.Step, path
	for _, d := range t.decided.Decisions {
		t.since = max(t.since, d.Step)
	}
	t.saves.found(record)
	t.saveFollowed(record)
	t.window.losses = record.Run.Window
}

// adapter names the adapters of the run, as checkpoints do.
func (t *trainer) adapter() string { return cmp.Or(t.config.State.Adapter, t.team.target.Adapter()) }

// openLogs rewinds the logs to the state's step.
func (t *opening) openLogs() (err error) {
	step := t.state.Step()
	if t.journal.metrics, err = t.openLog(metricsFile); err != nil {
		return err
	}
	if t.journal.samples, err = t.openLog(samplesFile); err != nil {
		return err
	}
	t.sampled, t.asked = t.journal.samples.last, t.journal.samples.last
	if t.config.learnsRollouts() {
		if t.journal.rollouts, err = t.openLog(rolloutsFile); err != nil {
			return err
		}
	}
	if t.resumed > 0 && t.journal.metrics.lastOfStep+t.config.LogEvery <= step {
		t.say("warning: %s ends at step %d: its lines up to step %d are missing", metricsFile, t.journal.metrics.lastOfStep, step)
	}
	var e EvalMetrics
	if json.Unmarshal(t.journal.metrics.eval, &e) == nil {
		t.evaluated, t.evalLoss = e.Step, float64(e.Loss)
	}
	return nil
}

// openHistograms rewinds the log of histograms, and makes everything that a count needs.
func (t *opening) openHistograms(ctx context.Context) (err error) {
	every := t.config.HistogramEvery
	if every == 0 {
		if _, err := os.Stat(t.dir.join(histogramsFile)); errors.Is(err, os.ErrNotExist) {
			return nil
		}
	}
	if t.journal.histograms, err = t.openLog(histogramsFile); err != nil || every == 0 {
		return err
	}
	tensors, bytes, err := t.histograms.build(ctx, t.state)
	if err == nil {
		t.say("histograms of %d tensors every %d steps, %s of device memory besides", tensors, every, gpu.SizeText(bytes))
	}
	return err
}

// openLog rewinds a log to the state's step, and says what is damaged in it.
func (t *opening) openLog(name string) (*lineLog, error) {
	l, err := openLines(t.dir, t.dir.join(name), t.state.Step())
	if err == nil && l.damaged > 0 {
		t.say("warning: %s: %d lines cannot be read and are passed over", name, l.damaged)
	}
	return l, err
}
