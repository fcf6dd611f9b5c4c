package state

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/internal/caught"
	"gputrain/optim"
)

// Resident is what one stage has of a model, on one device: some leaves, the gradients, and what the optimizer remembers of them.
type Resident struct {
	Params *buffers.Tree // that are trained
	Frozen *buffers.Tree // that are not; nil: none
	Other  *buffers.Tree // variables without gradients; nil: none
	Grads  *buffers.Tree // f32 or bf16, with the leaves of Params
	State  *optim.State  // of optim.Transform.InitStage, or of Init where Params are the whole model
}

// updater applies gradients to a model, on each stage those of its own leaves. A model on one stage is updated by one program. The update
// of a divided model is cut at each norm of the whole model: every leaf gives eight bytes to it. They go by way of the host and are added
// up in the order of the model's leaves, so that the bits are those of one stage. Leaves may be divided over replicas, too.
type updater struct {
	tx     optim.Transform
	config UpdaterConfig
	stages []*updating

	combined []byte // a norm of the whole model
	losses   *gpu.Readback
	lossText []byte
	before   map[string]int64 // counts before the update that Prepare began
}

// UpdaterConfig says what an update does beside the transformation's own work.
type UpdaterConfig struct {
	Label string // of its programs
	// Losses are where stage LossStage has the losses of an update, which decide with the norm whether it is left out; zero: the stages have
	// them already, or need none.
	Losses    gpu.Range
	LossStage int
	// End records what follows the last piece of a stage in the same submit; nil: nothing.
	End func(rec *gpu.Recording, stage int)
	// Exchange gives what this and all other replicas give, in the order of their ranks, where the leaves of each stage are divided over replicas
	// too; nil: they are not.
	Exchange func(ctx context.Context, own []byte) ([][]byte, error)
	// Places are the leaves that each replica updates on each stage, in the order of replicas and their stages, where there is an Exchange.
	Places []*buffers.Layout
	// Absent: Grads may lack leaves, whose gradient is zero, and be nil. Zero is not the same as no update: moments and decay go on.
	Absent bool
	// Failed adds to an error which of several stages it came from; nil: it names the stage by its number.
	Failed func(stage int, err error) error
}

// updating is a stage at work, with the pieces of its update.
type updating struct {
	Resident
	completed bool          // Grads are the updater's own
	given     *buffers.Tree // the caller's, which are copied there; nil: none
	phase     optim.Phase   // of the update that Prepare began
	pieces    map[optim.Phase][]*gpu.Program
	norms     []*gpu.Readback
	measured  []byte
	move      *gpu.Program // before the gradients of an update; nil: none of its updates moves
}

// Each runs a function for every stage, on goroutines of their own where that lets the stages work at the same time, and returns their error.
type Each func(do func(ctx context.Context, stage int) error) error

// NewUpdater makes an updater of stages that together have the model, each leaf once. Programs are made on first use, or by Build. It owns
// none of the trees and states.
//
// Errors name the stage: one that lacks a tree or is there twice, and states whose counts differ.
func NewUpdater(tx optim.Transform, stages []Resident, c UpdaterConfig) (*updater, error) {
	if len(stages) == 0 {
		return nil, errors.New("found no stages, wanted one or more")
	}
	u := &updater{tx: tx, config: c}
	for _, r := range stages {
		u.stages = append(u.stages, &updating{Resident: r, pieces: map[optim.Phase][]*gpu.Program{}})
	}
	for i := range stages {
		if err := u.check(i); err != nil {
			u.Release()
			return nil, u.at(i, err)
		}
	}
	return u, nil
}

// check says what is wrong with a stage, and completes gradients that may lack leaves.
func (u *updater) check(stage int) error {
	s := u.stages[stage]
	if u.config.Absent {
		if err := s.complete(); err != nil {
			return err
		}
	}
	switch {
	case s.Params == nil || s.State == nil:
		return errors.New("found no params or no state, wanted both")
	case s.Grads == nil:
		return errors.New("grads: found none, wanted a tree")
	case slices.ContainsFunc(u.stages[:stage], func(o *updating) bool { return o.State == s.State }):
		return errors.New("state: found one stage twice, wanted each once")
	}
	if first := u.stages[0].State.Counts(); !maps.Equal(first, s.State.Counts()) {
		return fmt.Errorf("counts: found %v, wanted those of stage 0, %v", s.State.Counts(), first)
	}
	return nil
}

// at names the stage of an error, where there are several.
func (u *updater) at(stage int, err error) error {
	switch {
	case err == nil || len(u.stages) == 1 && u.config.Failed == nil:
		return err
	case u.config.Failed != nil:
		return u.config.Failed(stage, err)
	}
	return fmt.Errorf("stage %d: %w", stage, err)
}

// whole tells whether one stage has all of the model.
func (u *updater) whole() bool {
	return len(u.stages) == 1 && u.config.Exchange == nil && u.stages[0].State.ModelLeaves() == len(u.stages[0].Params.Layout().Leaves())
}

// rounds is the number of pieces of an update.
func (u *updater) rounds(phase optim.Phase) int {
	if phase == optim.Collect || u.whole() {
		return 1
	}
	return u.stages[0].State.Rounds()
}

// Build makes the programs of all phases.
func (u *updater) Build(ctx context.Context) error {
	for i, s := range u.stages {
		if err := u.makeMove(ctx, s); err != nil {
			return u.at(i, err)
		}
		for _, phase := range s.State.Phases() {
			if err := u.makePieces(ctx, i, phase); err != nil {
				return u.at(i, err)
			}
		}
	}
	return nil
}

// makePieces makes the programs of a phase of a stage, once.
func (u *updater) makePieces(ctx context.Context, stage int, phase optim.Phase) error {
	s := u.stages[stage]
	if s.pieces[phase] != nil {
		return nil
	}
	if err := u.prepareExchange(stage, phase); err != nil {
		return err
	}
	var made []*gpu.Program
	for round := range u.rounds(phase) {
		p, err := u.piece(ctx, stage, phase, round)
		if err != nil {
			for _, p := range made {
				p.Release()
			}
			return err
		}
		made = append(made, p)
	}
	s.pieces[phase] = made
	return nil
}

// piece records piece round of a stage's update.
func (u *updater) piece(ctx context.Context, stage int, phase optim.Phase, round int) (*gpu.Program, error) {
	s, last := u.stages[stage], u.rounds(phase)-1
	rec := s.Params.Device().Record("gputrain." + u.config.Label)
	if cost := u.tx.Cost(); cost.TrafficBytes > 0 {
		rec.Intensity(cost.FLOPs / cost.TrafficBytes)
	}
	if round == 0 {
		s.copyGiven(rec)
	}
	if last == 0 {
		if given := u.config.Losses; given.Buffer != nil {
			rec.Copy(s.State.Losses(), given)
		}
		if err := u.tx.Record(rec, phase, s.Grads, s.State, s.Params); err != nil {
			return nil, err
		}
	} else if err := u.tx.RecordRound(rec, phase, round, s.Grads, s.State, s.Params); err != nil {
		return nil, err
	}
	if round < last && len(s.measured) > 0 {
		rec.ReadBack(s.norms[round], s.State.Measured(round))
	}
	if round == 0 && u.losses != nil && stage == u.config.LossStage {
		rec.ReadBack(u.losses, u.config.Losses)
	}
	if round == last && u.config.End != nil {
		u.config.End(rec, stage)
	}
	return rec.Program(ctx)
}

// prepareExchange makes the ways by which the norms and the losses of an update come to the host.
func (u *updater) prepareExchange(stage int, phase optim.Phase) (err error) {
	s, label, norms := u.stages[stage], "gputrain."+u.config.Label, u.rounds(phase)-1
	if norms == 0 {
		return nil
	}
	dev := s.Params.Device()
	if losses := u.config.Losses; losses.Buffer != nil && stage == u.config.LossStage && u.losses == nil {
		if u.losses, err = dev.NewReadback(label+".losses", losses.Bytes, 1); err != nil {
			return err
		}
		u.lossText = make([]byte, losses.Bytes)
	}
	u.combined = slices.Grow(u.combined[:0], int(s.State.Combined(0).Bytes))[:s.State.Combined(0).Bytes]
	s.measured = slices.Grow(s.measured[:0], int(s.State.Measured(0).Bytes))[:s.State.Measured(0).Bytes]
	for len(s.measured) > 0 && len(s.norms) < norms {
		ring, err := dev.NewReadback(label+".norm", s.State.Measured(0).Bytes, 1)
		if err != nil {
			return err
		}
		s.norms = append(s.norms, ring)
	}
	return nil
}

// Prepare begins an update on all stages, or on none; lr takes the place of the optimizer's own schedule, unless it is nil. An error names the
// stage.
func (u *updater) Prepare(ctx context.Context, lr optim.Schedule) error {
	u.before = u.stages[0].State.Counts()
	if u.before["updates"] == 0 {
		for i, s := range u.stages {
			if err := s.State.CheckStart(ctx, s.Params); err != nil {
				return u.at(i, err)
			}
		}
	}
	if err := u.complete(ctx); err != nil {
		return err
	}
	for i, s := range u.stages {
		phase, err := s.State.PrepareAt(lr)
		if err == nil {
			s.phase = phase // it may reuse what an update before has made
			err = u.makePieces(ctx, i, phase)
		}
		if err != nil {
			return errors.Join(u.at(i, err), u.undo())
		}
	}
	return nil
}

// complete finds what is wrong with the stages before anything has changed.
func (u *updater) complete(ctx context.Context) error {
	phase := u.stages[0].State.Phase()
	for i, s := range u.stages {
		if err := u.makePieces(ctx, i, s.State.Phase()); err != nil {
			return u.at(i, err)
		}
	}
	if u.rounds(phase) == 1 || u.config.Exchange != nil {
		return nil // the others would have to be asked
	}
	return u.gather(ctx)
}

// undo takes the counts back to those before Prepare.
func (u *updater) undo() (err error) {
	for _, s := range u.stages {
		err = errors.Join(err, s.State.SetCounts(u.before))
	}
	return err
}

// makeMove makes the program of a stage that moves parameters before their gradients, where a transformation has such a move.
func (u *updater) makeMove(ctx context.Context, s *updating) (err error) {
	if s.move != nil || !u.tx.LooksAhead() {
		return nil
	}
	rec := s.Params.Device().Record("gputrain." + u.config.Label + ".move")
	if err = u.tx.RecordMove(rec, s.State, s.Params); err == nil {
		s.move, err = rec.Program(ctx)
	}
	return err
}

// Move moves the parameters to where the gradients of the update that Prepare began are to be taken, and tells whether it did: then what others have of them
// is no longer as it was.
func (u *updater) Move(ctx context.Context, each Each) (moved bool, err error) {
	if !u.stages[0].State.Moving() {
		return false, nil
	}
	return true, each(func(ctx context.Context, i int) error {
		s := u.stages[i]
		return s.Params.Device().Submit(ctx, s.move)
	})
}

// Program is the update that Prepare began, for a submit that does more. The model must be on one stage.
func (u *updater) Program() *gpu.Program {
	s := u.stages[0]
	return s.pieces[s.phase][0]
}

// Apply makes the update that Prepare began. The devices may still be at it when it returns. Where a submit of a model on one stage fails, no count
// has changed.
func (u *updater) Apply(ctx context.Context, each Each) error {
	rounds := u.rounds(u.stages[0].phase)
	for round := range rounds {
		err := each(func(ctx context.Context, i int) error { return u.submit(ctx, i, round, round == rounds-1) })
		if err != nil && rounds == 1 {
			return errors.Join(err, u.undo())
		}
		if err != nil || round == rounds-1 {
			return err
		}
		if err := u.gather(ctx); err != nil {
			return err
		}
		if err := each(func(_ context.Context, i int) error { return u.hand(i, round) }); err != nil {
			return err
		}
	}
	return nil
}

// submit submits a piece of a stage, and waits for what it measures.
func (u *updater) submit(ctx context.Context, stage, round int, last bool) error {
	s := u.stages[stage]
	if err := s.Params.Device().Submit(ctx, s.pieces[s.phase][round]); err != nil || last {
		return err
	}
	if len(s.measured) > 0 { // nothing where nothing is trained
		if _, err := s.norms[round].NextInto(ctx, s.measured); err != nil {
			return err
		}
	}
	if round == 0 && u.losses != nil && stage == u.config.LossStage {
		if _, err := u.losses.NextInto(ctx, u.lossText); err != nil {
			return err
		}
	}
	return nil
}

// gather puts together what all stages, of all replicas, have measured.
func (u *updater) gather(ctx context.Context) error {
	places, measured := u.config.Places, [][]byte{}
	for _, s := range u.stages {
		if !s.Params.Device().Dry() { // else it is on another rank
			measured = append(measured, s.measured)
		}
	}
	if u.config.Exchange == nil {
		places = nil
		for _, s := range u.stages {
			places = append(places, s.Params.Layout())
		}
	} else {
		var err error
		if measured, err = u.config.Exchange(ctx, slices.Concat(measured...)); err != nil {
			return fmt.Errorf("norms: %w", err)
		}
	}
	return u.stages[0].State.GatherNorms(u.combined, places, slices.Concat(measured...))
}

// hand gives a stage the norm of the whole model and, with the first, the losses.
func (u *updater) hand(stage, round int) error {
	s := u.stages[stage]
	dev := s.Params.Device()
	if err := dev.Write(s.State.Combined(round), u.combined); err != nil {
		return err
	}
	if round > 0 || u.losses == nil {
		return nil
	}
	return dev.Write(s.State.Losses(), u.lossText)
}

// Concurrently runs the stages on goroutines of their own, which nothing watches over.
func (u *updater) Concurrently(ctx context.Context) Each {
	return func(do func(ctx context.Context, stage int) error) error {
		if len(u.stages) == 1 {
			return do(ctx, 0)
		}
		errs := make([]error, len(u.stages))
		var all sync.WaitGroup
		for i := range u.stages {
			all.Go(func() { errs[i] = caught.Do(func() error { return do(ctx, i) }) })
		}
		all.Wait()
		for i, err := range errs {
			if err != nil {
				return u.at(i, err)
			}
		}
		return nil
	}
}

// Bytes is what the updater takes of a stage's device.
func (u *updater) Bytes(stage int) uint64 {
	s := u.stages[stage]
	n := uint64(len(s.norms) * len(s.measured))
	if s.move != nil {
		n += s.move.UniformBytes()
	}
	if stage == u.config.LossStage {
		n += uint64(len(u.lossText))
	}
	for _, pieces := range s.pieces {
		for _, p := range pieces {
			n += p.UniformBytes()
		}
	}
	return n
}

// Release gives back what the updater has made.
func (u *updater) Release() {
	if u == nil {
		return
	}
	for _, s := range u.stages {
		for _, pieces := range s.pieces {
			for _, p := range pieces {
				p.Release()
			}
		}
		s.move.Release()
		for _, r := range s.norms {
			r.Release()
		}
		if s.completed {
			s.Grads.Release()
		}
	}
	u.losses.Release()
}
