package data

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// generated is the line by which generated Go files are known (go help generate).
var generated = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.\r?$`)

// builtIn lists the built-in corpus: the Go source of the toolchain at hand. Without a toolchain it is the text that the archives of the program have beside
// it, and the note says so.
func builtIn(r *reading) (files []file, name, note string, err error) {
	files, err = goSource(r)
	if !errors.Is(err, exec.ErrNotFound) {
		return files, "Go source of the toolchain", "", err
	}
	program, noProgram := os.Executable()
	beside, noText := findFiles(filepath.Dir(program), []string{"text/*.txt"})
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
	files, err := findFiles("", []string{filepath.ToSlash(goroot) + "/src/**/*.go"})
	if err != nil {
		return nil, fmt.Errorf("data: built-in text: GOROOT %q: %w", goroot, err)
	}
	kept := files[:0]
	for _, f := range files {
		if strings.HasSuffix(f.path, "_test.go") {
			continue
		}
		content, err := r.file(f.path)
		if err != nil {
			return nil, fmt.Errorf("data: built-in text: %w", err)
		}
		if !generated.Match(header(content)) {
			kept = append(kept, f)
		}
	}
	return kept, nil
}

// header returns the comments and blank lines before the first line of code:
// only there does the line count, so that a generator's own template does not.
func header(src []byte) []byte {
	rest := src
	for len(rest) > 0 {
		line, after, _ := bytes.Cut(rest, []byte("\n"))
		trimmed := bytes.TrimSpace(line)
		switch {
		case len(trimmed) == 0, bytes.HasPrefix(trimmed, []byte("//")):
			rest = after
		case bytes.HasPrefix(trimmed, []byte("/*")):
			_, closed, ok := bytes.Cut(rest, []byte("*/"))
			if !ok {
				return src
			}
			rest = closed
		default:
			return src[:len(src)-len(rest)]
		}
	}
	return src
}
