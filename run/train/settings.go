package train

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gputrain/run/runfile"
)

// Setting is one value in force, as run.yaml records it.
type Setting struct {
	Key    string // "optimizer.learning_rate"
	Value  any    // what JSON can hold
	Origin string // where the value came from: "default", "run.yaml:12", "--set"
	// Free says that the value may change when a run is resumed: how often to save, how many checkpoints to keep. A run directory
	// in which any other value differs is refused.
	Free bool
	// Schedule says that the value decides how long the run is or what its rates are: Config.Reschedule lets it change.
	Schedule bool
	Dir      bool // the value is a directory: however it is spelt, it is the same
	// Why is what more there is to say where a run directory has another value, in JSON; nil: nothing.
	Why func(found string) string
}

func (s Setting) why(found string) string {
	if s.Why == nil {
		return ""
	}
	return s.Why(found)
}

// NewSetting is a value of a key of the run file, whose tags tell whether it may change; other keys may not.
func NewSetting(key string, value any, origin string) Setting {
	r := runfile.ResumeOf(key)
	return Setting{
		Key: key, Value: value, Origin: origin,
		Free: r == runfile.Free || r == runfile.ByContent, Schedule: r == runfile.Scheduled, Dir: r == runfile.ByPlace,
	}
}

// defaultOrigin is the origin of a value that nobody has given.
const defaultOrigin = "default"

// runFile is the name of the record of the settings in a run directory.
const runFile = runfile.RecordFile

// recordHead begins the record: it tells it from a file of the user.
const recordHead = "# Every value in force and where it came from. Written by gputrain"

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

// WriteSettings writes what run.yaml says of settings.
func WriteSettings(w io.Writer, settings []Setting) error {
	text, err := settingsText(settings)
	if err == nil {
		_, err = w.Write(text)
	}
	return err
}

// settingsText is run.yaml: the settings in their order, nested by the dots of their keys, each with its origin behind it. Values
// are JSON, which YAML contains.
func settingsText(settings []Setting) ([]byte, error) {
	var out bytes.Buffer
	out.WriteString(recordHead + "; not read as a run file by resuming, only compared.\n")
	var open []string
	seen := map[string]bool{}
	for _, s := range settings {
		if seen[s.Key] {
			return nil, fmt.Errorf("train: settings: key %q: given twice", s.Key)
		}
		seen[s.Key] = true
		path := strings.Split(s.Key, ".")
		sections, name := path[:len(path)-1], path[len(path)-1]
		common := 0
		for common < len(open) && common < len(sections) && open[common] == sections[common] {
			common++
		}
		for depth := common; depth < len(sections); depth++ {
			section := strings.Join(sections[:depth+1], ".")
			if seen[section+"."] {
				return nil, fmt.Errorf("train: settings: key %q: the section %q is not in one piece", s.Key, section)
			}
			seen[section+"."] = true
			fmt.Fprintf(&out, "%s%s:\n", strings.Repeat("  ", depth), sections[depth])
		}
		open = sections
		value, err := json.Marshal(s.Value)
		if err != nil {
			return nil, fmt.Errorf("train: settings: key %q: %w", s.Key, err)
		}
		line := fmt.Sprintf("%s%s: %s", strings.Repeat("  ", len(sections)), name, value)
		if s.Origin != "" {
			line = fmt.Sprintf("%-40s # %s", line, strings.ReplaceAll(s.Origin, "\n", " "))
		}
		out.WriteString(line + "\n")
	}
	return out.Bytes(), nil
}

// flatten turns run.yaml into dotted keys with values in JSON. What is in an object has a key of its own.
func flatten(text []byte) (map[string]string, error) {
	all, err := runfile.ReadRecord(text)
	if err != nil {
		return nil, err
	}
	flat := map[string]string{}
	var below func(key string, v any) error
	below = func(key string, v any) error {
		if section, ok := v.(map[string]any); ok && len(section) > 0 {
			for k, v := range section {
				if err := below(key+"."+k, v); err != nil {
					return err
				}
			}
			return nil
		}
		value, err := json.Marshal(v)
		flat[key] = string(value)
		return err
	}
	for _, r := range all {
		var v any
		d := json.NewDecoder(bytes.NewReader(r.Value))
		d.UseNumber()
		if err := d.Decode(&v); err != nil {
			return nil, err
		}
		if err := below(r.Key, v); err != nil {
			return nil, err
		}
	}
	return flat, nil
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

// isDir tells whether a value, in JSON, names a directory.
func isDir(value string) bool {
	var path string
	return json.Unmarshal([]byte(value), &path) == nil && path != ""
}

// compare compares the record with the settings of the run that wants to go on in the directory. The error is a
// *ChangedError of the first setting, in their order, that is not free and differs; with reschedule those of the schedule may, and directories may have
// moved: both are returned. A setting that came later than the record is, at its default, what the run has
// always had.
func (e earlier) compare(settings []Setting, reschedule bool) (changes, moved []change, err error) {
	dir, old := e.dir, e.settings
	if len(bytes.TrimSpace(e.record)) == 0 {
		return nil, nil, &DirError{dir, fmt.Errorf("found checkpoints without a whole %s, which says what run they are of; %s", runFile, stateSettings(dir))}
	}
	text, err := settingsText(settings)
	if err != nil {
		return nil, nil, err
	}
	now, err := flatten(text)
	if err != nil {
		return nil, nil, err
	}
	covered := func(keys map[string]string, setting string) []string {
		var under []string
		for _, k := range slices.Sorted(maps.Keys(keys)) {
			if k == setting || strings.HasPrefix(k, setting+".") {
				under = append(under, k)
			}
		}
		return under
	}
	known := map[string]bool{}
	for _, s := range settings {
		keys := append(covered(old, s.Key), covered(now, s.Key)...)
		slices.Sort(keys)
		for _, k := range slices.Compact(keys) {
			known[k] = true
			if _, stored := old[k]; !stored && s.Origin == defaultOrigin {
				continue
			}
			switch {
			case s.Free || old[k] == now[k] || s.Dir && sameDir(old[k], now[k]):
			case s.Dir && isDir(old[k]) && isDir(now[k]):
				moved = append(moved, change{k, old[k], now[k]})
			case s.Schedule && reschedule:
				changes = append(changes, change{k, old[k], now[k]})
			default:
				return nil, nil, &ChangedError{Dir: dir, Key: k, Found: old[k], Wanted: now[k], Schedule: s.Schedule, Why: s.why(old[k])}
			}
		}
	}
	for _, k := range slices.Sorted(maps.Keys(old)) {
		if !known[k] && runfile.ResumeOf(k) != runfile.Free {
			return nil, nil, &ChangedError{Dir: dir, Key: k, Found: old[k]}
		}
	}
	return changes, moved, nil
}
