package train

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"gputrain/internal/formats"
	"gputrain/run/data"
	"gputrain/run/fit"
	"gputrain/run/grpo"
	"gputrain/state"
)

// rolloutsFile is the log of completions, a line a prompt.
const rolloutsFile = "rollouts.jsonl"

// rollouts hand out the batches of a run whose rows the model itself draws. Which generation an update is of, and which part of it, follows from its step.
type rollouts struct {
	*trainer
	grpo.Config
	prompts, held *data.Prompts
	share         *data.Share // of each update that this rank takes; nil: all
	current       *grpo.Generation
	place         data.State                  // of the first prompt of the next generation
	figures       map[int64]map[string]Number // of generations, by the step of their first updates, until that is told
	took          map[int64]time.Duration     // what it took to make them
	computed      map[int64]float64           // of updates that are under way, by step: see computedShare
	opened        bool                        // rewards, here
	timeouts      int64                       // of rewards, as of the last generation
	bound         float64                     // of the sampler's difference, beyond which a line warns once; 0: none does
}

// learnsRollouts tells whether a run draws what it learns from.
func (c Config) learnsRollouts() bool { return c.Rollouts != nil }

// rowsAnUpdate are the rows of an update, of all ranks.
func (c Config) rowsAnUpdate() int { return c.State.Batch * c.State.Microbatches }

// rowsAtOnce are the completions that a device has under way at once.
func (c Config) rowsAtOnce() int {
	return min(c.Rollouts.Drawing.Rows, max(1, c.rowsAnUpdate()*c.Rollouts.Updates))
}

// validateRollouts refuses what no generation can be made of.
func (c Config) validateRollouts() error {
	prompts, are := c.Train.(*data.Prompts)
	held, heldAre := c.Validation.(*data.Prompts)
	o := c.State.Objective
	drawn := o.Row().Form == formats.Prompts
	switch {
	case !c.learnsRollouts() && drawn && c.Batches == nil:
		return fmt.Errorf("train: config: %s: found no rollouts, wanted some: it learns from completions that the model draws", o.Loss)
	case !c.learnsRollouts():
		return nil
	case !drawn:
		return fmt.Errorf("train: config: rollouts: found the loss %q, wanted one of completions that the model draws", o.Loss)
	case c.Batches != nil:
		return errors.New("train: config: rollouts: found batches of the caller's, wanted none")
	case !are || c.Validation != nil && !heldAre:
		return errors.New("train: config: rollouts: found a text, wanted prompts")
	case o.ReadsOld() != (c.Rollouts.Updates > 1):
		return fmt.Errorf("train: config: rollouts: found %d updates a generation and on_policy %v, wanted 1 for one update", c.Rollouts.Updates, o.Numbers["on_policy"])
	case o.WantsReference(c.State.Definition):
		return errors.New("train: config: rollout.beta: found a model that is trained whole and no reference in it, wanted one of model.WithReference, or 0")
	}
	if err := c.Rollouts.Check(c.rowsAnUpdate(), c.State.Sequence); err != nil {
		return fmt.Errorf("train: config: %w", err)
	}
	for _, p := range []*data.Prompts{prompts, held} {
		if p == nil {
			continue
		}
		if err := grpo.CheckPrompts(p, c.State.Sequence); err != nil {
			return fmt.Errorf("train: config: %w", err)
		}
	}
	return nil
}

// number is the generation of the update that follows step.
func (r *rollouts) number(step int64) uint64 { return uint64(step / int64(r.Updates)) }

// due tells whether a generation is to be made before the next update.
func (r *rollouts) due() bool {
	step := r.state.Step()
	return step < r.config.Steps && step%int64(r.Updates) == 0 && (r.current == nil || r.current.Step != step+1)
}

// Next is the batch of the next update.
func (r *rollouts) Next(context.Context) (data.Batch, error) {
	step, rows := r.state.Step(), r.config.rowsAnUpdate()
	part := int(step % int64(r.Updates))
	if r.current == nil || r.current.Number != r.number(step) {
		return data.Batch{}, fmt.Errorf("train: rollouts: step %d: found no generation %d, wanted one", step, r.number(step))
	}
	own, _ := r.arranged(r.current.Rows()[part*rows : (part+1)*rows])
	b := grpo.Lay(r.current.Prompts(), own, r.config.State.Sequence)
	r.computed[step+1] = r.computedShare(own)
	if b.State = r.current.Place; part == r.Updates-1 {
		b.State = r.current.Next
	}
	b.Epochs = r.prompts.Epochs(b.State)
	if r.share != nil {
		b = b.Part(*r.share)
	}
	return b, nil
}

// Close ends what rewards have started.
func (r *rollouts) Close() {
	if r.opened {
		_ = r.Rewards.Close() // all that they said is taken
	}
}

// drawn are the rows of a replica, as ranks tell them.
func (r *rollouts) drawn(ctx context.Context, generation uint64, prompts []data.Prompt, samples int, old bool) ([]grpo.Row, error) {
	replica, replicas := r.team.replica()
	first := replica * len(prompts) / replicas
	own := prompts[first : (replica+1)*len(prompts)/replicas]
	ctx = r.team.uncancelled(ctx)
	done, all := 0, len(own)*samples
	show := func() { r.display.Busy(spanRollouts, done, all) }
	show()
	rows, err := r.Draw(ctx, r.state, r.config.State.Seed, generation, own, first, samples, func() { done++; show() })
	if err == nil && old && len(rows) > 0 {
		window := r.config.State.Sequence
		var logps []float32
		if logps, err = r.state.LogProbs(ctx, grpo.Lay(prompts, rows, window)); err == nil {
			grpo.TakeOld(prompts, rows, window, logps)
		}
	}
	if err == nil {
		err = sound(grpo.Finite(rows))
	}
	return tellRows(ctx, r.team, rows, err)
}

// generate makes the generation of the next update, writes it, and tells of it. Steps in flight are done.
func (t *trainer) generate(ctx context.Context) error {
	defer t.times.span(spanRollouts)()
	r, begin, step := t.rollouts, time.Now(), t.state.Step()
	defer r.team.patient()()
	number := r.number(step)
	prompts, next := r.prompts.Next(r.place, r.Prompts(t.config.rowsAnUpdate()), t.config.State.Seed)
	rows, err := r.drawn(ctx, number, prompts, r.Samples, r.Updates > 1)
	if err != nil {
		return err
	}
	if err := r.reward(ctx, prompts, rows); err != nil {
		return err
	}
	a, err := r.Advantages(rows)
	if err != nil {
		return soundError{err}
	}
	g := grpo.Of(r.Config, prompts, rows)
	g.Number, g.Step, g.Place, g.Next = number, step+1, r.place, next
	if err := r.write(g); err != nil {
		return err
	}
	r.current, r.place = g, next
	figures := numbersOf(r.Figures(rows, a, r.masks()))
	if r.skips() {
		skipped := 0
		for update := range slices.Chunk(rows, t.config.rowsAnUpdate()) {
			_, idle := r.arranged(update)
			skipped += idle
		}
		figures["skipped_share"] = Number(skipped) / Number(len(rows))
	}
	if n := r.Rewards.Timeouts(); n > r.timeouts {
		figures["reward_timeouts"], r.timeouts = Number(n-r.timeouts), n
	}
	if r.Updates > 1 {
		r.compare(g.Step, figures["sampler_difference"])
	}
	r.figures[g.Step], r.took[g.Step] = figures, time.Since(begin)
	return t.tell(ctx, Event{Kind: Generated, Rollouts: r.Lines(g), seen: seen{rollout: figures, took: time.Since(begin)}})
}

// reward asks for the rewards of all rows on rank 0.
func (r *rollouts) reward(ctx context.Context, prompts []data.Prompt, rows []grpo.Row) (err error) {
	r.display.Busy(spanRewards, 0, 0)
	if r.config.leads() {
		if err = r.Reward(ctx, prompts, rows); err != nil && stopOf(ctx, err) == nil {
			err = soundError{err}
		}
	}
	var own [][]*float64
	for _, row := range rows {
		own = append(own, row.Rewards)
	}
	all, err := tellAll(ctx, r.team, own, err)
	if err != nil {
		return err
	}
	for i := range rows {
		rows[i].Rewards = all[0][i]
	}
	return nil
}

// evaluateRewards draws completions of held-out prompts, and tells what they are worth.
func (t *trainer) evaluateRewards(ctx context.Context) (of state.EvalResult, figures map[string]Number, err error) {
	r := t.rollouts
	defer r.team.patient()()
	drawing, prompts := *r, r.held.Spread(t.config.heldPrompts(r.held))
	drawing.Config = r.Evaluating()
	rows, err := drawing.drawn(ctx, grpo.Evaluations|uint64(t.state.Step()), prompts, drawing.Samples, false)
	if err != nil {
		return of, nil, err
	}
	if err := drawing.reward(ctx, prompts, rows); err != nil {
		return of, nil, err
	}
	worth, said, err := drawing.Worth(rows)
	if err != nil {
		return of, nil, soundError{err}
	}
	delete(said, "tokens") // of losses
	of.Loss, of.Tokens = 0-worth, int64(len(rows))
	return of, numbersOf(said), nil
}

// heldPrompts are the prompts of an evaluation of rewards.
func (c Config) heldPrompts(held *data.Prompts) int {
	if n := fit.EvaluationWindows(c.State, c.EvalTokens); n > 0 {
		return min(n, held.Len())
	}
	return held.Len()
}

// sound is an error that has nothing to do with the state, or nil.
func sound(err error) error {
	if err == nil {
		return nil
	}
	return soundError{err}
}

func numbersOf(figures map[string]float64) map[string]Number {
	all := map[string]Number{}
	for name, v := range figures {
		all[name] = Number(v)
	}
	return all
}

// rewardsText is the reward in figures of a generation, and what it came with.
func rewardsText(figures map[string]Number) string {
	text := fmt.Sprintf("%.4f", float64(figures["reward"]))
	if _, there := figures["reward"]; !there {
		text = "none"
	}
	return fmt.Sprintf("%s, %.0f tokens a completion, %s of them cut", text, float64(figures["mean_length"]), percent(float64(figures["truncated_share"])))
}
