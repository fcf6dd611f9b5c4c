package tests

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/run/runfile"
)

// budget is how large each part of the house may be. Who needs more takes something away in the same commit, or raises the number in one that says why.
var budget = map[string]int{
	"lines of gpu, shaders, buffers, graph, optim, kron": 40350,
	"lines of model, state, pipeline":                    25450,
	"lines of run":                                       29250,
	"lines of hub, text":                                 17100,
	"lines of cmd":                                       25200,
	"lines of internal":                                  8800,
	"lines of tools":                                     4700,
	"lines of tests":                                     92600,
	"exported names":                                     1094,
	"commands":                                           27,
	"keys of the run file":                               188,
}

func TestBudget(t *testing.T) {
	found := map[string]int{"commands": commands(t)}
	for range runfile.New().Values() {
		found["keys of the run file"]++
	}
	rings := map[string]string{"tests": "lines of tests"} // by folder
	for name := range budget {
		if folders, ok := strings.CutPrefix(name, "lines of "); ok {
			for _, folder := range strings.Split(folders, ", ") {
				rings[folder] = name
			}
		}
	}
	for folder, ring := range rings {
		require.NoError(t, filepath.WalkDir(filepath.Join("..", folder), func(path string, d fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") {
				return err
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			of := ring
			if strings.HasSuffix(path, "_test.go") {
				of = rings["tests"]
			} else if !slices.Contains([]string{"cmd", "internal", "tests", "tools"}, folder) && !strings.Contains(filepath.ToSlash(path), "/internal/") {
				found["exported names"] += exported(t, path, text)
			}
			found[of] += bytes.Count(text, []byte("\n"))
			return nil
		}))
	}
	for name, most := range budget {
		assert.LessOrEqual(t, found[name], most, name)
		assert.Greater(t, found[name], most*9/10, "%s: lower the number", name)
	}
}

// exported counts the names that a file gives to other packages, without methods and fields.
func exported(t *testing.T, path string, text []byte) (n int) {
	file, err := parser.ParseFile(token.NewFileSet(), path, text, parser.SkipObjectResolution)
	require.NoError(t, err)
	count := func(names ...*ast.Ident) {
		for _, name := range names {
			if name.IsExported() {
				n++
			}
		}
	}
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil {
				count(d.Name)
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					count(s.Name)
				case *ast.ValueSpec:
					count(s.Names...)
				}
			}
		}
	}
	return n
}

// commands counts those that the help shows.
func commands(t *testing.T) int {
	text, err := os.ReadFile("../cmd/gputrain/main.go")
	require.NoError(t, err)
	return len(slices.DeleteFunc(regexp.MustCompile("(?m)^\t[A-Z]\\w+ +[a-z]\\w*Cmd +`cmd:\"\".*$").FindAll(text, -1), func(line []byte) bool {
		return bytes.Contains(line, []byte("hidden"))
	}))
}
