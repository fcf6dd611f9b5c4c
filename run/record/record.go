// Package record is run.yaml of a run directory: every value in force with its origin, what was decided since, and what another run of the same directory differs in.
package record

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
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
	// Schedule says that the value decides how long the run is or what its rates are: with --reschedule it may change.
	Schedule bool
	Dir      bool // the value is a directory: however it is spelt, it is the same
	// Why is what more there is to say where a run directory has another value, in JSON; nil: nothing.
	Why func(found string) string
}

// NewSetting is a value of a key of the run file, whose tags tell whether it may change; other keys may not.
func NewSetting(key string, value any, origin string) Setting {
	r := runfile.ResumeOf(key)
	return Setting{
		Key: key, Value: value, Origin: origin,
		Free: r == runfile.Free || r == runfile.ByContent, Schedule: r == runfile.Scheduled, Dir: r == runfile.ByPlace,
	}
}

// Default is the origin of a value that nobody has given.
const Default = "default"

// recordHead begins the record: it tells it from a file of the user.
const recordHead = "# Every value in force and where it came from. Written by gputrain"

// originForm is the line at the head of run.yaml that says what a run began with, so that it is known again in another place.
const originForm = "# what model.from had: %s"

var (
	recordForm   = regexp.MustCompile(`\A(# .*\n)*` + regexp.QuoteMeta(recordHead))
	originLine   = regexp.MustCompile(`(?m)^` + fmt.Sprintf(regexp.QuoteMeta(originForm), `(sha256:[0-9a-f]{64})`) + `$`)
	decisionLine = regexp.MustCompile(`(?m)^# (rescheduled at step (\d+): .*)$`)
)

// Is tells a record from a file of the user.
func Is(text []byte) bool { return recordForm.Match(text) }

// In tells whether a text has a record in it, as a report has.
func In(text []byte) bool { return bytes.Contains(text, []byte(recordHead)) }

// Write writes what run.yaml says of settings: in their order, nested by the dots of their keys, each with its origin behind it. Values
// are JSON, which YAML contains.
func Write(w io.Writer, settings []Setting) error {
	var out bytes.Buffer
	out.WriteString(recordHead + "; not read as a run file by resuming, only compared.\n")
	var open []string
	seen := map[string]bool{}
	for _, s := range settings {
		if seen[s.Key] {
			return fmt.Errorf("train: settings: key %q: given twice", s.Key)
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
				return fmt.Errorf("train: settings: key %q: the section %q is not in one piece", s.Key, section)
			}
			seen[section+"."] = true
			fmt.Fprintf(&out, "%s%s:\n", strings.Repeat("  ", depth), sections[depth])
		}
		open = sections
		value, err := s.JSON()
		if err != nil {
			return err
		}
		line := fmt.Sprintf("%s%s: %s", strings.Repeat("  ", len(sections)), name, value)
		if s.Origin != "" {
			line = fmt.Sprintf("%-40s # %s", line, strings.ReplaceAll(s.Origin, "\n", " "))
		}
		out.WriteString(line + "\n")
	}
	_, err := w.Write(out.Bytes())
	return err
}

// JSON is the value as it is recorded.
func (s Setting) JSON() ([]byte, error) {
	value, err := json.Marshal(s.Value)
	if err != nil {
		err = fmt.Errorf("train: settings: key %q: %w", s.Key, err)
	}
	return value, err
}

// Record is what run.yaml says of the run in its directory.
type Record struct {
	Settings  []runfile.Recorded // in their order
	Values    map[string]string  // in JSON by their keys; what is in an object has a key of its own
	Decisions []Decision
	Origin    string // the fingerprint of what the run began with; "": nobody has noted it
}

// Decision is a change of the schedule at a step: a checkpoint of that step or of an earlier one may have been made with the former one.
type Decision struct {
	Step int64
	Text string
	Err  error // why the record's Step is none; nil: it is one
}

// Read reads run.yaml.
func Read(text []byte) (r Record, err error) {
	if r.Settings, err = runfile.ReadRecord(text); err != nil {
		return r, err
	}
	r.Values = map[string]string{}
	for _, v := range r.Settings {
		if err := flatten(r.Values, v.Key, v.Value); err != nil {
			return r, err
		}
	}
	for _, m := range decisionLine.FindAllSubmatch(text, -1) {
		d := Decision{Text: string(m[1])}
		if d.Step, d.Err = strconv.ParseInt(string(m[2]), 10, 64); d.Err != nil {
			d.Err = fmt.Errorf("%q: %w", m[0], d.Err)
		}
		r.Decisions = append(r.Decisions, d)
	}
	if m := originLine.FindSubmatch(text); m != nil {
		r.Origin = string(m[1])
	}
	return r, nil
}

// flatten lays a value in JSON under its key; what is in an object has a key of its own.
func flatten(flat map[string]string, key string, value []byte) error {
	var v any
	d := json.NewDecoder(bytes.NewReader(value))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return err
	}
	if section, ok := v.(map[string]any); ok && len(section) > 0 {
		for name, v := range section {
			value, err := json.Marshal(v)
			if err == nil {
				err = flatten(flat, key+"."+name, value)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	value, err := json.Marshal(v)
	flat[key] = string(value)
	return err
}

// Head is what run.yaml begins with.
func (r Record) Head() []byte {
	var out bytes.Buffer
	for _, d := range r.Decisions {
		fmt.Fprintf(&out, "# %s\n", d.Text)
	}
	if r.Origin != "" {
		fmt.Fprintf(&out, originForm+"\n", r.Origin)
	}
	return out.Bytes()
}

// Change is a setting that is not what it was, both in JSON; "" where it is not set.
type Change struct{ Key, Was, Is string }

// difference is a change that makes it another run.
type difference struct {
	Change
	Schedule bool   // with reschedule it might change
	Why      string // there is more to say of what was found; may be ""
}

// Compare compares the record with the settings of the run that wants to go on. other is the first of these, in their order, that is not free and differs,
// nil without one; with reschedule those of the schedule may, and a directory may have moved: both are returned. A setting that came later than the record
// is, at its default, what the run has always had. same tells whether two values, in JSON, are the same directory.
func (r Record) Compare(settings []Setting, reschedule bool, same func(was, is string) bool) (changes, moved []Change, other *difference, err error) {
	old, now, known := r.Values, map[string]string{}, map[string]bool{}
	for _, s := range settings {
		value, err := s.JSON()
		if err == nil {
			err = flatten(now, s.Key, value)
		}
		if err != nil {
			return nil, nil, nil, err
		}
	}
	for _, s := range settings {
		for _, k := range under(s.Key, old, now) {
			known[k] = true
			if _, stored := old[k]; !stored && s.Origin == Default {
				continue
			}
			c := Change{k, old[k], now[k]}
			switch {
			case s.Free || c.Was == c.Is || s.Dir && same(c.Was, c.Is):
			case s.Dir && isText(c.Was) && isText(c.Is):
				moved = append(moved, c)
			case s.Schedule && reschedule:
				changes = append(changes, c)
			default:
				d := &difference{Change: c, Schedule: s.Schedule}
				if s.Why != nil {
					d.Why = s.Why(c.Was)
				}
				return nil, nil, d, nil
			}
		}
	}
	for _, k := range slices.Sorted(maps.Keys(old)) {
		if !known[k] && runfile.ResumeOf(k) != runfile.Free {
			return nil, nil, &difference{Change: Change{Key: k, Was: old[k]}}, nil
		}
	}
	return changes, moved, nil, nil
}

// under are the keys of a setting in any of some values: its own, or those of what is in its object.
func under(setting string, values ...map[string]string) (keys []string) {
	for _, v := range values {
		for k := range v {
			if k == setting || strings.HasPrefix(k, setting+".") {
				keys = append(keys, k)
			}
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// isText tells whether a value, in JSON, is a text that says something.
func isText(value string) bool {
	var text string
	return json.Unmarshal([]byte(value), &text) == nil && text != ""
}
