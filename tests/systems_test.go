package tests

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/internal/gputest"
)

// The program's Go has no errors on any system that it is built for, as far as types tell. No C compiler for them is needed: what C declares may be
// anything.
func TestSystems(t *testing.T) {
	t.Parallel()
	for _, system := range gputest.Rows([]string{"windows/amd64", "linux/arm64", "darwin/arm64", "linux/amd64"}, 2) {
		t.Run(system, func(t *testing.T) {
			t.Parallel()
			assert.Greater(t, checkSystem(t, system), 50, "packages of the program")
		})
	}
}

// checkSystem checks the types of the program's packages, and returns how many there are.
func checkSystem(t *testing.T, system string) (own int) {
	t.Helper()
	goos, goarch, _ := strings.Cut(system, "/")
	list := exec.Command("go", "list", "-deps", "-json=ImportPath,Dir,GoFiles,CgoFiles,ImportMap", "gputrain/cmd/gputrain")
	list.Env = append(os.Environ(), "GOOS="+goos, "GOARCH="+goarch, "CGO_ENABLED=1")
	out, err := list.Output()
	require.NoError(t, err)
	checked := imports{"unsafe": types.Unsafe}
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p struct {
			ImportPath, Dir   string
			GoFiles, CgoFiles []string
			ImportMap         map[string]string
		}
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return own
		}
		require.NoError(t, err)
		if p.ImportPath == "unsafe" {
			continue
		}
		ours := strings.HasPrefix(p.ImportPath, "gputrain/")
		files := token.NewFileSet()
		var parsed []*ast.File
		for _, name := range slices.Concat(p.GoFiles, p.CgoFiles) {
			f, err := parser.ParseFile(files, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			require.NoError(t, err)
			parsed = append(parsed, f)
		}
		for path, vendored := range p.ImportMap {
			checked[path] = checked[vendored]
		}
		config := types.Config{
			Importer: checked, FakeImportC: true, IgnoreFuncBodies: !ours, Sizes: types.SizesFor("gc", goarch),
			Error: func(err error) {
				if ours && !strings.Contains(err.Error(), "invalid type") { // which is what a type of C's is
					assert.NoError(t, err)
				}
			},
		}
		checked[p.ImportPath], _ = config.Check(p.ImportPath, files, parsed, nil)
		if ours {
			own++
		}
	}
}

// imports are packages by path; go list lists a package after all that it imports.
type imports map[string]*types.Package

func (i imports) Import(path string) (*types.Package, error) {
	if p := i[path]; p != nil {
		return p, nil
	}
	return nil, errors.New("not listed")
}
