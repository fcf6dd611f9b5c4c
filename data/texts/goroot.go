package texts

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"gputrain/data"
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
	err = inOrder(r.ctx, slices.Values(source), func(f file) (looked, error) {
		text, err := r.header(f)
		made := bytes.Contains(text, []byte("// Code generated ")) && generated.Match(text) // the first is much quicker, and hardly any has it
		return looked{f, !made}, err
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

// headerBytes of a file nearly always have its header.
const headerBytes = 4 << 10

// header reads the header of a file: more than headerBytes of it only where these have no line of code.
func (r *reading) header(f file) ([]byte, error) {
	if f.size > headerBytes {
		start := make([]byte, headerBytes)
		_, err := r.do(f.path, -headerBytes, func() (int, error) { // it gets nobody further
			from, err := os.Open(f.path)
			if err != nil {
				return 0, err
			}
			defer from.Close()
			return len(start), data.ReadBytes(from, start, 0)
		})
		if err != nil {
			return nil, err
		}
		start = start[:bytes.LastIndexByte(start, '\n')+1] // in whole lines
		if text := header(start); len(text) < len(start) {
			return text, nil
		}
	}
	content, err := r.file(f.path)
	return header(content), err
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
