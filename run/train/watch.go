package train

import (
	"context"
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

// watching calls the watchers of a run, and keeps their figures for the metrics of the step.
type watching struct {
	watchers []Watcher
	steps    int64 // of the run
	times    *times
	found    map[int64]map[string]Number // figures of steps whose metrics have not been taken
}

// look calls the watchers that the step just submitted is for.
func (w *watching) look(ctx context.Context, s State) error {
	step := s.Step()
	for _, of := range w.watchers {
		if step%of.every() != 0 && step != w.steps {
			continue
		}
		if err := w.call(context.WithoutCancel(ctx), of, s); err != nil {
			return err
		}
	}
	return nil
}

// figures are those of a step, which are handed out once.
func (w *watching) figures(step int64) map[string]Number {
	found := w.found[step]
	delete(w.found, step)
	return found
}

func (w *watching) call(ctx context.Context, of Watcher, s State) error {
	defer w.times.span(spanHistograms)()
	m, err := newMatcher([]string{of.Match})
	if err != nil {
		return err
	}
	sources, err := treesOf(s)
	if err != nil {
		return soundError{err}
	}
	found := w.found[s.Step()]
	if found == nil {
		found = map[string]Number{}
	}
	for _, src := range sources {
		for _, leaf := range src.Tree.Layout().Leaves() {
			name := src.Name + "/" + leaf.Path
			if !m.matches(name) {
				continue
			}
			data, err := src.Tree.Read(ctx, leaf.Path)
			if err != nil {
				return fmt.Errorf("train: watcher %q: %s: %w", of.Name, name, err)
			}
			figures, err := of.Watch(buffers.Host{Path: name, Shape: leaf.Shape, Data: data})
			if err != nil {
				return soundError{fmt.Errorf("train: watcher %q: %s: %w", of.Name, name, err)}
			}
			for key, value := range figures {
				found[of.Name+"/"+name+"/"+key] = Number(value)
			}
		}
	}
	if len(found) > 0 {
		if w.found == nil {
			w.found = map[int64]map[string]Number{}
		}
		w.found[s.Step()] = found
	}
	return nil
}
