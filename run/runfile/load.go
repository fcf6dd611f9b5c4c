package runfile

import (
	"fmt"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"gputrain/internal/stranger"
	"gputrain/internal/suggest"
	"gputrain/run/reward"
)

// Origin says where a value came from: "default", also with why behind a colon,
// "runs/a.yaml:12", "GPUTRAIN_TRAIN_STEPS" or "--set".
type Origin string

// byDefault begins the origin of a value that no layer names; one that is made for other values goes on with why.
const byDefault = "default"

// IsDefault says that no layer names the value.
func (o Origin) IsDefault() bool {
	return o == byDefault || strings.HasPrefix(string(o), byDefault+": ")
}

// Config is a run with the origin of each of its values.
type Config struct {
	Run
	Read   []Text // the files that were laid, as they were
	origin map[string]Origin
}

// Text is a file as it was read.
type Text struct {
	Path string
	Text []byte
}

// New returns the defaults.
func New() *Config {
	c := &Config{Run: Default(), origin: map[string]Origin{}}
	for _, f := range fields {
		c.origin[f.key] = byDefault
	}
	return c
}

// Origin returns where the value of a key came from; a parameter of the
// optimizer is named "optimizer.parameters.b1".
func (c *Config) Origin(key string) Origin {
	if o, ok := c.origin[key]; ok {
		return o
	}
	return c.origin["optimizer.parameters"]
}

// File lays the values of a YAML file over the present ones.
func (c *Config) File(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("run file: %w", err)
	}
	defer f.Close()
	text, err := stranger.ReadFrom(f, RecordFile)
	if err != nil {
		return fmt.Errorf("run file: %s: %w", path, err)
	}
	return c.Take(Text{path, text})
}

// Take lays the values of a file that is read, or is yet to be written.
func (c *Config) Take(f Text) error {
	c.Read = append(c.Read, f)
	return c.Parse(f.Path, f.Text)
}

// Parse lays YAML text over the present values; name stands for the file in
// errors and origins.
func (c *Config) Parse(name string, text []byte) error {
	file, err := parse(text)
	if err != nil {
		return fmt.Errorf("run file: %s:%d: %w", name, lineOf(err, 1), err)
	}
	for _, doc := range file.Docs {
		if doc.Body == nil || doc.Body.Type() == ast.NullType || doc.Body.Type() == ast.CommentType {
			continue
		}
		if err := c.walk(name, "", doc.Body); err != nil {
			return err
		}
	}
	return nil
}

func (c *Config) walk(file, prefix string, node ast.Node) error {
	m, ok := mapping(node)
	if !ok {
		what := "the file"
		if prefix != "" {
			what = fmt.Sprintf("%q", strings.TrimSuffix(prefix, "."))
		}
		return fmt.Errorf("run file: %s:%d: %s: found %s, wanted keys with values", file, line(node), what, strings.ToLower(node.Type().String()))
	}
	seen := map[string]bool{}
	for _, kv := range m {
		name, key := kv.Key.GetToken().Value, prefix+kv.Key.GetToken().Value
		of := kv.Key.GetToken().Position.Line
		at := fmt.Sprintf("%s:%d", file, of)
		if seen[key] {
			return fmt.Errorf("run file: %s: key %q stands twice", at, key)
		}
		seen[key] = true
		if section, rest, dotted := strings.Cut(name, "."); dotted {
			return fmt.Errorf("run file: %s: key %q: found a dot, wanted %s: {%s: ...}", at, key, section, rest)
		}
		if isSection(key) || key == "optimizer.parameters" {
			if kv.Value.Type() == ast.NullType {
				continue
			}
			if err := c.walk(file, key+".", kv.Value); err != nil {
				return err
			}
			continue
		}
		if err := c.assign(key, kv.Value, Origin(at)); err != nil {
			return fmt.Errorf("run file: %s:%d: %w", file, lineOf(err, of), err)
		}
	}
	return nil
}

// mapping returns the pairs of a mapping, which the parser gives another type
// when there is only one.
func mapping(node ast.Node) ([]*ast.MappingValueNode, bool) {
	switch n := node.(type) {
	case *ast.MappingNode:
		return n.Values, true
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}, true
	}
	return nil, false
}

func line(node ast.Node) int {
	if t := node.GetToken(); t != nil && t.Position != nil {
		return t.Position.Line
	}
	return 0
}

// assign decodes a node into the field of a key. An unknown key below
// optimizer is a parameter of the optimizer itself.
func (c *Config) assign(key string, node ast.Node, from Origin) error {
	f, ok := find(key)
	if !ok {
		name, own := strings.CutPrefix(key, "optimizer.")
		name = strings.TrimPrefix(name, "parameters.")
		if !own || strings.Contains(name, ".") {
			return unknownKey(key)
		}
		return c.parameter(name, node, from)
	}
	if f.key == "optimizer.parameters" {
		pairs, ok := mapping(node)
		if !ok {
			return fmt.Errorf("%s: found %s, wanted names with values", key, shown(node))
		}
		for _, kv := range pairs {
			if err := c.parameter(kv.Key.GetToken().Value, kv.Value, from); err != nil {
				return err
			}
		}
		return nil
	}
	plain, err := decode(node)
	if err != nil {
		return fmt.Errorf("%s: %w", key, placed(err))
	}
	value, ok := convert(plain, f.typ)
	if !ok {
		return mismatch(key, key, node, f.typ)
	}
	c.at(f).Set(value)
	c.origin[key] = from
	return nil
}

func (c *Config) parameter(name string, node ast.Node, from Origin) error {
	v, err := decode(node)
	if err != nil {
		return fmt.Errorf("optimizer.%s: %w", name, placed(err))
	}
	if c.Optimizer.Parameters == nil {
		c.Optimizer.Parameters = map[string]any{}
	}
	c.Optimizer.Parameters[name] = v
	c.origin["optimizer.parameters."+name] = from
	return nil
}

// Environment lays variables such as GPUTRAIN_TRAIN_STEPS over the present
// values; environ is as os.Environ gives it. Those of no key are for CheckVariables.
func (c *Config) Environment(environ []string) error {
	keys := variables()
	for _, e := range environ {
		name, value, _ := strings.Cut(e, "=")
		key, ok := keys[name]
		if own := variable("optimizer."); !ok && strings.HasPrefix(name, own) {
			key, ok = "optimizer."+strings.ToLower(name[len(own):]), true
		}
		if !ok {
			continue
		}
		if err := c.set(key, value, Origin(name)); err != nil {
			return fmt.Errorf("environment: %s: %w", name, err)
		}
	}
	return nil
}

// others are the variables of the program that are of no key; those with REQUIRE and the last ones are for its tests.
var others = []string{
	"GPUTRAIN_ADAPTER", "GPUTRAIN_CACHE", "GPUTRAIN_CORPUS", "GPUTRAIN_LAUNCH", "GPUTRAIN_LOG_LEVEL",
	"GPUTRAIN_REQUIRE_ADAPTER", "GPUTRAIN_REQUIRE_BROWSER", "GPUTRAIN_REQUIRE_MATRIX", "GPUTRAIN_REQUIRE_MPI", "GPUTRAIN_REQUIRE_WINDOW",
	"GPUTRAIN_FULL", "GPUTRAIN_ISA_MESA", "GPUTRAIN_ISA_SHIMS", "GPUTRAIN_LLAMA", "GPUTRAIN_OPENAI", "GPUTRAIN_SAVE_RATIO", "GPUTRAIN_SCREENSHOTS", "GPUTRAIN_SOAK", "GPUTRAIN_TEXELS", "GPUTRAIN_TEST_CUT",
	"GPUTRAIN_TEST_HOSTS", "GPUTRAIN_TEST_KILLED", "GPUTRAIN_TEST_MEND", "GPUTRAIN_TEST_MPI", "GPUTRAIN_TEST_NETNS", "GPUTRAIN_TEST_OTHER", "GPUTRAIN_TEST_PROGRAM", "GPUTRAIN_TEST_SIGNALLED", "GPUTRAIN_TEST_SIZE", "GPUTRAIN_TEST_SLURM",
}

// CheckVariables refuses a variable that begins as the program's do and is none of them: what it was meant for would be left as it is.
func CheckVariables(environ []string) error {
	known := variables()
	for _, e := range environ {
		name, _, _ := strings.Cut(e, "=")
		if _, key := known[name]; key || !strings.HasPrefix(name, prefix) || slices.Contains(others, name) || strings.HasPrefix(name, variable("optimizer.")) {
			continue
		}
		return fmt.Errorf("environment: %s: unknown variable%s", name, meant(name, slices.Concat(others, sortedKeys(known))))
	}
	return nil
}

// prefix begins the name of every variable of the program.
const prefix = "GPUTRAIN_"

// meant suggests a variable: one that lacks its section, or that is spelt nearly so.
func meant(name string, known []string) string {
	var short, within []string
	for _, f := range fields {
		if strings.HasSuffix(f.key, "."+strings.ToLower(name[len(prefix):])) {
			within = append(within, variable(f.key))
		}
	}
	for _, k := range known {
		short = append(short, k[len(prefix):])
	}
	if len(within) > 0 {
		return fmt.Sprintf(", did you mean %s?", strings.Join(within, " or "))
	}
	if near := suggest.Nearest(name[len(prefix):], short); near != "" {
		return fmt.Sprintf(", did you mean %q?", prefix+near)
	}
	return ""
}

// variables are the keys by the names of their variables.
func variables() map[string]string {
	keys := map[string]string{}
	for _, f := range fields {
		keys[variable(f.key)] = f.key
	}
	return keys
}

// variable is the name of a key in the environment.
func variable(key string) string {
	return prefix + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
}

// Set lays one key=value over the present values, the value in YAML.
func (c *Config) Set(assignment string) error {
	key, value, ok := strings.Cut(assignment, "=")
	if !ok {
		return fmt.Errorf("--set %s: found no '=', wanted key=value", assignment)
	}
	if err := c.set(strings.TrimSpace(key), value, typed); err != nil {
		return fmt.Errorf("--set %s: %w", assignment, err)
	}
	return nil
}

func (c *Config) set(key, value string, from Origin) error {
	if err := checkUTF8([]byte(value)); err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	if isSection(key) {
		return fmt.Errorf("%q is a group of keys, wanted one key such as %q", key, firstIn(key))
	}
	f, ok := find(key)
	texts := ok && f.typ == reflect.TypeFor[[]string]() && !strings.HasPrefix(value, "[")
	if (ok && f.typ.Kind() == reflect.String || texts) && !strings.HasPrefix(value, `"`) {
		// Plain text, also where YAML would read something else into it
		// ('*.txt' is an alias there).
		v := c.at(f)
		if f.typ.Kind() == reflect.String {
			v.SetString(value)
		} else if value == "" {
			v.Set(reflect.ValueOf([]string{})) // none, as an empty text is
		} else {
			v.Set(reflect.ValueOf([]string{value}))
		}
		c.origin[key] = from
		return nil
	}
	file, err := parse([]byte(value))
	if err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	if len(file.Docs) != 1 || file.Docs[0].Body == nil {
		return fmt.Errorf("%s: found nothing, wanted a value", key)
	}
	return c.assign(key, file.Docs[0].Body, from)
}

func firstIn(section string) string {
	for _, f := range fields {
		if strings.HasPrefix(f.key, section+".") {
			return f.key
		}
	}
	return section
}

// Values yields every key with its value, in the order of the file; the
// optimizer's own parameters as "optimizer.parameters.NAME".
func (c *Config) Values() iter.Seq2[string, any] {
	return func(yield func(string, any) bool) {
		for _, f := range fields {
			if f.key == "optimizer.parameters" {
				for _, name := range slices.Sorted(maps.Keys(c.Optimizer.Parameters)) {
					if !yield(f.key+"."+name, c.Optimizer.Parameters[name]) {
						return
					}
				}
				continue
			}
			if !yield(f.key, c.value(f)) {
				return
			}
		}
	}
}

// Value is the value of a key.
func (c *Config) Value(key string) any {
	f, _ := find(key)
	return c.value(f)
}

func (c *Config) value(f field) any { return c.at(f).Interface() }

// Apart lists key=value for what neither the defaults nor one of files say, as far as it tells two runs of the same files apart: values that a run
// may change as it resumes do not. Paths are spelt in one way.
func (c *Config) Apart(files []string) (out []string) {
	for key, value := range c.Values() {
		if c.Given(key) && !c.GivenIn(key, files...) && ResumeOf(key) != Free {
			out = append(out, key+"="+inline(spelt(key, value)))
		}
	}
	return out
}

// spelt is a value with its paths as short as they can be written from where the process stands.
func spelt(key string, value any) any {
	switch v := value.(type) {
	case []string:
		if ResumeOf(key) == ByContent {
			return shortest(v)
		}
	case []Source:
		out := slices.Clone(v)
		for i := range out {
			out[i].Text, out[i].JSONL = shortest(v[i].Text), shortest(v[i].JSONL)
		}
		return out
	case []reward.Spec:
		out := slices.Clone(v)
		for i := range out {
			if out[i].Model != "" {
				out[i].Model = shortest([]string{v[i].Model})[0]
			}
		}
		return out
	case string:
		if ResumeOf(key) == ByPlace && v != "" {
			return shortest([]string{v})[0]
		}
	}
	return value
}

func shortest(paths []string) []string {
	if paths == nil {
		return nil
	}
	out := []string{}
	here, err := os.Getwd()
	for _, p := range paths {
		if short, not := filepath.Rel(here, p); err == nil && not == nil && filepath.IsAbs(p) && filepath.IsLocal(short) {
			p = short
		}
		out = append(out, filepath.Clean(p))
	}
	return out
}

// ReadAll loads the files in order, then the environment, then the
// assignments.
func ReadAll(files []string, environ, sets []string) (*Config, error) {
	return Layers(func(c *Config) error {
		for _, f := range files {
			if err := c.File(f); err != nil {
				return err
			}
		}
		return nil
	}, environ, sets)
}

// Layers is ReadAll with what lay lays instead of files.
func Layers(lay func(c *Config) error, environ, sets []string) (*Config, error) {
	c := New()
	if err := CheckVariables(environ); err != nil {
		return nil, err
	}
	if err := lay(c); err != nil {
		return nil, err
	}
	if err := c.Environment(environ); err != nil {
		return nil, err
	}
	for _, s := range sets {
		if err := c.Set(s); err != nil {
			return nil, err
		}
	}
	c.layRead()
	return c, c.Validate()
}
