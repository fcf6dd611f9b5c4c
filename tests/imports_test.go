package tests

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// layers is the order of ARCHITECTURE.md, top first: a package imports from layers below its own only, or from its own.
// A package is of the longest name here that it has as its beginning.
var layers = []string{
	"cmd", "run", "internal/ranks/cluster", "pipeline", "state", "state/checkpoint", "internal/ranks/mesh", "internal/ranks/transport", "internal/timeline",
	"internal/schedule", "run/data/texts", "run/data", "text/chat", "text", "hub", "model", "graph", "optim", "kron", "internal/histogram", "buffers",
	"internal/gputest", "internal/trace", "gpu", "shaders", "internal",
}

// imported is what `go list -json` says of a package.
type imported struct {
	ImportPath                         string
	Imports, TestImports, XTestImports []string
}

func TestImportsPointDown(t *testing.T) {
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports,TestImports,XTestImports", "gputrain/...").Output()
	require.NoError(t, err)
	packages := 0
	for d := json.NewDecoder(strings.NewReader(string(out))); ; packages++ {
		var p imported
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else {
			require.NoError(t, err)
		}
		for _, to := range p.Imports {
			assert.NoError(t, edge(p.ImportPath, to))
			assert.NotContains(t, []string{"encoding/gob", "plugin"}, to, "%s: files are JSON, YAML, safetensors and events: none can run code", p.ImportPath)
		}
		for _, to := range slices.Concat(p.TestImports, p.XTestImports) {
			// Any test may open a device, and hold a parser to a bound.
			if to != "gputrain/internal/gputest" && to != "gputrain/tests/frugal" {
				assert.NoError(t, edge(p.ImportPath, to))
			}
		}
	}
	assert.Greater(t, packages, 10)
}

// TestDescribedWithoutADevice: what describes a model links no GPU, so that a program that only plans, converts or evaluates needs no driver.
func TestDescribedWithoutADevice(t *testing.T) {
	for _, described := range []string{"gputrain/graph", "gputrain/model"} {
		out, err := exec.Command("go", "list", "-deps", described).Output()
		require.NoError(t, err)
		linked := strings.Fields(string(out))
		assert.Contains(t, linked, described)
		assert.NotContains(t, linked, "gputrain/gpu", "%s links it", described)
		assert.NotContains(t, linked, "gputrain/shaders", "%s links it", described)
	}
}

// TestTrainedWithoutReaders: what trains takes batches, and text from a tokenizer of its own words. Files of text, chat templates and tokenizers are for the one
// that opens them.
func TestTrainedWithoutReaders(t *testing.T) {
	readers := []string{"gputrain/run/data/texts", "gputrain/run/data/texts/internal/parquet", "gputrain/text/chat", "gputrain/text/chat/template", "gputrain/text/tokenizer"}
	for _, trains := range []string{"gputrain/run/train", "gputrain/run/runfile"} {
		out, err := exec.Command("go", "list", "-deps", trains).Output()
		require.NoError(t, err)
		linked := strings.Fields(string(out))
		assert.Contains(t, linked, "gputrain/run/data")
		assert.Empty(t, slices.DeleteFunc(linked, func(p string) bool { return !slices.Contains(readers, p) }), "%s links them", trains)
	}
	out, err := exec.Command("go", "list", "-deps", "gputrain/run/setup").Output()
	require.NoError(t, err)
	assert.Subset(t, strings.Fields(string(out)), readers)
}

// opensModels are the packages that may import hub; what else trains takes values.
var opensModels = []string{"gputrain/hub", "gputrain/state", "gputrain/run/train", "gputrain/run/setup", "gputrain/cmd", "gputrain/tests"}

// TestOnlyHubOpensModels: a model on disk is opened in hub, which alone knows GGUF but for the command that writes such
// files; and hub is asked by the loader of checkpoints and by what makes a run, so that each model is opened once and
// closed by who has opened it.
func TestOnlyHubOpensModels(t *testing.T) {
	out, err := exec.Command("go", "list", "-f", "{{.ImportPath}} {{join .Imports \" \"}}", "gputrain/...").Output()
	require.NoError(t, err)
	for line := range strings.Lines(string(out)) {
		all := strings.Fields(line)
		from, imports := all[0], all[1:]
		below := func(path string) bool { return from == path || strings.HasPrefix(from, path+"/") }
		if !slices.ContainsFunc(opensModels, below) {
			assert.NotContains(t, imports, "gputrain/hub", from)
		}
		if !below("gputrain/hub") && from != "gputrain/cmd/gputrain" {
			assert.NotContains(t, imports, "gputrain/hub/gguf", from)
			assert.NotContains(t, imports, "gputrain/hub/gguf/llamacpp", from)
		}
	}
	var calls []string
	require.NoError(t, filepath.WalkDir("..", func(path string, e fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.HasPrefix(path, filepath.Join("..", "hub")) {
			return err
		}
		text, err := os.ReadFile(path)
		if regexp.MustCompile(`(?m)^[^/\n]*\bhub\.Open`).Match(text) && !slices.Contains(calls, filepath.ToSlash(filepath.Dir(path))) {
			calls = append(calls, filepath.ToSlash(filepath.Dir(path)))
		}
		return err
	}))
	assert.Equal(t, []string{"../run/setup", "../state"}, calls)
}

// TestPlansOpenNothing: what a run is follows from values alone.
func TestPlansOpenNothing(t *testing.T) {
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports", "gputrain/run/plan").Output()
	require.NoError(t, err)
	var p imported
	require.NoError(t, json.Unmarshal(out, &p))
	assert.Contains(t, p.Imports, "gputrain/run/runfile")
	for _, opens := range []string{"os", "io", "io/fs", "path/filepath", "time", "context", "gputrain/gpu", "gputrain/hub", "gputrain/state/checkpoint", "gputrain/run/data/texts"} {
		assert.NotContains(t, p.Imports, opens)
	}
}

func edge(from, to string) error {
	if !strings.HasPrefix(to, "gputrain/") {
		return nil
	}
	a, b := layer(from), layer(to)
	if a == b || strings.HasPrefix(from, "gputrain/tests") {
		return nil
	}
	i, j := slices.Index(layers, a), slices.Index(layers, b)
	switch {
	case i < 0 || j < 0:
		return errors.New(from + " imports " + to + ": a folder that ARCHITECTURE.md does not have")
	case i >= j:
		return errors.New(from + " imports " + to + ": wanted imports that point down the list of ARCHITECTURE.md")
	}
	return nil
}

// layer is the longest of the layers' names that the path of a package begins with.
func layer(path string) string {
	path = strings.TrimPrefix(path, "gputrain/")
	for ; path != "." && !slices.Contains(layers, path); path = filepath.ToSlash(filepath.Dir(path)) {
	}
	return path
}

func TestEdgeRefusesWhatPointsUp(t *testing.T) {
	assert.NoError(t, edge("gputrain/graph", "gputrain/buffers/prng"))
	assert.NoError(t, edge("gputrain/cmd/gputrain", "gputrain/cmd/gputrain/doctor"))
	assert.NoError(t, edge("gputrain/state", "gputrain/internal/ranks/mesh"))
	assert.Error(t, edge("gputrain/gpu", "gputrain/buffers"))
	assert.Error(t, edge("gputrain/state", "gputrain/run/train"))
	assert.Error(t, edge("gputrain/state/checkpoint", "gputrain/state"))
	assert.Error(t, edge("gputrain/gpu", "gputrain/util"))
}
