package runfile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"gputrain/optim"
)

// editor is the schema as an editor has it: read by a validator, of files read by another YAML parser than ours.
type editor struct{ schema *jsonschema.Schema }

func newEditor(t *testing.T) editor {
	t.Helper()
	var text bytes.Buffer
	require.NoError(t, Schema(&text))
	tree, err := jsonschema.UnmarshalJSON(&text)
	require.NoError(t, err)
	c := jsonschema.NewCompiler()
	require.NoError(t, c.AddResource("run.schema.json", tree))
	compiled, err := c.Compile("run.schema.json") // holds it to the schema of schemas
	require.NoError(t, err)
	return editor{compiled}
}

func (e editor) check(t *testing.T, file string) error {
	t.Helper()
	var tree any
	if err := yaml.Unmarshal([]byte(file), &tree); err != nil {
		return err
	}
	text, err := json.Marshal(tree)
	require.NoError(t, err, file)
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	require.NoError(t, err)
	return e.schema.Validate(value)
}

// read is what the program says of a file.
func read(file string) error {
	c := New()
	if err := c.Parse("run.yaml", []byte(file)); err != nil {
		return err
	}
	return c.Validate()
}

// documented are the run files of the documentation and of the program itself, by name.
func documented(t *testing.T) map[string]string {
	t.Helper()
	files := map[string]string{}
	var text bytes.Buffer
	require.NoError(t, Template(&text))
	files["template"] = text.String()
	paths, err := filepath.Glob("../../../docs/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		require.NoError(t, err)
		files[path] = string(raw)
	}
	pages, err := filepath.Glob("../../../*.md")
	require.NoError(t, err)
	more, err := filepath.Glob("../../../docs/*.md")
	require.NoError(t, err)
	for _, path := range append(pages, more...) {
		raw, err := os.ReadFile(path)
		require.NoError(t, err)
		for i, block := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(raw), -1) {
			files[fmt.Sprintf("%s, block %d", path, i)] = block[1]
		}
	}
	return files
}

func TestSchemaHasTheDocumentedFiles(t *testing.T) {
	e := newEditor(t)
	files := documented(t)
	require.Greater(t, len(files), 3)
	for name, file := range files {
		assert.NoError(t, e.check(t, file), name)
		assert.NoError(t, read(file), name)
	}
}

func TestSchemaRefusesWrongFiles(t *testing.T) {
	e := newEditor(t)
	for file, want := range map[string]string{
		"train: {stpes: 3}":                              "additional properties 'stpes' not allowed",
		"modle: {layers: 3}":                             "additional properties 'modle' not allowed",
		"train: {steps: many}":                           "got string, want integer",
		"train: {steps: 1.5}":                            "got number, want integer",
		"train: {steps: 0}":                              "minimum: got 0, want 1",
		"train: {steps: null}":                           "got null, want integer",
		"train: 3":                                       "got number, want null or object",
		"train.steps: 3":                                 "additional properties 'train.steps' not allowed",
		"- 1":                                            "got array, want null or object",
		"model: {kind: gpt3}":                            "value must be one of 'gpt2', 'llama'",
		"model: {dropout: 1}":                            "maximum: got 1",
		"optimizer: {clip_grad: 0}":                      "exclusiveMinimum: got 0, want 0",
		"optimizer: {name: adam}":                        "value must be one of 'adafactor', 'adamw'",
		"optimizer: {beta: 0.9, name: adamw}":            "invalid propertyName 'beta'",
		"optimizer: {bta1: 0.9}":                         "additional properties 'bta1' not allowed",
		"optimizer: {name: lion, parameters: {eps: 1}}":  "additional properties 'eps' not allowed",
		"optimizer: {name: lion, b1: many}":              "got string, want number",
		"optimizer: {name: muon, ns_coeffs: [1, 2]}":     "minItems: got 2, want 3",
		"optimizer: {name: quad, refresh: {evry: 2}}":    "additional properties 'evry' not allowed",
		"optimizer: {schedule: {type: cosin}}":           "value must be one of 'constant', 'cosine'",
		"train: {time_limit: 2 hours}":                   "does not match pattern",
		"train: {memory_limit: lots}":                    "does not match pattern",
		"train: {save_every: [{every: 0}]}":              "minimum: got 0, want 1",
		"data: {mixture: [{text: a, weight: 0}]}":        "exclusiveMinimum",
		"data: {mixture: [{text: a}]}":                   "missing property 'weight'",
		"data: {mixture: [{txt: a, weight: 1}]}":         "additional properties 'txt' not allowed",
		"pipeline: {rules: [{match: a, stage: -1}]}":     "minimum: got -1, want 0",
		"pipeline: {adapters: [zero]}":                   "got string, want integer",
		"train: {seed: -1}":                              "minimum: got -1, want 0",
		"train: {save_async: yes}":                       "got string, want boolean",
		"data: {text: 3}":                                "got number, want string",
		"optimizer: {schedule: 0.1}":                     "got number, want null or object",
		"data: {packing: first-fit}":                     "value must be one of",
		"optimizer: {parameters: 3}":                     "got number, want null or object",
		"optimizer: {name: adafactor, factored: \"no\"}": "got string, want boolean",
	} {
		err := e.check(t, file)
		if assert.Error(t, err, file) {
			assert.Contains(t, err.Error(), want, file)
		}
		assert.Error(t, read(file), file)
	}
}

// unknowable are the errors of the program for files that the schema has: what Schema says that it does not know.
var unknowable = []string{
	"a divisor of",                        // pipeline.microbatches of train.batch
	"with pipeline.schedule",              // pipeline.chunks, pipeline.ahead
	"with the interleaved schedule",       // pipeline.chunks
	"one for each of the",                 // pipeline.adapters of pipeline.stages
	"one adapter for the one stage",       // the same
	"the last of pipeline.stages",         // pipeline.rules of pipeline.stages
	"found both, wanted one of them",      // data.text, data.jsonl, data.mixture
	"bytes, or files in data.text",        // data.tokens without files
	"without documents (data.jsonl)",      // data.eos, data.packing, data.long
	"nothing without data.jsonl",          // data.field
	"nothing without model.from",          // model.allow_missing
	"nothing without model.quantize.mode", // its other keys
	"model.quantize (",                    // bits and group of model.quantize.mode
	"without data.mixture",                // data.mixture_end
	"with data.packing stream",            // data.long
	"restart, whose epochs have no end",   // data.epochs
	"files in one of them",                // text and jsonl of a source
	"none of them for text",               // field of a source
	"a regular expression: ",              // its syntax
	"a time such as",                      // one too long
	"intervals whose until ascends",
	"an until in each interval but the last",
	"wanted more than warmup_steps", // optimizer.schedule.steps
	"of adamw",                      // parameters of another optimizer in a file without optimizer.name
	"found null, wanted a number",   // parameters that another optimizer allows null for, in such a file
	"optim: ",                       // ranges of parameters
}

// mutations are files with one key of some value.
func mutations() []string {
	values := strings.Split(strings.TrimSpace(`
null|""|text|"1"|-2|-1|0|1|2|3|5|1.5|0.5|1.0|1e3|1e7|3000000000|30000000000000000000|-0.5|true|false|[]|[1]|[-1]|[0.5]|[0, 1]|[text]|[text, null]|[null]|{h: null}|[[]]|[true]|{}|{a: 1}|{text: true}
90s|90|1d2h|2h1d|90 s|1.5h|-3s|999999999d|6GiB|6 GiB|1.5e3MB|0x10|six|'('|'['|['(']|['']|matrices|f32|bf16|none|[1, 2, 3]|[1, 2, text]|{every: 2}|{every: null}|{anneal: true}|{evry: 2}
[{every: 3}]|[{every: 3, until: 9}, {every: 5}]|[{every: 3}, {every: 5}]|[{every: 3, until: 9}, {every: 5, until: 8}]|[{every: 0}]|[{every: 3, until: null}]|[{until: 3}]|[{every: 3, each: 4}]|[{every: 3, until: -1}]
[{match: a, stage: 0}]|{match: a, stage: 0}|[{match: a, stage: 1}]|[{match: a}]|[{match: '', stage: 0}]|[{match: '(', stage: 0}]|[{match: a, stage: -1}]|[{match: 3, stage: 0}]
[{text: a, weight: 1}]|{text: [a, b], weight: 0.5}|[{text: a}]|[{text: null, jsonl: a, weight: 2}]|[{text: a, weight: 0}]|[{text: a, weight: one}]|[{text: a, weight: 1, share: 1}]|[{text: a, jsonl: b, weight: 1}]|[{text: a, weight: 1, field: x}]|[{jsonl: a, weight: 1, field: x}]|[{jsonl: a, weight: 1, field: null}]
`), "\n")
	all := strings.Split(strings.Join(values, "|"), "|")
	for _, r := range rules {
		if names, ok := r.(oneOf); ok {
			all = append(all, names...)
		}
	}
	nest := func(key, value string) string {
		parts := strings.Split(key, ".")
		return strings.Join(parts, ": {") + ": " + value + strings.Repeat("}", len(parts)-1)
	}
	var out []string
	for _, f := range fields {
		for _, v := range all {
			out = append(out, nest(f.key, v))
		}
		out = append(out, nest(f.key+"s", "1"), f.key+": 1")
	}
	for i := range reflect.TypeFor[Run]().NumField() {
		for _, v := range all {
			out = append(out, keyOf(reflect.TypeFor[Run]().Field(i))+": "+v)
		}
	}
	for _, name := range optim.Names() {
		d, _ := optim.Describe(name)
		for i, p := range append(d.Parameters, optim.Parameter{Name: "beta1"}, optim.Parameter{Name: "nothing_of_the_kind"}) {
			_, common := find("optimizer." + p.Name)
			for j, v := range all {
				switch {
				case common || (i+j)%3 == 0:
					out = append(out, fmt.Sprintf("optimizer: {name: %s, parameters: {%s: %s}}", name, p.Name, v))
				case (i+j)%3 == 1:
					out = append(out, fmt.Sprintf("optimizer: {name: %s, %s: %s}", name, p.Name, v))
				default:
					out = append(out, fmt.Sprintf("optimizer: {%s: %s}", p.Name, v))
				}
			}
		}
	}
	// What keys say together.
	return append(out, "", "null", "3", "[]", "text", "data: {text: a, jsonl: b}", "data: {jsonl: a, packing: stream, long: keep_end}", "data: {jsonl: a, packing: stream}",
		"data: {mixture: [{text: a, weight: 1}], epochs: 2}", "pipeline: {stages: 2, adapters: [0, 1, 2]}", "pipeline: {schedule: interleaved, chunks: 1}",
		"optimizer: {schedule: {steps: 5, warmup_steps: 5}}", "optimizer: {parameters: {weight_decay: null}}", "data: {jsonl: a, field: x, eos: 3}", "model: {quantize: {mode: affine, bits: 2, group: 32, match: [a]}}",
		"model: {quantize: {mode: affine, bits: 9}}", "model: {quantize: {mode: nf4, bits: 4}}", "model: {quantize: {mode: mxfp4, group: 64}}", "model: {quantize: {mode: nvfp4}}",
		"train: {batch: 4}\npipeline: {microbatches: 3}")
}

// A file that the program takes is one of the schema, and one that it refuses is none but for what a schema cannot know.
func TestSchemaAgreesWithTheReader(t *testing.T) {
	e := newEditor(t)
	met := map[string]int{}
	taken, refused := 0, 0
	for _, file := range mutations() {
		said, marked := read(file), e.check(t, file)
		if said == nil {
			taken++
			assert.NoError(t, marked, "the reader takes %q", file)
			continue
		}
		refused++
		if marked == nil {
			known := false
			for _, u := range unknowable {
				if strings.Contains(said.Error(), u) {
					known = true
					met[u]++
				}
			}
			assert.True(t, known, "the schema has %q, the reader says: %v", file, said)
		}
	}
	for _, u := range unknowable {
		assert.Positive(t, met[u], "no file was met of which the schema does not know: %s", u)
	}
	t.Logf("%d files taken, %d refused; of those the schema has %v", taken, refused, met)
	assert.Greater(t, taken, 500)
}

// Every number and every list of names has its rule, but for those of which every value can be meant; every rule has its key.
func TestRulesOfKeys(t *testing.T) {
	free := map[string]bool{"train.seed": true}
	names := map[string]bool{}
	var visit func(key string, typ reflect.Type)
	visit = func(key string, typ reflect.Type) {
		names[key] = true
		switch typ.Kind() {
		case reflect.Pointer, reflect.Slice:
			if typ != reflect.TypeFor[Intervals]() {
				visit(key, typ.Elem())
			}
		case reflect.Struct:
			for i := range typ.NumField() {
				visit(key+"."+keyOf(typ.Field(i)), typ.Field(i).Type)
			}
		case reflect.Int, reflect.Uint64, reflect.Float64:
			assert.True(t, free[key] != (rules[key] != nil), key)
		}
	}
	for _, f := range fields {
		visit(f.key, f.typ)
	}
	for key := range rules {
		assert.True(t, names[key], "a rule of %s, which is no key", key)
	}
}
