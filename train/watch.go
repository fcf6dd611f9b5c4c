package train

import (
	"context"
	"errors"
	"fmt"

	"gputrain/buffers"
	"gputrain/state"
)

// Watcher computes figures of one's own from parameters and gradients, on a copy on the host. They stand in the metrics of the step:
// "NAME/params/PATH/KEY" in Metrics.Watched. What it computes has to be a function of the tensor if a stopped run is to go on to the same
// lines. Reading tensors waits for the steps in flight; histograms do not.
type Watcher struct {
	Name  string
	Match string // regular expression on the names of tensors, params/PATH and grads/PATH; "" matches all
	Every int64  // updates between calls; default 500. The last step has one in any case
	// Watch gets a tensor under its name, of the step just made. An error ends the run as one of a hook does.
	Watch func(tensor buffers.Host) (map[string]float64, error)
}

// watchEvery is Watcher.Every where it is left out.
const watchEvery = 500

func (w Watcher) every() int64 {
	if w.Every == 0 {
		return watchEvery
	}
	return w.Every
}

// validateWatchers refuses what cannot be meant.
func validateWatchers(watchers []Watcher, c state.Config) error {
	names := map[string]bool{}
	for i, w := range watchers {
		switch {
		case w.Name == "":
			return fmt.Errorf("watcher %d: found no name, wanted one", i)
		case names[w.Name]:
			return fmt.Errorf("watcher %q: found the name twice, wanted it once", w.Name)
		case w.Watch == nil:
			return fmt.Errorf("watcher %q: found no function, wanted one", w.Name)
		case w.Every < 0:
			return fmt.Errorf("watcher %q: every %d updates, wanted at least 1", w.Name, w.Every)
		}
		names[w.Name] = true
		if err := CheckNames([]string{w.Match}, c); err != nil {
			return fmt.Errorf("watcher %q: %w", w.Name, err)
		}
	}
	return nil
}

// watch calls the watchers that the step just submitted is for.
func (t *trainer) watch(ctx context.Context) error {
	step := t.state.Step()
	for _, w := range t.config.Watchers {
		if step%w.every() != 0 && step != t.config.Steps {
			continue
		}
		if err := t.watchWith(context.WithoutCancel(ctx), w); err != nil {
			return err
		}
	}
	return nil
}

func (t *trainer) watchWith(ctx context.Context, w Watcher) error {
	defer t.times.span(spanHistograms)()
	m, err := newMatcher([]string{w.Match})
	if err != nil {
		return err
	}
	sources, err := treesOf(t.state)
	if err != nil {
		return soundError{err}
	}
	found := t.watched[t.state.Step()]
	if found == nil {
		found = map[string]Number{}
	}
	for _, s := range sources {
		for _, leaf := range s.Tree.Layout().Leaves() {
			name := s.Name + "/" + leaf.Path
			if !m.matches(name) {
				continue
			}
			data, err := s.Tree.Read(ctx, leaf.Path)
			if err != nil {
				return fmt.Errorf("train: watcher %q: %s: %w", w.Name, name, err)
			}
			figures, err := w.Watch(buffers.Host{Path: name, Shape: leaf.Shape, Data: data})
			if err != nil {
				return soundError{fmt.Errorf("train: watcher %q: %s: %w", w.Name, name, err)}
			}
			for key, value := range figures {
				found[w.Name+"/"+name+"/"+key] = Number(value)
			}
		}
	}
	if len(found) > 0 {
		t.watched[t.state.Step()] = found
	}
	return nil
}

// look makes histograms and calls watchers where the step just submitted is to have any.
func (t *trainer) look(ctx context.Context) error {
	return errors.Join(t.takeCounts(ctx), t.count(ctx), t.watch(ctx))
}
