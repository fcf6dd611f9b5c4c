package tests

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/run/runfile"
)

// keysRun is what the settings of effects are laid over.
const keysRun = `
model:     {layers: 1, heads: 2, width: 16, context: 16}
optimizer: {learning_rate: 0.01, schedule: {learning_rate_end: 0.001}}
train:     {batch: 2, eval_tokens: 64, sample_tokens: 4}
`

// effect is what a key of the run file does: a run that has it differs from one that has not in what is seen.
type effect struct {
	key, value string   // the change, in YAML
	over       []string // key=value of both runs
	flags      []string // of both
	sees       func(*testing.T, look) any
	// What is seen without the change and with it; nil: any two that differ. Numbers may differ in the sixth digit.
	from, want any
	like       []string // key=value of a run without the change in which the same is seen; nil: of none
}

// keysOf lists the keys of a struct of the run file with those of its groups.
func keysOf(t reflect.Type, prefix string) []string {
	var keys []string
	for _, f := range reflect.VisibleFields(t) {
		name := f.Tag.Get("yaml")
		if f.Anonymous || name == "-" || !f.IsExported() {
			continue
		}
		key := prefix + name
		if name == ",inline" {
			keys = append(keys, keysOf(f.Type, prefix)...)
		} else if f.Type.Kind() == reflect.Struct {
			keys = append(keys, keysOf(f.Type, key+".")...)
		} else {
			keys = append(keys, key)
		}
	}
	return keys
}

// nested is a key with its value as a run file has it.
func nested(key, value string) string {
	parts := strings.Split(key, ".")
	return strings.Join(parts, ": {") + ": " + value + strings.Repeat("}", len(parts)-1) + "\n"
}

// variable is a key's name in the environment.
func variable(key string) string {
	return "GPUTRAIN_" + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
}

// runs are those that effects are seen in: each is made once.
type runs struct {
	place *place
	mu    sync.Mutex
	made  map[string]*made
}

type made struct {
	once sync.Once
	look look
}

// layers are where a change may stand.
const (
	inFile = iota
	inEnvironment
	inSet
	inNone
)

// run makes the run of some settings, with a change that stands in one of the layers.
func (r *runs) run(t *testing.T, over, flags []string, layer int, key, value string) look {
	t.Helper()
	id := strings.Join(slices.Concat(over, flags, []string{fmt.Sprint(layer), key, value}), "\n")
	r.mu.Lock()
	m := r.made[id]
	if m == nil {
		m = &made{look: look{dir: r.place.path(fmt.Sprintf("run%03d", len(r.made)))}}
		r.made[id] = m
	}
	r.mu.Unlock()
	m.once.Do(func() {
		under, files := slices.Clone(over), []string{"keys.yaml"}
		names := func(prefix string) bool {
			return slices.ContainsFunc(over, func(set string) bool { return strings.HasPrefix(set, prefix) })
		}
		if !names("data.epochs=") && !names("train.steps=") {
			under = append(under, "train.steps=3")
		}
		if !names("data.") {
			under = append(under, "data.text=text.txt", "data.validation=0.1")
		}
		file := func(key, value string) {
			name := fmt.Sprintf("%s-%d.yaml", filepath.Base(m.look.dir), len(files))
			r.place.write(t, name, nested(key, value))
			files = append(files, name)
		}
		for _, set := range under {
			key, value, _ := strings.Cut(set, "=")
			file(key, value)
		}
		if layer == inFile {
			file(key, value)
		}
		c := r.place.command(slices.Concat([]string{"train"}, files, []string{"--run-dir", m.look.dir, "--progress", "plain"}, flags)...)
		switch layer {
		case inEnvironment:
			c.env = append(c.env, variable(key)+"="+value)
		case inSet:
			c.args = append(c.args, "--set", key+"="+value)
		}
		m.look.ended = c.run(t)
	})
	return m.look
}

// Every key of the run file does what its description says, wherever it stands: it is changed in a run of the program, and the change is
// seen. A key that has no entry fails. With -short every 40th is changed: that each layer reaches each key is seen without a process, and what
// a key does to a run in the tests of the package that does it.
func TestEveryKeyHasItsEffect(t *testing.T) {
	adapter(t)
	r := newRuns(t)
	var keys []string
	for i, e := range effects {
		keys = append(keys, e.key)
		t.Run(e.key, func(t *testing.T) {
			if testing.Short() && i%40 != 0 {
				t.Skip("without -short")
			}
			t.Parallel()
			e.hold(t, r, i/3)
		})
	}
	for _, key := range keysOf(reflect.TypeFor[runfile.Run](), "") {
		assert.True(t, slices.Contains(keys, key) || apart[key] != "", "key %s has no entry in effects", key)
	}
}

// hold makes the runs of an effect and compares what is seen. Which layer the change stands in goes round.
func (e effect) hold(t *testing.T, r *runs, i int) {
	before := r.run(t, e.over, e.flags, inNone, "", "")
	after := r.run(t, e.over, e.flags, []int{inFile, inEnvironment, inSet}[i%3], e.key, e.value)
	from, want := e.sees(t, before), e.sees(t, after)
	said := fmt.Sprintf("without %s=%s:\n%swith it:\n%s", e.key, e.value, before.err, after.err)
	require.False(t, alike(from, want), "%s=%s changes nothing: %v\n%s", e.key, e.value, from, said)
	if e.from != nil {
		assert.True(t, alike(e.from, from), "without %s=%s: found %v, wanted %v\n%s", e.key, e.value, from, e.from, said)
	}
	if e.want != nil {
		assert.True(t, alike(e.want, want), "with %s=%s: found %v, wanted %v\n%s", e.key, e.value, want, e.want, said)
	}
	if e.like != nil {
		other := r.run(t, e.like, e.flags, inNone, "", "")
		assert.True(t, alike(e.sees(t, other), want), "with %s=%s: found %v, wanted what is seen with %v\n%s%s", e.key, e.value, want, e.like, said, other.err)
	}
}

// Every layer takes every key to the same value, each over those below.
func TestEveryLayerReachesEveryKey(t *testing.T) {
	for _, e := range effects {
		told := e.key // by which its origin is asked for
		if told == "optimizer.parameters" {
			told += ".b1"
		}
		file := runfile.New()
		require.NoError(t, file.Parse("run.yaml", []byte(nested(e.key, e.value))), e.key)
		environment := runfile.New()
		require.NoError(t, environment.Environment([]string{variable(e.key) + "=" + e.value}), e.key)
		set := runfile.New()
		require.NoError(t, set.Set(e.key+"="+e.value), e.key)
		assert.NotEqual(t, runfile.Default(), file.Run, e.key)
		assert.Equal(t, file.Run, environment.Run, e.key)
		assert.Equal(t, file.Run, set.Run, e.key)

		path := filepath.Join(t.TempDir(), "run.yaml")
		require.NoError(t, os.WriteFile(path, []byte(nested(e.key, e.value)), 0o666))
		origin := func(environ, sets []string) runfile.Origin {
			c, _ := runfile.ReadAll([]string{path}, environ, sets)
			if c == nil {
				c = runfile.New()
			}
			return c.Origin(told)
		}
		assert.Equal(t, runfile.Origin(path+":1"), origin(nil, nil), e.key)
		assert.Equal(t, runfile.Origin(variable(e.key)), origin([]string{variable(e.key) + "=" + e.value}, nil), e.key)
		assert.Equal(t, runfile.Origin("--set"), origin([]string{variable(e.key) + "=" + e.value}, []string{e.key + "=" + e.value}), e.key)
	}
}

// The schema has every key, with what it means.
func TestConfigSchema(t *testing.T) {
	t.Parallel()
	r := ok(t, newPlace(t).command("config", "schema").withoutAdapter())
	root := objects(t, r.out)[0]
	assert.Equal(t, "https://json-schema.org/draft/2020-12/schema", root["$schema"])
	for _, key := range keysOf(reflect.TypeFor[runfile.Run](), "") {
		at := root
		for _, name := range strings.Split(key, ".") {
			properties, _ := at["properties"].(map[string]any)
			at, _ = properties[name].(map[string]any)
		}
		assert.NotEmpty(t, at["description"], key)
		assert.Contains(t, at, "default", key)
	}
}
