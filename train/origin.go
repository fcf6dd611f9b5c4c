package train

import (
	"cmp"
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
	"gputrain/hub"
	"gputrain/internal/stranger"
	"gputrain/model"
	"gputrain/state"
)

// originForm is the line at the head of run.yaml that says what a run began with, so that it is known again in another place.
const originForm = "# what model.from had: %s"

// modelFrom is the key of the directory that a run begins with.
const modelFrom = "model.from"

var originLine = regexp.MustCompile(`(?m)^` + fmt.Sprintf(regexp.QuoteMeta(originForm), `(sha256:[0-9a-f]{64})`) + `$`)

// origin is the fingerprint of what the directory From has.
func (c Config) origin() (string, error) {
	others := slices.Concat(c.Drawn, model.AdapterParams(c.State.Definition))
	found, err := state.Job{Config: c.State}.Fingerprint(slices.DeleteFunc(slices.Clone(c.Params), func(h buffers.Host) bool { return slices.Contains(others, h.Path) }))
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

// accumulationKey is the setting that says how the gradients of microbatches are added up.
const accumulationKey = "train.accumulation"

// accumulatingAs is the configuration with gradients added up as the run of the directory did, where the run file does not say how. said is what there is
// to say of that. A record without the key is of an older program, which did it in sequence and differed otherwise, too: it is refused.
func (c Config) accumulatingAs(dir string) (_ Config, said string, err error) {
	i := slices.IndexFunc(c.Settings, func(s Setting) bool { return s.Key == accumulationKey && s.Origin == defaultOrigin })
	settings, err := storedSettings(dir)
	if i < 0 || err != nil || len(settings) == 0 {
		return c, "", err
	}
	stored, known := settings[accumulationKey]
	if !known {
		return c, "", &DirError{dir, fmt.Errorf("%s: found no %s, wanted one: an older program made this run; finish it with that program, or start over with --fresh", runFile, accumulationKey)}
	}
	var as string
	if json.Unmarshal([]byte(stored), &as) != nil || as == state.AccumulateTree {
		return c, "", nil // what is none is refused as a changed setting
	}
	c.State.Accumulation, c.Settings = as, slices.Clone(c.Settings)
	c.Settings[i].Value, c.Settings[i].Origin = as, "as the run began"
	if c.State.Microbatches > 1 {
		said = fmt.Sprintf("%s %s, as this run began: gradients are added up in the order of their batches, and on one rank alone", accumulationKey, as)
	}
	return c, said, nil
}

// followEdition has the optimizer follow the rules that the run in the directory began with. What is wrong with its newest checkpoint is told where
// it is opened.
func (t *opening) followEdition() {
	steps, err := t.store.Steps()
	if err != nil || len(steps) == 0 {
		return
	}
	record, err := checkpoint.ReadRecord(t.config.State.FS, filepath.Join(t.store.Dir, checkpoint.DirName(steps[0])))
	if err != nil {
		return
	}
	begun, err := state.SavedOptimizer(record)
	if err != nil || begun.Name != t.config.State.Optimizer.Name {
		return
	}
	t.config.State.Optimizer = t.config.State.Optimizer.Following(begun)
	if what := begun.Earlier(); what != "" && t.config.leads() {
		said := fmt.Sprintf("optimizer %s: %s, as this run began; new runs do otherwise", begun.Name, what)
		t.say("%s", said)
		t.reporter.facts.add("optimizer", "%s", said)
	}
}

// storedSettings are those of the run of a directory, in JSON by their keys; nil where there are none.
func storedSettings(dir string) (map[string]string, error) {
	text, err := stranger.Read(filepath.Join(dir, runFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("train: run directory: %w", err)
	}
	settings, err := flatten(text)
	if err != nil {
		return nil, fmt.Errorf("train: run directory %q: %s: %w", dir, runFile, err)
	}
	return settings, nil
}
