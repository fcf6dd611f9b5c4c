package texts

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"gputrain/internal/stranger"
)

// DataSet is what the directory of a data set has, as Hugging Face's hub lays it out: files of rows by splits.
type DataSet struct {
	Train, Held []string // files; Held is the split validation, or else test, and empty where there is neither
	Split       string   // the name of Held
	Unread      []string // names of other splits
}

// Names of splits, as the hub knows them, those to train on and those to hold out, the better ones first.
var (
	trainSplits = []string{"train", "training"}
	heldSplits  = []string{"validation", "valid", "val", "dev", "test", "testing", "eval", "evaluation"}
)

// Bounds of what is looked at in a directory.
const (
	mostDepth = 4
	mostFiles = 100_000
)

// FindDataSet looks for the splits in the directory of a data set: those that the head of its README.md lists, or else by the names of its files and folders.
func FindDataSet(dir string) (d DataSet, err error) {
	splits, err := listedSplits(dir)
	if err == nil && splits == nil {
		splits, err = namedSplits(dir)
	}
	if err == nil {
		d, err = chosenSplits(dir, splits)
	}
	if err != nil {
		return d, fmt.Errorf("data set %q: %w", dir, err)
	}
	return d, nil
}

// chosenSplits are those to train on and to hold out, of all by name.
func chosenSplits(dir string, splits map[string][]string) (d DataSet, err error) {
	for _, name := range trainSplits {
		if d.Train = splits[name]; len(d.Train) > 0 {
			break
		}
	}
	for _, name := range heldSplits {
		if d.Held = splits[name]; len(d.Held) > 0 {
			d.Split = name
			break
		}
	}
	switch names := slices.Sorted(maps.Keys(splits)); {
	case len(d.Train) > 0:
		d.Unread = slices.DeleteFunc(names, func(name string) bool { return name == d.Split || slices.Contains(trainSplits, name) })
	case len(names) == 1 && d.Split == "":
		d.Train = splits[names[0]]
	default:
		first := splits[names[0]]
		return d, fmt.Errorf("found the splits %s, wanted train: name the files of one, such as %s, and of another behind --held", strings.Join(names, ", "), first[0])
	}
	return d, nil
}

// hubConfig is a configuration of a data set, as the head of README.md has it.
type hubConfig struct {
	Name    string `yaml:"config_name"`
	Default bool   `yaml:"default"`
	Files   any    `yaml:"data_files"`
}

// listedSplits are the files that README.md lists, by splits; nil: it lists none.
func listedSplits(dir string) (map[string][]string, error) {
	text, err := stranger.Read(filepath.Join(dir, "README.md"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	head, ok := bytes.CutPrefix(bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n")), []byte("---\n"))
	head, _, closed := bytes.Cut(head, []byte("\n---"))
	if !ok || !closed {
		return nil, nil
	}
	var listed struct {
		Configs []hubConfig `yaml:"configs"`
	}
	if err := yaml.Unmarshal(head, &listed); err != nil {
		return nil, fmt.Errorf("README.md: configs: found what cannot be read, wanted a list, or no README.md: %s", strings.Join(strings.Fields(err.Error()), " "))
	}
	configs := listed.Configs
	if i := slices.IndexFunc(configs, func(c hubConfig) bool { return c.Default }); i >= 0 && configs[i].Files != nil {
		configs = configs[i : i+1]
	}
	switch len(configs) {
	case 0:
		return nil, nil
	case 1:
		if configs[0].Files == nil {
			return nil, nil
		}
		return configs[0].splits(dir)
	}
	var names []string
	for _, c := range configs {
		names = append(names, c.Name)
	}
	one, err := configs[0].splits(dir)
	such := ""
	if d, failed := chosenSplits(dir, one); err == nil && failed == nil {
		such = ", such as " + d.Train[0]
	}
	return nil, fmt.Errorf("found the configurations %s, wanted one: name its files, or its folder%s", strings.Join(names, ", "), such)
}

// splits are the files of a configuration.
func (c hubConfig) splits(dir string) (map[string][]string, error) {
	all := map[string][]string{}
	add := func(split string, patterns any) error {
		for _, p := range listOf(patterns) {
			pattern, ok := p.(string)
			if !ok || !filepath.IsLocal(filepath.FromSlash(pattern)) {
				return fmt.Errorf("README.md: data_files: found %v, wanted the files of a split, below the directory", p)
			}
			found, err := expand(dir, pattern, ofRows)
			if err != nil {
				return fmt.Errorf("README.md: data_files: split %s: %w", split, err)
			}
			for _, f := range found {
				if isRowsFile(f.path) {
					all[split] = append(all[split], f.path)
				}
			}
		}
		if slices.Sort(all[split]); len(all[split]) == 0 {
			return fmt.Errorf("README.md: split %s: found no files in %v, wanted %s", split, patterns, rowsFiles)
		}
		return nil
	}
	for _, one := range listOf(c.Files) {
		split, patterns := trainSplits[0], one
		if of, is := one.(map[string]any); is {
			split, patterns = fmt.Sprint(of["split"]), of["path"]
		}
		if err := add(split, patterns); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// listOf is a list, or what stands for one of one.
func listOf(v any) []any {
	if list, is := v.([]any); is {
		return list
	}
	return []any{v}
}

// rowsFiles are the files that have rows, for a sentence.
const rowsFiles = ".parquet, .jsonl or .json, also .gz"

// isRowsFile tells a file of rows by its name: not what tools keep beside data.
func isRowsFile(name string) bool {
	base := path.Base(name)
	if slices.Contains([]string{"dataset_infos.json", "dataset_info.json", "dataset_dict.json", "state.json"}, base) {
		return false
	}
	return slices.Contains([]string{".parquet", ".jsonl", ".ndjson", ".json"}, strings.ToLower(path.Ext(strings.TrimSuffix(base, ".gz"))))
}

var (
	// splitWord finds the name of a split in a path: between what is no letter.
	splitWord = regexp.MustCompile(`(?i)(?:^|[^a-z])(` + strings.Join(slices.Concat(trainSplits, heldSplits), "|") + `)(?:[^a-z]|$)`)
	// shardNumber is which of several files of a split one is.
	shardNumber = regexp.MustCompile(`[-_.]?\d+(-of-\d+)?`)
)

// namedSplits are the files below a directory, by splits that their paths name; those that name none are trained on.
func namedSplits(dir string) (map[string][]string, error) {
	splits, whose, others := map[string][]string{}, map[string][]string{}, map[string]int{}
	files := 0
	err := filepath.WalkDir(dir, func(at string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, _ := filepath.Rel(dir, at) // it is below
		relative = filepath.ToSlash(relative)
		switch hidden := strings.HasPrefix(e.Name(), ".") && relative != "."; {
		case e.IsDir() && (hidden || strings.Count(relative, "/") >= mostDepth):
			return fs.SkipDir
		case e.IsDir() || hidden:
			return nil
		}
		if files++; files > mostFiles {
			return fmt.Errorf("found more than %d files, wanted the directory of one data set", mostFiles)
		}
		if !isRowsFile(relative) {
			others[path.Ext(relative)]++
			return nil
		}
		if info, err := os.Stat(at); err != nil || !info.Mode().IsRegular() { // a link may lead to one
			return err
		}
		split, stem := splitOf(relative)
		if splits[split] = append(splits[split], at); !slices.Contains(whose[split], stem) {
			whose[split] = append(whose[split], stem)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(splits) == 0 {
		text := "found no files of rows, wanted " + rowsFiles + ", in it or below"
		if n := others[".arrow"] + others[".csv"]; n > 0 {
			text += fmt.Sprintf("; it has %d in Arrow or CSV: to_parquet of datasets and pandas makes Parquet of them", n)
		}
		return nil, errors.New(text)
	}
	if len(splits) > 1 && len(splits[""]) > 0 {
		delete(splits, "") // beside splits other files are none of them
	}
	for _, split := range slices.Sorted(maps.Keys(splits)) {
		if parts := whose[split]; split != "" && len(parts) > 1 {
			slices.Sort(parts)
			return nil, fmt.Errorf("found several parts for the split %s (%s), wanted one: name its files, or its folder, such as %s",
				split, strings.Join(parts, ", "), filepath.Join(dir, filepath.FromSlash(cmp.Or(path.Dir(parts[0]), parts[0]))))
		}
	}
	if rest, is := splits[""]; is {
		splits[trainSplits[0]] = rest
		delete(splits, "")
	}
	return splits, nil
}

// splitOf is the split that a path names, "" for none, and which part of the data set it is of: the path up to that name, without numbers.
func splitOf(relative string) (split, part string) {
	elements := strings.Split(relative, "/")
	for i, name := range slices.Backward(elements) { // the nearest
		if i == len(elements)-1 {
			name, _, _ = strings.Cut(name, ".")
		}
		if m := splitWord.FindStringSubmatch(name); m != nil {
			return strings.ToLower(m[1]), shardNumber.ReplaceAllString(strings.Join(append(slices.Clone(elements[:i]), name), "/"), "")
		}
	}
	return "", ""
}
