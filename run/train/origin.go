package train

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"gputrain/buffers"
	"gputrain/hub"
	"gputrain/model"
	"gputrain/run/record"
	"gputrain/state"
	"gputrain/state/checkpoint"
)

// modelFrom is the key of the directory that a run begins with.
const modelFrom = "model.from"

// origin is the fingerprint of what the directory From has.
func (c Config) origin() (string, error) {
	adapters := model.AdapterParams(c.State.Definition)
	others := slices.Concat(c.Drawn, adapters)
	of := slices.DeleteFunc(slices.Clone(c.Params), func(h buffers.Host) bool { return slices.Contains(others, h.Path) })
	if adapters != nil { // else the reference is the same again
		of = append(of, slices.DeleteFunc(slices.Clone(c.State.Consulted), func(h buffers.Host) bool { return model.Teaches(h.Path) })...)
	}
	found, err := state.Job{Config: c.State}.Fingerprint(of)
	if err != nil {
		return "", fmt.Errorf("train: model.from %q: %w", c.From, err)
	}
	return found, nil
}

// noteOrigin takes note of what the run begins with.
func (t *opening) noteOrigin() (err error) {
	if c := t.config; c.From != "" && t.resumed == 0 {
		t.decided.Origin, err = c.origin()
	}
	return err
}

// Adapters are those of a directory that are among the parameters of a run: what they were trained upon is compared
// with what the run begins with.
type Adapters struct {
	From  string      // the directory; "": there are none
	Upon  *model.Base // what they were trained upon; nil: the directory does not say
	Named string      // what the directory names as their base; "": nothing that is there
	Err   error       // why Upon cannot be read
}

// compareBases warns where the adapters that training goes on with were trained upon something else.
func (t *opening) compareBases() {
	c := t.config
	own, was := c.State.BaseRecord, c.LoRA.Upon
	if c.LoRA.From == "" || own == nil {
		return
	}
	switch {
	case c.LoRA.Err != nil:
		t.say("warning: lora.from: %s: what it was trained upon cannot be read: %v", c.LoRA.From, c.LoRA.Err)
	case was == nil:
		if found, gone := os.Stat(c.LoRA.Named); c.LoRA.Named != "" && gone == nil {
			if here, err := os.Stat(c.From); err == nil && !os.SameFile(found, here) {
				t.say("warning: lora.from: %s names %s as its base, model.from is %s", c.LoRA.From, c.LoRA.Named, c.From)
			}
		}
	case was.Fingerprint != own.Fingerprint:
		t.say("warning: lora.from: %s was trained upon %s, %.19s, and model.from, %s, has other parameters, %.19s", c.LoRA.From, cmp.Or(was.Directory, "a base"), was.Fingerprint, c.From, own.Fingerprint)
	case was.DType != own.DType:
		t.say("warning: lora.from: %s was trained upon a base in %s, and model.base is %s", c.LoRA.From, was.DType, own.DType)
	}
}

// follow says that a directory has moved, if what is in the new place is what the run began with; else it is a *ChangedError.
func (c Config) follow(moved record.Change, origin string) (said string, err error) {
	var was, is string
	if err := errors.Join(json.Unmarshal([]byte(moved.Was), &was), json.Unmarshal([]byte(moved.Is), &is)); err != nil {
		return "", err
	}
	changed := &ChangedError{Dir: c.Dir, Key: moved.Key, Found: moved.Was, Wanted: moved.Is}
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
	return fmt.Sprintf("%s: %s has what %s had, %.19s: the run goes on with it there", moved.Key, is, was, origin), nil
}

// followBase finds the base of a checkpoint where it is now, if it has moved.
func (t *opening) followBase(dir string) error {
	base, err := hub.ReadBase(dir)
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
