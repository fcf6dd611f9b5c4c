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
