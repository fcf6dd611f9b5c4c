package train

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"gputrain/buffers"
	"gputrain/checkpoint"
	"gputrain/model"
)

// originForm is the line at the head of run.yaml that says what a run began with, so that it is known again in another place.
const originForm = "# what model.from had: %s"

var originLine = regexp.MustCompile(`(?m)^` + fmt.Sprintf(regexp.QuoteMeta(originForm), `(sha256:[0-9a-f]{64})`) + `$`)

// origin is the fingerprint of what the directory of Params has.
func (c Config) origin() (string, error) {
	found, err := model.Fingerprint(slices.DeleteFunc(slices.Clone(c.Params), func(h buffers.Host) bool { return slices.Contains(c.Drawn, h.Path) }))
	if err != nil {
		return "", fmt.Errorf("train: model.from %q: %w", c.From, err)
	}
	return found, nil
}

// noteOrigin takes note of what the run begins with.
func (t *opening) noteOrigin() (err error) {
	if c := t.config; c.From != "" && t.resumed == 0 {
		t.decided.origin, err = c.origin()
	}
	return err
}

// follow says that a directory has moved, if what is in the new place is what the run began with; else it is a *ChangedError.
func (c Config) follow(moved change, origin string) (said string, err error) {
	var was, is string
	if err := errors.Join(json.Unmarshal([]byte(moved.was), &was), json.Unmarshal([]byte(moved.is), &is)); err != nil {
		return "", err
	}
	changed := &ChangedError{Dir: c.Dir, Key: moved.key, Found: moved.was, Wanted: moved.is}
	if c.From == "" || below(resolved(c.From), resolved(c.Dir)) { // it is not there: parameters are those of a checkpoint
		return "", changed
	}
	if origin == "" {
		changed.Why = fmt.Sprintf(" (whether that is the same in another place is not known: %s does not say what it had)", runFile)
		return "", changed
	}
	found, err := c.origin()
	if err != nil {
		return "", err
	}
	if found != origin {
		changed.Why = fmt.Sprintf(" (which has parameters of fingerprint %s, wanted %s)", found, origin)
		return "", changed
	}
	return fmt.Sprintf("%s: %s has what %s had, %.19s: the run goes on with it there", moved.key, is, was, origin), nil
}

// followBase finds the base of a checkpoint where it is now, if it has moved.
func (t *opening) followBase(dir string) error {
	base, err := model.ReadBase(dir)
	if err != nil || base == nil || t.config.From == "" {
		return err
	}
	_, gone := os.Stat(base.Directory)
	if t.decided.moved == "" && !errors.Is(gone, fs.ErrNotExist) {
		return nil
	}
	at, err := filepath.Abs(t.config.From)
	if err == nil && at != base.Directory && !below(resolved(at), resolved(t.config.Dir)) {
		t.config.State.BaseAt = at
	}
	return err
}

// saveFollowed makes the checkpoint that the run has gone on from be saved again where its base has moved, so that it names the new place.
func (t *opening) saveFollowed(r checkpoint.Record) {
	t.saves.again = t.config.State.BaseAt != "" && r.Step > 0
	t.saves.temporarily = r.Run.Temporary
}
