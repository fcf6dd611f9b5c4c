package train

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"gputrain/internal/ranks/mesh"
	"gputrain/run/data"
	"gputrain/run/grpo"
)

// generationsDir is the directory of generations in a run directory, a file each: an update within one reads it when a run goes on.
const generationsDir = "generations"

// generationName is the name of the file of a generation.
func generationName(number uint64) string { return fmt.Sprintf("%08d.json", number) }

// numberOf is the generation of a file; false: it is none's.
func numberOf(name string) (number uint64, is bool) {
	number, err := strconv.ParseUint(strings.TrimSuffix(name, ".json"), 10, 64)
	return number, err == nil && name == generationName(number)
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
