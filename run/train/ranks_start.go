package train

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"time"

	"gputrain/internal/ranks/mesh"
	"gputrain/internal/ranks/transport"
	"gputrain/state/checkpoint"
)

// restart is where rank 0 goes on from.
type restart struct {
	Checkpoint  string `json:"checkpoint"` // name of its directory; "": the run begins
	Fingerprint string `json:"fingerprint"`
	Reschedule  bool   `json:"reschedule"`
	BaseAt      string `json:"base_at"` // of state.Config
}

// loadAsTold makes the state that rank 0 makes.
func (t *opening) loadAsTold(ctx context.Context) error {
	from, err := mesh.Share(ctx, t.config.Ranks, "checkpoint to go on from", restart{})
	if err != nil {
		return err
	}
	c := t.config
	if from.Checkpoint == "" {
		return t.begin(ctx)
	}
	path := filepath.Join(c.Dir, checkpointsDir, from.Checkpoint)
	found, err := checkpoint.Fingerprint(c.State.FS, path)
	if err != nil {
		return err
	}
	if found != from.Fingerprint {
		g := c.Ranks
		return &DirError{c.Dir, fmt.Errorf("%s: %s: found another checkpoint than %s: wanted a directory that all hosts share",
			transport.Name(g.Rank(), g.Host(g.Rank())), from.Checkpoint, transport.Name(0, g.Host(0)))}
	}
	t.config.State.Reschedule, t.config.State.BaseAt = from.Reschedule, from.BaseAt
	if err := t.openReference(ctx, false); err != nil {
		return err
	}
	loaded, record, err := t.team.target.Load(ctx, t.config.State, path)
	if err != nil {
		return err
	}
	t.state = loaded
	t.resume(record, path)
	return nil
}

// tellCheckpoint tells the other ranks where to go on from.
func (t *opening) tellCheckpoint(ctx context.Context, path string) error {
	if t.config.Ranks == nil {
		return nil
	}
	from := restart{Reschedule: t.config.State.Reschedule, BaseAt: t.config.State.BaseAt}
	if path != "" {
		fingerprint, err := checkpoint.Fingerprint(t.config.State.FS, path)
		if err != nil {
			return err
		}
		from.Checkpoint, from.Fingerprint = filepath.Base(path), fingerprint
	}
	_, err := mesh.Share(ctx, t.config.Ranks, "checkpoint to go on from", from)
	return err
}

// logged is what rank 0 has found in the logs, which decides what is due.
type logged struct {
	Evaluated int64  `json:"evaluated"`
	Sampled   int64  `json:"sampled"`
	Since     int64  `json:"since"`
	EvalLoss  Number `json:"eval_loss"`
	Peak      Number `json:"peak"`
}

// makeEqual makes equal on all ranks what only rank 0 has read, or each has measured of its own.
func (t *opening) makeEqual(ctx context.Context) error {
	g := t.config.Ranks
	if g == nil {
		return nil
	}
	all, err := mesh.Tell(ctx, g, "place in the run", logged{t.evaluated, t.sampled, t.since, Number(t.evalLoss), Number(t.meter.peak)})
	if err != nil {
		return err
	}
	t.evaluated, t.sampled, t.asked, t.since, t.evalLoss = all[0].Evaluated, all[0].Sampled, all[0].Sampled, all[0].Since, float64(all[0].EvalLoss)
	peak := 0.0
	for _, l := range all {
		if peak += float64(l.Peak); l.Peak == 0 {
			peak = math.NaN() // one does not know its own
		}
	}
	t.meter.peak = 0
	if peak > 0 {
		t.meter.peak = peak
	}
	return nil
}

// probeTries is how often a rank looks for what rank 0 has written in the run directory, a tenth of a second apart: shared directories take their time.
var probeTries = 50

// probeForm is how the files begin that tell whether the run directory is shared.
const probeForm = ".gputrain.ranks-"

// share makes sure that all ranks see the run directory that rank 0 has taken; taken is nil on the others.
func (m *team) share(ctx context.Context, path string, taken *runDir) error {
	g := m.group
	if g == nil {
		return nil
	}
	name := probeForm + rand.Text()
	var failed error
	if taken != nil {
		failed = taken.probe(name)
	}
	if _, err := g.Agree(ctx, failed, mesh.Fatal, nil); err != nil {
		return err
	}
	name, err := mesh.Share(ctx, g, "probe of the run directory", name)
	if err == nil && taken == nil {
		failed = m.finds(path, name)
	}
	if err == nil {
		_, err = g.Agree(ctx, failed, mesh.Fatal, nil)
	}
	if taken != nil {
		err = errors.Join(err, os.Remove(taken.join(name)))
	}
	return err
}

// probe writes a file for other ranks to find; those that ranks which were killed have left go.
func (d *runDir) probe(name string) error {
	left, err := filepath.Glob(d.join(probeForm + "*"))
	for _, path := range left {
		err = errors.Join(err, os.Remove(path))
	}
	if err == nil {
		err = d.replace(name, nil)
	}
	return err
}

// finds looks for the probe in the directory of path.
func (m *team) finds(path, probe string) error {
	for range probeTries {
		if _, err := os.Stat(filepath.Join(path, probe)); err == nil {
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	whole, err := filepath.Abs(path)
	if err != nil {
		whole = path
	}
	g := m.group
	return &DirError{path, fmt.Errorf("%s does not find in %s what %s has written: wanted a directory that all hosts share, by the same path: name one with --run-dir",
		transport.Name(g.Rank(), g.Host(g.Rank())), whole, transport.Name(0, g.Host(0)))}
}
