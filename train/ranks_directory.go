package train

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"gputrain/mesh"
	"gputrain/transport"
)

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
	raw, err := g.Share(ctx, "probe of the run directory", []byte(name))
	if err == nil && taken == nil {
		failed = m.finds(path, string(raw))
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
