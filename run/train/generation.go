package train

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"gputrain/buffers"
	"gputrain/graph"
	"gputrain/internal/formats"
	"gputrain/internal/ranks/mesh"
	"gputrain/model"
	"gputrain/run/data"
	"gputrain/run/fit"
	"gputrain/run/grpo"
	"gputrain/state"
)

// generationsDir is the directory of generations in a run directory, a file each: an update within one reads it when a run goes on.
const generationsDir = "generations"

// rolloutsFile is the log of completions, a line a prompt.
const rolloutsFile = "rollouts.jsonl"

// generationName is the name of the file of a generation.
func generationName(number uint64) string { return fmt.Sprintf("%08d.json", number) }

// numberOf is the generation of a file; false: it is none's.
func numberOf(name string) (number uint64, is bool) {
	number, err := strconv.ParseUint(strings.TrimSuffix(name, ".json"), 10, 64)
	return number, err == nil && name == generationName(number)
}

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

// openRollouts makes what draws generations, with the one that the run is in the middle of.
func (t *opening) openRollouts(ctx context.Context) (err error) {
	c := t.config
	r := &rollouts{trainer: t.trainer, Config: *c.Rollouts, share: c.share(), place: t.run.Data, figures: map[int64]map[string]Number{}, took: map[int64]time.Duration{}, computed: map[int64]float64{}}
	r.prompts = c.Train.(*data.Prompts)
	r.held, _ = c.Validation.(*data.Prompts)
	t.loader, t.rollouts = r, r
	if r.bound, err = c.samplerBound(); err != nil {
		return err
	}
	if r.Open != nil && c.leads() {
		opened, err := r.Open(t.team.own()[0])
		if err != nil {
			return fmt.Errorf("train: %w", err)
		}
		r.Rewards, r.opened = opened, true
	}
	step := t.state.Step()
	if step%int64(r.Updates) == 0 || step >= c.Steps {
		return nil
	}
	number := r.number(step)
	var raw []byte
	if c.leads() {
		var err error
		if raw, err = os.ReadFile(t.dir.join(generationsDir, generationName(number))); err != nil {
			return fmt.Errorf("train: run directory %q: step %d is within generation %d: %w; bring its file back, or remove the checkpoint to go on from the one before it",
				c.Dir, step, number, err)
		}
	}
	if c.Ranks != nil {
		var err error
		if raw, err = mesh.Share(ctx, c.Ranks, "generation", raw); err != nil {
			return err
		}
	}
	g, err := grpo.Parse(raw, c.rowsAnUpdate()*r.Updates)
	if err == nil && (g.Number != number || g.Step != int64(number)*int64(r.Updates)+1 || g.Place != r.place) {
		err = fmt.Errorf("found generation %d of step %d, wanted %d of step %d, which begins at the run's place among the prompts",
			g.Number, g.Step, number, int64(number)*int64(r.Updates)+1)
	}
	if err != nil {
		return fmt.Errorf("train: run directory %q: %s: %w", c.Dir, filepath.Join(generationsDir, generationName(number)), err)
	}
	r.current = g
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

// learned tells whether there is anything to learn from a row.
func (r *rollouts) learned(row grpo.Row) bool {
	return !r.skips() || row.Advantage != 0 && !(row.Truncated && r.masks())
}

func (r *rollouts) skips() bool {
	o := r.config.State.Objective
	return o.Numbers["skip_flat"] != 0 && o.Numbers["beta"] == 0
}

func (r *rollouts) masks() bool {
	return r.config.State.Objective.Numbers["mask_truncated_completions"] != 0
}

// arranged are the rows of an update in their order, and how many nothing is computed of.
func (r *rollouts) arranged(rows []grpo.Row) ([]grpo.Row, int) {
	if !r.skips() {
		return rows, 0
	}
	return grpo.Arrange(rows, r.config.State.Batch, r.learned)
}

// computedShare is the share of the tokens of an update that figures are sums over.
func (r *rollouts) computedShare(rows []grpo.Row) float64 {
	all, some := 0, 0
	for _, row := range rows {
		if row.Truncated && r.masks() {
			continue
		}
		if all += len(row.Tokens); r.learned(row) {
			some += len(row.Tokens)
		}
	}
	return float64(some) / float64(max(1, all))
}

// overComputed makes means over all tokens of an update those over the rows with anything to learn from; without any there are none.
func (r *rollouts) overComputed(step int64, figures map[string]Number) {
	share := r.computed[step]
	delete(r.computed, step)
	for name, by := range map[string]float64{"entropy": share, "old_difference": share, "old_difference_rms": math.Sqrt(share)} {
		if figures[name] /= Number(by); share == 0 {
			delete(figures, name)
		}
	}
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

// tellRows are the rows of all replicas, in their order, where err keeps none of the ranks.
func tellRows(ctx context.Context, m *team, own []grpo.Row, err error) (rows []grpo.Row, _ error) {
	type told struct { // Prompt is in no file
		Row    grpo.Row `json:"row"`
		Prompt int      `json:"prompt"`
	}
	var tell []told
	if in, _ := m.group.InRow(); in == 0 { // the replica's first rank gives them
		for _, r := range own {
			tell = append(tell, told{r, r.Prompt})
		}
	}
	all, err := tellAll(ctx, m, tell, err)
	for _, t := range slices.Concat(all...) {
		t.Row.Prompt = t.Prompt
		rows = append(rows, t.Row)
	}
	return rows, err
}

// tellAll gives what each rank has to all of them, or ends them together: err is why this one is to end.
func tellAll[T any](ctx context.Context, m *team, own T, err error) ([]T, error) {
	if m.group == nil {
		return []T{own}, err
	}
	if m.note(err) != nil && m.apart {
		return nil, err
	}
	raw, failed := json.Marshal(own)
	err = errors.Join(err, failed)
	if wanted := stopOf(ctx, err); wanted != nil {
		err = wanted
	}
	all, err := m.group.Agree(ctx, err, endWeight(ctx, err), raw)
	if err != nil {
		return nil, likewise(err)
	}
	out := make([]T, len(all))
	for rank, one := range all {
		if err := json.Unmarshal(one, &out[rank]); err != nil {
			return nil, fmt.Errorf("train: rollouts: rank %d: %w", rank, err)
		}
	}
	return out, nil
}

// write writes the file of a generation, and removes those of generations that no checkpoint is within.
func (r *rollouts) write(g *grpo.Generation) error {
	if !r.config.leads() {
		return nil
	}
	raw, err := g.Bytes()
	if err != nil {
		return soundError{err}
	}
	if err := r.dir.check(); err != nil {
		return err
	}
	dir := r.dir.join(generationsDir)
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return fmt.Errorf("train: write: %w", err)
	}
	if err := r.dir.replace(filepath.Join(generationsDir, generationName(g.Number)), raw); err != nil {
		return err
	}
	needed := g.Number
	steps, err := r.store.Steps()
	if err != nil {
		return err
	}
	for _, step := range append(steps, r.saves.unfinished()...) {
		needed = min(needed, r.number(step))
	}
	found, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("train: %s: %w", generationsDir, err)
	}
	for _, e := range found {
		if number, is := numberOf(e.Name()); is && number < needed {
			if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
				return fmt.Errorf("train: %s: %w", generationsDir, err)
			}
		}
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

// Log-probabilities of the tokens that were drawn differ from those of training by what kernels round: about these at most, in f32 and with operands of 16
// bits and less.
const (
	samplerBound        = 1e-3
	roundedSamplerBound = 0.1
)

// samplerBound is by how much the sampler may differ from training; 0 for a network with dropout, whose training is another.
func (c Config) samplerBound() (float64, error) {
	job, err := state.NewJob(c.State)
	if err != nil {
		return 0, err
	}
	if c.Rollouts.Updates == 1 { // else the sampler is compared with a pass that drops nothing
		built, err := job.Build()
		if err != nil {
			return 0, err
		}
		for _, n := range built.Graph.Nodes() {
			if in, is := n.Op.(graph.Input); is && in.Name == model.InputDropoutKey {
				return 0, nil
			}
		}
	}
	if job.RoundProducts || job.Storage != buffers.F32 || job.FrozenDType != buffers.F32 {
		return roundedSamplerBound, nil
	}
	return samplerBound, nil
}

// compare warns once of a difference between the sampler and training that is not rounding.
func (r *rollouts) compare(step int64, off Number) {
	if r.bound == 0 || !(float64(off) > r.bound) {
		return
	}
	r.display.say("warning: step %d: log-probabilities of tokens as they were drawn and those of training differ by %.3g, wanted at most %g: "+
		"what is learned is not what was drawn, which is a mistake in the program", step, float64(off), r.bound)
	r.bound = 0
}

// rewardsText is the reward in figures of a generation, and what it came with.
func rewardsText(figures map[string]Number) string {
	text := fmt.Sprintf("%.4f", float64(figures["reward"]))
	if _, there := figures["reward"]; !there {
		text = "none"
	}
	return fmt.Sprintf("%s, %.0f tokens a completion, %s of them cut", text, float64(figures["mean_length"]), percent(float64(figures["truncated_share"])))
}
