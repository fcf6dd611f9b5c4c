package train

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"gputrain/cluster"
	"gputrain/transport"
)

// probeTries is how often a rank looks for what rank 0 has written in the run directory, a tenth of a second apart: shared directories take their time.
var probeTries = 50

// probeForm is how the files begin that tell whether the run directory is shared.
const probeForm = ".gputrain.ranks-"

// shareDir makes sure that all ranks see the run directory that rank 0 has taken.
func (t *trainer) shareDir(ctx context.Context) error {
	g := t.config.Ranks
	name := probeForm + rand.Text()
	var failed error
	if t.config.leads() {
		failed = t.dir.probe(name)
	}
	if _, err := g.Agree(ctx, failed, cluster.Fatal, nil); err != nil {
		return err
	}
	raw, err := g.Share(ctx, "probe of the run directory", []byte(name))
	if err == nil && !t.config.leads() {
		failed = t.sees(string(raw))
	}
	if err == nil {
		_, err = g.Agree(ctx, failed, cluster.Fatal, nil)
	}
	if t.config.leads() {
		err = errors.Join(err, os.Remove(t.dir.join(name)))
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

// sees looks for the probe.
func (t *trainer) sees(probe string) error {
	c := t.config
	for range probeTries {
		if _, err := os.Stat(filepath.Join(c.Dir, probe)); err == nil {
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	path, err := filepath.Abs(c.Dir)
	if err != nil {
		path = c.Dir
	}
	g := c.Ranks
	return &DirError{c.Dir, fmt.Errorf("%s does not find in %s what %s has written: wanted a directory that all hosts share, by the same path: name one with --run-dir",
		transport.Name(g.Rank(), g.Host(g.Rank())), path, transport.Name(0, g.Host(0)))}
}
