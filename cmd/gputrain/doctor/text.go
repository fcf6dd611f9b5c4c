package doctor

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gputrain/internal/suggest"
)

// A TextCase is a file of cases that need no device.
type TextCase struct {
	Name string // its path below the folder that was searched
	path string
}

// NoAdapter stands for the adapter in results of cases that need none.
const NoAdapter = "none"

// textKinds has what runs the cases of a file of each kind: it tells the first that differs, "" when none does.
var textKinds = map[string]func(c *textFile) (string, error){
	"tokenizer":     tokenizerCases,
	"sentencepiece": tokenizerCases,
	"decode":        decodeCases,
	"split":         splitCases,
	"train":         trainCase,
	"chat":          chatCases,
	"sft":           sftCases,
}

// textFile is a file of cases, and the folder it lies in.
type textFile struct {
	dir, path string
	raw       []byte
}

// FindCases lists what lies below a folder, or that itself, by its path from there: folders with a case.json, which are for a device, and files of cases, which
// are not.
func FindCases(root string) (devices map[string]fs.FS, texts []TextCase, err error) {
	devices = map[string]fs.FS{}
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		if d.IsDir() {
			if _, err := os.Stat(filepath.Join(path, "case.json")); err != nil {
				return nil
			}
			if name == "." {
				name = filepath.Base(path)
			}
			devices[name] = folder(path)
			return fs.SkipDir
		}
		if filepath.Ext(path) != ".json" {
			return nil
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		var h header
		damaged := json.Unmarshal(raw, &h) != nil && slices.Contains([]string{"cases.json", "decode.json"}, filepath.Base(path))
		if h.Kind != "" || damaged {
			texts = append(texts, TextCase{name, path})
		}
		return nil
	})
	return devices, texts, err
}

// Run runs the cases of a file.
func (c TextCase) Run() Result {
	r := Result{Case: c.Name, Adapter: NoAdapter}
	worst, err := c.run()
	if err != nil {
		r.Error = err.Error()
		return r
	}
	if r.Worst, r.Pass = worst, worst == ""; !r.Pass {
		r.MaxError = 1
	}
	return r
}

func (c TextCase) run() (string, error) {
	raw, err := os.ReadFile(c.path)
	if err != nil {
		return "", err
	}
	var h header
	if err := json.Unmarshal(raw, &h); err != nil {
		return "", fmt.Errorf("%s: %w", filepath.Base(c.path), err)
	}
	if h.FormatVersion != 1 {
		return "", fmt.Errorf("format_version %d, want 1", h.FormatVersion)
	}
	run, ok := textKinds[h.Kind]
	if !ok {
		known := slices.Sorted(maps.Keys(textKinds))
		return "", fmt.Errorf("kind %q, want one of %s%s", h.Kind, strings.Join(known, ", "), suggest.DidYouMean(h.Kind, known))
	}
	return run(&textFile{filepath.Dir(c.path), c.path, raw})
}

// decode reads the file; one without cases proves nothing.
func (f *textFile) decode(into any, cases func() int) error {
	if err := json.Unmarshal(f.raw, into); err != nil {
		return fmt.Errorf("%s: %w", filepath.Base(f.path), err)
	}
	if cases() == 0 {
		return errors.New("cases: found none")
	}
	return nil
}

// each runs cases until one differs.
func each[T any](cases []T, run func(where string, c T) (string, error)) (string, error) {
	for i, c := range cases {
		if worst, err := run(fmt.Sprintf("case %d", i), c); worst != "" || err != nil {
			return worst, err
		}
	}
	return "", nil
}

// differ says where two values are not equal.
func differ[T any](where string, got, want T) string {
	g, _ := json.Marshal(got)
	w, _ := json.Marshal(want)
	if string(g) == string(w) {
		return ""
	}
	return fmt.Sprintf("%s: found %.300s, want %.300s", where, g, w)
}
