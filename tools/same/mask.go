package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// rule replaces what is measured, or of a time, by a sign.
type rule struct {
	found *regexp.Regexp
	sign  string
}

var (
	// always are those of all texts: what ranks would take goes by a measured speed of additions.
	always = []rule{
		{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`), "TIME"},
		{regexp.MustCompile(`("host":\{[^}]*"available_bytes":)\d+`), "$1#"},
		{regexp.MustCompile(`of [\d.]+ GiB left`), "of # GiB left"},
		{regexp.MustCompile(`[\d.]+ GB/s of its additions`), "# GB/s of its additions"},
		{regexp.MustCompile(`(?m)^(\d+ +(?:whole|divided) +\d+ ).*$`), "$1 #"},
		{regexp.MustCompile(`"(Add|sum_s|update_s|gather_s|seconds|transfer|efficiency)":[-+\d.e]+`), `"$1":#`},
		{regexp.MustCompile(`run\.given-[0-9a-f]{8}`), "run.given-#"},            // a digest of a file that may name the side's folder
		{regexp.MustCompile(`(?m)^[a-z][a-z' ]*, \d+ s\n`), ""},                  // a phase that takes long says so
		{regexp.MustCompile(`(?m)^time +at least .*$`), "time       at least #"}, // with what choosing has taken so far
		{regexp.MustCompile(`(?m)at [\d.]+ [kMG]?B/s$`), "at # MB/s"},
	}
	// training are those of commands that train, or that look at the machine's memory.
	training = []rule{
		{regexp.MustCompile(`(?m)^(time|the run takes|peak of the devices|at \d+% of that peak) .*$`), "$1 #"},
		{regexp.MustCompile(`(?m)^after \d+ steps: the run takes .*\n`), ""},  // said where the forecast was wrong
		{regexp.MustCompile(`(?m)^a step is cut into \d+ submits, .*\n`), ""}, // by measured speeds
		{regexp.MustCompile(`metrics of step (\d+), in .*`), "metrics of step $1, in #"},
		{regexp.MustCompile(`(?m), in [\d.]+ (ms|s|min)$`), ", in #"},
		{regexp.MustCompile(`\d+ tokens a second;`), "# tokens a second;"},
		{regexp.MustCompile(`made in [\d.]+ (ms|s|m)\b`), "made in #"},
		{regexp.MustCompile(`of the disk, which has .*`), "of the disk, which has #"},
		{regexp.MustCompile(`of [\d.]+ GiB`), "of # GiB"},
		{regexp.MustCompile(`"(available_bytes|reserve_bytes)":\d+`), `"$1":#`},
	}
	// lines are those of lines of JSON; keys without a meaning on another day go before.
	lines = []rule{{regexp.MustCompile(`("name":"(?:peak|program)","value":)"[^"]*"`), `$1"#"`}}
	// report are those of a report, as a file or as it is said.
	report = []rule{
		{regexp.MustCompile(`(?s)## Time\n.*?\n## `), "## "},
		{regexp.MustCompile(`(?m)^\| (peak|time in steps|(?:tokens|pairs) a second|model operations|wait for data|process|stages|ranks|program)\b.*$`), "| $1 #"},
	}
)

func apply(text string, rules []rule) string {
	for _, r := range rules {
		text = r.found.ReplaceAllString(text, r.sign)
	}
	return text
}

// maskText is a text without the side's folder, times and what is measured.
func maskText(text string, on *side, measured bool) string {
	text = strings.ReplaceAll(text, on.root, "ROOT")
	text = strings.ReplaceAll(text, filepath.Dir(on.program), "BIN")
	text = apply(text, always)
	if measured {
		text = apply(apply(text, training), report)
	}
	return text
}

// passing are keys of lines of JSON whose values are measured.
var passing = regexp.MustCompile(`_ms$|_per_second$|^(mfu|host_bytes|stage_busy|bubble|transfer|hidden|slowest|time|measured|rank_busy)$`)

// maskLines are lines of JSON without these keys, and those that also matches.
func maskLines(raw []byte, on *side, also *regexp.Regexp) (string, error) {
	var out strings.Builder
	for _, line := range bytes.Split(raw, []byte("\n")) {
		if len(line) == 0 {
			continue
		}
		decoder := json.NewDecoder(bytes.NewReader(line))
		decoder.UseNumber()
		var v any
		if err := decoder.Decode(&v); err != nil {
			return "", err
		}
		clean, err := json.Marshal(withoutKeys(v, also))
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&out, "%s\n", clean)
	}
	return apply(maskText(out.String(), on, true), lines), nil
}

func withoutKeys(v any, also *regexp.Regexp) any {
	switch v := v.(type) {
	case map[string]any:
		for key := range v {
			if passing.MatchString(key) || also != nil && also.MatchString(key) {
				delete(v, key)
			} else {
				v[key] = withoutKeys(v[key], also)
			}
		}
	case []any:
		for i := range v {
			v[i] = withoutKeys(v[i], also)
		}
	}
	return v
}

var (
	unseen   = regexp.MustCompile(`(^|/)(cache/.*|\.lock|speed\.svg|use\.svg|profile\.json)$`)
	digests  = regexp.MustCompile(`"[0-9a-f]{64}"|"crc32c": "[0-9a-f]{8}"`)
	eventsOf = regexp.MustCompile(`events\.out\.tfevents\.\d+\.\S+\.\d+`)
)

// files adds the files below a folder: texts as they are but for what is masked, others by digest.
func (on *side) files(dir string, said outcome) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil || unseen.MatchString(name) {
			return err
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		key := "file " + maskText(eventsOf.ReplaceAllString(name, "events"), on, false)
		switch base := filepath.Base(name); {
		case eventsOf.MatchString(base):
			said[key] += eventShape(raw)
		case strings.HasSuffix(strings.TrimSuffix(base, ".cut"), ".jsonl"):
			said[key], err = maskLines(raw, on, nil)
		case base == "report.md":
			said[key] = maskText(string(raw), on, true)
		case base == "manifest.json": // digests of files that name the side's folder
			said[key] = digests.ReplaceAllString(maskText(string(raw), on, true), "#")
		case bytes.IndexByte(raw, 0) >= 0:
			said[key] = fmt.Sprintf("%d bytes, sha256 %x\n", len(raw), sha256.Sum256(raw))
		default:
			said[key] = maskText(string(raw), on, false)
		}
		return err
	})
}

// eventShape is how long the records of an event file are: their numbers have a fixed length, and the time of each is
// left out with them.
func eventShape(raw []byte) string {
	var out strings.Builder
	for len(raw) >= 16 {
		n := binary.LittleEndian.Uint64(raw)
		if n > uint64(len(raw))-16 {
			fmt.Fprintln(&out, "cut off")
			break
		}
		fmt.Fprintln(&out, n)
		raw = raw[16+n:]
	}
	return out.String()
}

// difference is what only one of the programs says.
type difference struct {
	what     string
	old, new []string
}

func differences(old, new outcome) []difference {
	return differencesOfAll([]outcome{old}, []outcome{new})
}

// differencesOfAll are those of which no old outcome has what a new one has.
func differencesOfAll(old, new []outcome) (all []difference) {
	names := map[string]bool{}
	for _, o := range slices.Concat(old, new) {
		for key := range o {
			names[key] = true
		}
	}
	for _, key := range sortedKeys(names) {
		met := false
		for _, o := range old {
			for _, n := range new {
				a, had := o[key]
				b, has := n[key]
				met = met || had == has && a == b
			}
		}
		if met {
			continue
		}
		a, b := present(old[0], key), present(new[0], key)
		d := difference{key, beyond(a, b), beyond(b, a)}
		if len(d.old)+len(d.new) == 0 {
			d.old = []string{"(the same lines in another order)"}
		}
		all = append(all, d)
	}
	return all
}

func present(o outcome, key string) []string {
	text, is := o[key]
	if !is {
		return []string{"(nothing of this name)"}
	}
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}

// beyond are the lines of a that b has not, or less often.
func beyond(a, b []string) (more []string) {
	count := map[string]int{}
	for _, line := range b {
		count[line]++
	}
	for _, line := range a {
		if count[line]--; count[line] < 0 {
			more = append(more, line)
		}
	}
	return more
}

// shown are the most lines of a difference that are printed for each side, and widest the most bytes of each, from
// just before the place where they part.
const shown, widest = 6, 300

func (d difference) String() string {
	var out strings.Builder
	fmt.Fprintf(&out, "  %s\n", d.what)
	for i := range min(shown, max(len(d.old), len(d.new))) {
		from := 0
		if i < len(d.old) && i < len(d.new) {
			a, b := d.old[i], d.new[i]
			for from < min(len(a), len(b)) && a[from] == b[from] {
				from++
			}
		}
		print := func(sign string, lines []string) {
			if i >= len(lines) {
				return
			}
			line := lines[i]
			if from > widest/2 {
				line = "..." + line[from-widest/4:]
			}
			if len(line) > widest {
				line = line[:widest] + "..."
			}
			fmt.Fprintf(&out, "    %s %q\n", sign, line)
		}
		print("-", d.old)
		print("+", d.new)
	}
	if more := max(len(d.old), len(d.new)) - shown; more > 0 {
		fmt.Fprintf(&out, "    and %d lines more\n", more)
	}
	return out.String()
}
