package train

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"gputrain/run/record"
	"gputrain/run/runfile"
)

// runFile is the name of the record of the settings in a run directory.
const runFile = runfile.RecordFile

// ChangedError says that a run directory belongs to a run with other settings.
type ChangedError struct {
	Dir, Key      string
	Found, Wanted string // JSON; "" when the key is absent
	Schedule      bool   // Config.Reschedule would let it change
	NotFresh      bool   // a fresh start would remove what the run reads
	Earlier       bool   // an earlier program read the same text, and can go on
	Why           string // there is more to say of what was found; may be ""
}

// Error names the first key that differs and the way out.
func (e *ChangedError) Error() string {
	show := func(s string) string {
		if s == "" {
			return "not set"
		}
		return s
	}
	ways := []string{"choose another directory", "restore the value"}
	switch {
	case e.Earlier:
		ways = []string{"finish the run with that program", "begin another one, from its weights (model.from) or its adapters (lora.from)"}
	case e.Schedule:
		ways = []string{"restore the value", "let the schedule change with --reschedule", "choose another directory"}
	}
	if !e.NotFresh {
		ways = append(ways, "start over with --fresh, which removes what it has trained")
	}
	last := len(ways) - 1
	way := strings.Join(ways[:last], ", ") + ", or " + ways[last]
	return fmt.Sprintf("train: run directory %q: %s: found %s, wanted %s%s; %s", e.Dir, e.Key, show(e.Found), show(e.Wanted), e.Why, way)
}

// sameDir says whether two values, in JSON, are the same directory.
func sameDir(a, b string) bool {
	var was, is string
	if json.Unmarshal([]byte(a), &was) != nil || json.Unmarshal([]byte(b), &is) != nil || was == "" || is == "" {
		return false
	}
	then, err := os.Stat(was)
	now, absent := os.Stat(is)
	if err != nil || absent != nil { // gone, so only what it was called is left
		was, err = filepath.Abs(was)
		is, absent = filepath.Abs(is)
		return err == nil && absent == nil && was == is
	}
	return os.SameFile(then, now)
}

// compare is the record's Compare. The error is a *ChangedError of the setting that differs.
func (e earlier) compare(settings []record.Setting, reschedule bool) (changes, moved []record.Change, err error) {
	if len(e.Values) == 0 {
		return nil, nil, &DirError{e.dir, fmt.Errorf("found checkpoints without a whole %s, which says what run they are of; %s", runFile, stateSettings(e.dir))}
	}
	changes, moved, other, err := e.Compare(settings, reschedule, sameDir)
	if err == nil && other != nil {
		err = &ChangedError{Dir: e.dir, Key: other.Key, Found: other.Was, Wanted: other.Is, Schedule: other.Schedule, Why: other.Why}
	}
	return changes, moved, err
}
