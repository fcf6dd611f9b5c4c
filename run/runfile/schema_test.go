package runfile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// marked is what editors say of files by the schema, "" for one that it has; see tools/schema.
func marked(t *testing.T, files []string) (said []string) {
	t.Helper()
	var schema bytes.Buffer
	require.NoError(t, Schema(&schema))
	in, err := json.Marshal(map[string]any{"schema": json.RawMessage(schema.Bytes()), "files": files})
	require.NoError(t, err)
	editor := exec.Command("go", "run", "-C", "../../tools", "./schema")
	editor.Stdin, editor.Stderr = bytes.NewReader(in), os.Stderr
	out, err := editor.Output()
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(out, &said))
	require.Len(t, said, len(files))
	return said
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
	paths, err := filepath.Glob("../../docs/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		require.NoError(t, err)
		files[path] = string(raw)
	}
	pages, err := filepath.Glob("../../*.md")
	require.NoError(t, err)
	more, err := filepath.Glob("../../docs/*.md")
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
	files := documented(t)
	require.Greater(t, len(files), 3)
	names := slices.Collect(maps.Keys(files))
	var texts []string
	for _, name := range names {
		texts = append(texts, files[name])
	}
	for i, mark := range marked(t, texts) {
		assert.Empty(t, mark, names[i])
		assert.NoError(t, read(texts[i]), names[i])
	}
}

func TestSchemaRefusesWrongFiles(t *testing.T) {
	wrong := map[string]string{
		"train: {stpes: 3}":                              "additional properties 'stpes' not allowed",
		"modle: {layers: 3}":                             "additional properties 'modle' not allowed",
		"train: {steps: many}":                           "got string, want integer",
		"train: {steps: 1.5}":                            "got number, want integer",
		"train: {steps: 0}":                              "minimum: got 0, want 1",
		"train: {steps: null}":                           "got null, want integer",
		"train: 3":                                       "got number, want null or object",
		"train.steps: 3":                                 "additional properties 'train.steps' not allowed",
		"- 1":                                            "got array, want null or object",
		"model: {kind: gpt3}":                            "'gpt2', 'llama', 'mistral'",
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
		"pipeline: {adapters: [zero]}":                   "does not match pattern",
		"train: {seed: -1}":                              "minimum: got -1, want 0",
		"train: {save_async: yes}":                       "got string, want boolean",
		"data: {text: 3}":                                "got number, want string",
		"optimizer: {schedule: 0.1}":                     "got number, want null or object",
		"data: {packing: first-fit}":                     "value must be one of",
		"optimizer: {parameters: 3}":                     "got number, want null or object",
		"optimizer: {name: adafactor, factored: \"no\"}": "got string, want boolean",
	}
	files := slices.Collect(maps.Keys(wrong))
	for i, mark := range marked(t, files) {
		assert.Contains(t, mark, wrong[files[i]], files[i])
		assert.Error(t, read(files[i]), files[i])
	}
}

// Every number and every list of names has its rule, but for those of which every value can be meant; every rule has its key.
func TestRulesOfKeys(t *testing.T) {
	free := map[string]bool{"train.seed": true}
	names := map[string]bool{}
	var visit func(key string, typ reflect.Type)
	visit = func(key string, typ reflect.Type) {
		names[key] = true
		if _, own := reflect.New(typ).Interface().(converter); own {
			return
		}
		switch typ.Kind() {
		case reflect.Pointer, reflect.Slice:
			visit(key, typ.Elem())
		case reflect.Struct:
			for i := range typ.NumField() {
				visit(key+"."+keyOf(typ.Field(i)), typ.Field(i).Type)
			}
		case reflect.Int, reflect.Int64, reflect.Uint64, reflect.Float64:
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
