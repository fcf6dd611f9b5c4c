//go:build window

package window

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/hub"
	"gputrain/state/checkpoint"
)

// Watch shows the run of a run directory, whatever process it belongs to, until ctx ends: what its files say, and histograms of its
// newest checkpoint, counted on a device of this process.
func (v *View) Watch(ctx context.Context, dev *gpu.Device, dir string) error {
	if err := v.show(ctx, dev); err != nil {
		return err
	}
	files := newFiles(dir, v.board)
	weights := &checkpointWeights{view: v, device: dev, store: checkpoint.Store{FS: checkpoint.OS, Dir: filepath.Join(dir, "checkpoints")}}
	defer weights.release()
	v.board.status("watching " + dir)
	for {
		if err := files.read(); err != nil {
			return err
		}
		if err := weights.read(ctx); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// checkpointWeights counts the weights of the newest checkpoint.
type checkpointWeights struct {
	view   *View
	device *gpu.Device
	store  checkpoint.Store
	step   int64 // of the checkpoint that is shown; 0: none
	tree   *buffers.Tree
	tally  *tally
}

// read counts a checkpoint that is newer than the one shown.
func (w *checkpointWeights) read(ctx context.Context) error {
	steps, err := w.store.Steps()
	if err != nil || len(steps) == 0 || steps[0] == w.step {
		return err
	}
	found, release, err := w.store.Hold()
	if errors.Is(err, checkpoint.ErrInUse) || err == nil && found.Path == "" {
		return nil // it is coming or going: another look will tell
	}
	if err != nil {
		return err
	}
	_, hosts, err := hub.ReadHF(found.Path)
	if err = errors.Join(err, release()); err != nil {
		return fmt.Errorf("window: %w", err)
	}
	w.step = steps[0]
	if w.tree == nil || w.tree.WriteAll(hosts) != nil { // another model than before
		if err := w.prepare(ctx, hosts); err != nil {
			return err
		}
	}
	if err := w.tally.count(ctx); err != nil {
		return err
	}
	counts, err := w.tally.take(ctx)
	if err != nil {
		return err
	}
	w.view.board.counted(counts, "checkpoint of step "+grouped(found.Step))
	return nil
}

func (w *checkpointWeights) prepare(ctx context.Context, hosts []buffers.Host) (err error) {
	w.release()
	if w.tree, err = buffers.Upload(w.device, "params", hosts, buffers.F32); err != nil {
		return fmt.Errorf("window: %w", err)
	}
	if w.tally, err = newTally(ctx, w.tree, maxPanels); err != nil {
		return err
	}
	return w.view.weights([]*tally{w.tally})
}

// release gives back the weights. The counts stay: the window may still draw them.
func (w *checkpointWeights) release() {
	if w.tree != nil {
		w.tree.Release()
		w.tree = nil
	}
}
