package texts

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"gputrain/internal/stranger"
)

// file is one input file: where it is, what it is called in messages (its path below the fixed part of the pattern), and its size.
type file struct {
	path string
	name string
	size int64
}

// Kinds of files, as errors name them, and how the names of most end.
const (
	ofText = "text"
	ofRows = "jsonl"
)

var suffixes = map[string]string{ofText: ".txt", ofRows: ".jsonl"}

// findFiles expands patterns into regular files in path order, each file once.
// `*`, `?` and `[...]` match inside one path element, `**` any number of
// directories. A pattern that names an existing file is taken literally. A
// pattern that finds nothing, or only directories, is an error that names it. Relative ones begin in dir.
func findFiles(dir string, patterns []string, kind string) ([]file, error) {
	seen := map[string]bool{}
	var files []file
	for _, p := range patterns {
		found, err := expand(dir, p, kind)
		if err != nil {
			return nil, err
		}
		for _, f := range found {
			if !seen[f.path] {
				seen[f.path] = true
				files = append(files, f)
			}
		}
	}
	slices.SortFunc(files, func(a, b file) int { return strings.Compare(a.path, b.path) })
	return files, nil
}

func expand(dir, pattern, kind string) ([]file, error) {
	if pattern == "" {
		return nil, fmt.Errorf("data: %s: found an empty pattern, wanted one", kind)
	}
	slashed := filepath.ToSlash(pattern)
	in := func(relative string) string {
		if dir == "" || filepath.IsAbs(relative) {
			return relative
		}
		return filepath.ToSlash(filepath.Join(dir, relative))
	}
	info, unread := os.Stat(in(pattern))
	if unread == nil {
		if info.IsDir() {
			hint := strings.TrimRight(slashed, "/")
			return nil, fmt.Errorf("data: %s %q: found a directory, wanted files: write %q for all below it or %q for those in it",
				kind, pattern, hint+"/**/*"+suffixes[kind], hint+"/*"+suffixes[kind])
		}
		f, err := regular(in(slashed), path.Base(slashed), kind, info)
		return []file{f}, err
	}
	root, rest := splitPattern(slashed)
	if len(rest) == 0 {
		return nil, fmt.Errorf("data: %s %q: %w", kind, pattern, cause(unread))
	}
	if _, err := path.Match(strings.Join(rest, "/"), ""); err != nil {
		return nil, fmt.Errorf("data: %s %q: %w", kind, pattern, err)
	}
	w := walker{root: in(root), kind: kind}
	if err := w.walk("", rest); err != nil {
		return nil, fmt.Errorf("data: %s %q: %w", kind, pattern, err)
	}
	if len(w.files) == 0 && len(w.dirs) > 0 {
		return nil, fmt.Errorf("data: %s %q: found only directories (%s), wanted files: add %q", kind, pattern, w.dirs[0], "/**/*"+suffixes[kind])
	}
	if len(w.files) == 0 {
		return nil, fmt.Errorf("data: %s %q: no file matches: %w", kind, pattern, fs.ErrNotExist)
	}
	return w.files, nil
}

// cause is why there is no file: without the path, which the pattern says, and in the same words on every system where nothing is there.
func cause(err error) error {
	var at *fs.PathError
	if errors.Is(err, fs.ErrNotExist) {
		return fs.ErrNotExist
	}
	if errors.As(err, &at) {
		return at.Err
	}
	return err
}

// splitPattern parts a pattern into its leading directory without wildcards and
// the remaining elements.
func splitPattern(pattern string) (root string, rest []string) {
	elements := strings.Split(pattern, "/")
	fixed := 0
	for fixed < len(elements) && !strings.ContainsAny(elements[fixed], `*?[\`) {
		fixed++
	}
	root = strings.Join(elements[:fixed], "/")
	switch {
	case root == "" && fixed > 0:
		root = "/"
	case root == "":
		root = "."
	}
	for _, e := range elements[fixed:] {
		if e != "" {
			rest = append(rest, e)
		}
	}
	return root, rest
}

// walker collects what matches below root; paths are slash separated.
type walker struct {
	kind  string
	root  string
	files []file
	dirs  []string
}

func (w *walker) walk(below string, elements []string) error {
	dir := path.Join(w.root, below)
	entries, err := os.ReadDir(dir)
	if err != nil {
		if os.IsNotExist(err) {
			return nil
		}
		return err
	}
	head, last := elements[0], len(elements) == 1
	if head == "**" {
		if last { // a/** means every file below a
			elements = append(elements, "*")
		}
		if err := w.walk(below, elements[1:]); err != nil {
			return err
		}
		for _, e := range entries {
			if e.IsDir() { // links to directories are not followed: they may loop
				if err := w.walk(path.Join(below, e.Name()), elements); err != nil {
					return err
				}
			}
		}
		return nil
	}
	for _, e := range entries {
		if ok, err := path.Match(head, e.Name()); err != nil || !ok {
			if err != nil {
				return err
			}
			continue
		}
		name := path.Join(below, e.Name())
		info, err := os.Stat(path.Join(w.root, name))
		if err != nil {
			return err
		}
		switch {
		case info.IsDir() && last:
			w.dirs = append(w.dirs, path.Join(w.root, name))
		case info.IsDir():
			if err := w.walk(name, elements[1:]); err != nil {
				return err
			}
		case last:
			f, err := regular(path.Join(w.root, name), name, w.kind, info)
			if err != nil {
				return err
			}
			w.files = append(w.files, f)
		}
	}
	return nil
}

// regular refuses devices, pipes and sockets: reading them may never end.
func regular(p, name, kind string, info fs.FileInfo) (file, error) {
	if err := stranger.Regular(info); err != nil {
		return file{}, fmt.Errorf("data: %s %q: %w: copy what it gives into one", kind, p, err)
	}
	return file{path: path.Clean(p), name: name, size: info.Size()}, nil
}
