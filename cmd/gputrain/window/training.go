//go:build window

package window

import (
	"context"
	"fmt"
	"slices"
	"time"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/run/train"
)

// Training is a train.Hook that shows a run of this process on a View: figures as they come, and histograms that are counted on the devices
// of the parameters between steps.
type Training struct {
	view    *View
	dir     string
	trees   []*buffers.Tree
	tallies []*tally
	every   time.Duration // at most a count in this time
	counted time.Time
	step    int64 // of the newest count
	behind  int   // steps since
}

// NewTraining shows the run of a run directory.
func NewTraining(view *View, dir string) *Training { return &Training{view: view, dir: dir} }

// Event shows what happened.
func (t *Training) Event(ctx context.Context, e train.Event) error {
	if t.view.closed.Load() {
		return nil
	}
	board := t.view.board
	switch e.Kind {
	case train.Started:
		return t.begin(ctx, e)
	case train.Stepped:
		board.add(*e.Metrics)
		return t.count(ctx, e)
	case train.Evaluated:
		board.evaluated(*e.Eval)
	case train.Sampled:
		board.sampled(*e.Sample)
	}
	return nil
}

// begin shows what earlier processes of the run have done, and prepares the histograms.
func (t *Training) begin(ctx context.Context, e train.Event) error {
	if err := newFiles(t.dir, t.view.board).read(); err != nil {
		return err
	}
	t.view.board.status("training")
	t.every = 250 * time.Millisecond
	var devices []*gpu.Device
	for _, tree := range parameters(e.State) {
		devices = append(devices, tree.Device())
	}
	if err := t.view.show(ctx, devices...); err != nil {
		return err
	}
	return t.prepare(ctx, e)
}

// prepare makes the histograms of a state's parameters, and counts for the first time.
func (t *Training) prepare(ctx context.Context, e train.Event) error {
	t.trees, t.tallies = parameters(e.State), nil
	most := max(1, maxPanels/max(1, len(t.trees)))
	for stage, tree := range t.trees {
		if tree.Layout().Elements() == 0 { // nothing is trained there
			continue
		}
		tally, err := newTally(ctx, tree, most)
		if err != nil {
			return err
		}
		if len(t.trees) > 1 {
			for i := range tally.groups {
				tally.groups[i].label = fmt.Sprintf("%d: %s", stage, tally.groups[i].label)
			}
		}
		t.tallies = append(t.tallies, tally)
	}
	if err := t.view.weights(t.tallies); err != nil {
		return err
	}
	return t.submit(ctx, e.Step)
}

// parameters are the trees of a state's parameters, stage by stage.
func parameters(s train.State) []*buffers.Tree {
	lying, ok := s.(interface {
		Trees() (params, grads []*buffers.Tree)
	})
	if !ok {
		return nil // of another kind: no histograms
	}
	params, _ := lying.Trees()
	return params
}

// lateness is after how many steps counts are taken: those that were under way when they were submitted are done by then.
const lateness = 3

// count takes counts that are done, and submits the next.
func (t *Training) count(ctx context.Context, e train.Event) error {
	if !slices.Equal(t.trees, parameters(e.State)) { // another hook has replaced the state
		return t.prepare(ctx, e)
	}
	if t.behind++; t.behind < lateness || time.Since(t.counted) < t.every {
		return nil
	}
	var all []histogram
	for _, tally := range t.tallies {
		found, err := tally.take(ctx)
		if err != nil {
			return err
		}
		all = append(all, found...)
	}
	t.view.board.counted(all, "after step "+grouped(t.step))
	return t.submit(ctx, e.Step)
}

func (t *Training) submit(ctx context.Context, step int64) error {
	for _, tally := range t.tallies {
		if err := tally.count(ctx); err != nil {
			return err
		}
	}
	t.counted, t.step, t.behind = time.Now(), step, 0
	return nil
}
