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

// file is one input file.
type file struct {
	path string
	size int64
}

// Kinds of files, as errors name them, and how the names of most end.
const (
	ofText = "text"
	ofRows = "jsonl"
	ofHeld = "held"
)

var suffixes = map[string]string{ofText: ".txt", ofRows: ".jsonl", ofHeld: ".jsonl"}

// findFiles expands patterns into regular files in path order, each file once.
// `*`, `?` and `[...]` match inside one path element, `**` any number of
// directories. A pattern that names an existing file is taken literally. A
// pattern that finds nothing, or only directories, is an error that names it. Relative ones begin in dir.
func findFiles(dir string, patterns []string, kind string) ([]file, error) {
	var files []file
	for _, p := range patterns {
		found, err := expand(dir, p, kind)
		if err != nil {
			return nil, err
		}
		files = append(files, found...)
	}
	slices.SortFunc(files, func(a, b file) int { return strings.Compare(a.path, b.path) })
	return slices.CompactFunc(files, func(a, b file) bool { return a.path == b.path }), nil
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
			if set, err := FindDataSet(in(pattern)); kind == ofRows && err == nil {
				hint = fmt.Sprintf("name those to train on (%d, the first %q)", len(set.Train), set.Train[0])
				if len(set.Held) > 0 {
					hint += fmt.Sprintf(", and in data.held those of its split %s (%d, the first %q)", set.Split, len(set.Held), set.Held[0])
				}
				return nil, fmt.Errorf("data: %s %q: found a directory, wanted files: %s", kind, pattern, hint)
			}
			return nil, fmt.Errorf("data: %s %q: found a directory, wanted files: write %q for all below it or %q for those in it",
				kind, pattern, hint+"/**/*"+suffixes[kind], hint+"/*"+suffixes[kind])
		}
		f, err := regular(in(slashed), kind, info)
		return []file{f}, err
	}
	root, rest := splitPattern(slashed)
	if len(rest) == 0 {
		return nil, fmt.Errorf("data: %s %q: %w", kind, pattern, cause(unread))
	}
	if _, err := path.Match(strings.Join(rest, "/"), ""); err != nil {
		return nil, fmt.Errorf("data: %s %q: %w", kind, pattern, err)
	}
	w := walker{kind: kind}
	if err := w.walk(in(root), rest); err != nil {
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
	fixed := slices.IndexFunc(elements, func(e string) bool { return strings.ContainsAny(e, `*?[\`) })
	if fixed < 0 {
		fixed = len(elements)
	}
	root = strings.Join(elements[:fixed], "/")
	switch {
	case root == "" && fixed > 0:
		root = "/"
	case root == "":
		root = "."
	}
	return root, slices.DeleteFunc(elements[fixed:], func(e string) bool { return e == "" })
}

// walker collects what matches; paths are slash separated.
type walker struct {
	kind  string
	files []file
	dirs  []string
}

// walk goes through what matches elements of a pattern below a directory.
func (w *walker) walk(dir string, elements []string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	head, last := elements[0], len(elements) == 1
	if head == "**" {
		if last { // a/** means every file below a
			elements = append(elements, "*")
		}
		if err := w.walk(dir, elements[1:]); err != nil {
			return err
		}
		for _, e := range entries {
			if e.IsDir() { // links to directories are not followed: they may loop
				if err := w.walk(path.Join(dir, e.Name()), elements); err != nil {
					return err
				}
			}
		}
		return nil
	}
	for _, e := range entries {
		switch ok, err := path.Match(head, e.Name()); {
		case err != nil:
			return err
		case !ok:
			continue
		}
		found := path.Join(dir, e.Name())
		info, err := os.Stat(found)
		switch {
		case err != nil:
		case info.IsDir() && last:
			w.dirs = append(w.dirs, found)
		case info.IsDir():
			err = w.walk(found, elements[1:])
		case last:
			var f file
			f, err = regular(found, w.kind, info)
			w.files = append(w.files, f)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// regular refuses devices, pipes and sockets: reading them may never end.
func regular(p, kind string, info fs.FileInfo) (file, error) {
	if err := stranger.Regular(info); err != nil {
		return file{}, fmt.Errorf("data: %s %q: %w: copy what it gives into one", kind, p, err)
	}
	return file{path.Clean(p), info.Size()}, nil
}
