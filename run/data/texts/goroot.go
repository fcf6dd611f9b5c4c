package texts

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"gputrain/internal/ordered"
)

// builtIn lists the built-in corpus: the Go source of the toolchain at hand. Without a toolchain it is the text that the archives of the program have beside
// it, and the note says so.
func builtIn(r *reading) (files []file, name, note string, err error) {
	files, err = goSource(r)
	if !errors.Is(err, exec.ErrNotFound) {
		return files, "Go source of the toolchain", "", err
	}
	program, noProgram := os.Executable()
	beside, noText := findFiles(filepath.Dir(program), []string{"text/*.txt"}, ofText)
	if noProgram != nil || noText != nil {
		return nil, "", "", err
	}
	name = filepath.Base(beside[0].path)
	return beside, name, fmt.Sprintf("no Go toolchain found, whose source is the built-in text: learning from %s, beside the program; data.text='books/*.txt' names text of your own", name), nil
}

// goSource is src/**/*.go without tests and without generated files.
func goSource(r *reading) ([]file, error) {
	out, err := exec.CommandContext(r.ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return nil, fmt.Errorf("data: built-in text: go env GOROOT: %w: install Go, or name text of your own: data.text='books/*.txt'", err)
	}
	return goSourceBelow(r, strings.TrimSpace(string(out)))
}

func goSourceBelow(r *reading, goroot string) ([]file, error) {
	files, err := findFiles("", []string{filepath.ToSlash(goroot) + "/src/**/*.go"}, ofText)
	if err != nil {
		return nil, fmt.Errorf("data: built-in text: GOROOT %q: %w", goroot, err)
	}
	type looked struct {
		file
		written bool // by people
	}
	var kept []file
	source := slices.DeleteFunc(files, func(f file) bool { return strings.HasSuffix(f.path, "_test.go") })
	err = ordered.Do(r.ctx, slices.Values(source), func(f file) (looked, error) {
		var src []byte
		_, err := r.do(f.path, func() (_ int, err error) {
			src, err = os.ReadFile(f.path)
			return 0, err
		})
		// What is no Go is not generated.
		tree, _ := parser.ParseFile(token.NewFileSet(), f.path, src, parser.PackageClauseOnly|parser.ParseComments)
		return looked{f, tree == nil || !ast.IsGenerated(tree)}, err
	}, func(l looked) error {
		if l.written {
			kept = append(kept, l.file)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("data: built-in text: %w", err)
	}
	return kept, nil
}
