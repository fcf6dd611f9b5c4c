package texts

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The directories are laid out as data sets of Hugging Face's hub are: gsm8k, ultrachat_200k, dolly, imdb, no_robots and others.
func TestFindDataSet(t *testing.T) {
	shards := "data/test-00000-of-00001.parquet data/train-00000-of-00002.parquet data/train-00001-of-00002.parquet README.md .gitattributes .cache/train.json"
	for _, c := range []struct {
		files, readme          string
		train, held, unread    string
		split, wanted, wanted2 string
	}{
		{files: shards, train: "data/train-00000-of-00002.parquet data/train-00001-of-00002.parquet", held: "data/test-00000-of-00001.parquet", split: "test"},
		{
			files: shards + " data/validation-00000-of-00001.parquet", readme: "---\nlicense: mit\nconfigs:\n- config_name: default\n  data_files:\n  - split: train\n    path: data/train-*\n  - split: validation\n    path: data/validation-*\n  - split: test\n    path: data/test-*\n---\n# A set\n",
			train: "data/train-00000-of-00002.parquet data/train-00001-of-00002.parquet", held: "data/validation-00000-of-00001.parquet", split: "validation", unread: "test",
		},
		{files: "rows.jsonl README.md notes.txt dataset_infos.json", readme: "# no head\n", train: "rows.jsonl"},
		{files: "train.jsonl dev.jsonl.gz other.json", train: "train.jsonl", held: "dev.jsonl.gz", split: "dev"},
		{files: "train/a.json train/b.json test/a.json", train: "train/a.json train/b.json", held: "test/a.json", split: "test"},
		{files: "Valid.json TRAIN-1.json TRAIN-2.json", train: "TRAIN-1.json TRAIN-2.json", held: "Valid.json", split: "valid"},
		{files: "train-set/test-0.json train-set/train-0.json", train: "train-set/train-0.json", held: "train-set/test-0.json", split: "test"}, // the nearest word
		{files: "latest.jsonl", train: "latest.jsonl"}, // no word of its own
		{files: "en/a.jsonl en/b.jsonl", readme: "---\nconfigs:\n- config_name: en\n  data_files: en/*.jsonl\n---\n", train: "en/a.jsonl en/b.jsonl"},
		{files: "en/a.jsonl fr/b.jsonl", readme: "---\nconfigs:\n- config_name: en\n  data_files: en/*.jsonl\n- config_name: fr\n  default: true\n  data_files: [fr/b.jsonl]\n---\n", train: "fr/b.jsonl"},
		{
			files: "main/train-0.parquet socratic/train-0.parquet", readme: "---\nconfigs:\n- config_name: main\n  data_files:\n  - split: train\n    path: main/train-*\n- config_name: socratic\n  data_files:\n  - split: train\n    path: socratic/train-*\n---\n",
			wanted: "found the configurations main, socratic, wanted one: name its files, or its folder, such as ", wanted2: "main/train-0.parquet",
		},
		{files: "main/train-0.parquet socratic/train-0.parquet", wanted: "found several parts for the split train (main/train, socratic/train), wanted one", wanted2: "/main"},
		{files: "train_gen-1.parquet train_sft-1.parquet test_sft-1.parquet", wanted: "found several parts for the split train (train_gen, train_sft)"},
		{
			files: "train_gen-1.parquet train_sft-1.parquet", readme: "---\nconfigs:\n- config_name: default\n  data_files:\n  - split: train_sft\n    path: train_sft-*\n  - split: train_gen\n    path: train_gen-*\n---\n",
			wanted: "found the splits train_gen, train_sft, wanted train: name the files of one, such as ", wanted2: "train_gen-1.parquet, and of another behind --held",
		},
		{files: "test-1.parquet", wanted: "found the splits test, wanted train"},
		{files: "README.md", wanted: "found no files of rows, wanted .parquet, .jsonl or .json, also .gz, in it or below"},
		{files: "train/data-0.arrow dataset_dict.json train/state.json", wanted: "it has 1 in Arrow or CSV: to_parquet of datasets"},
		{files: "a.json", readme: "---\nconfigs: {a: [\n---\n", wanted: "README.md: configs: found what cannot be read"},
		{files: "a.json", readme: "---\nconfigs:\n- config_name: a\n  data_files: ../b.json\n---\n", wanted: "data_files: found ../b.json, wanted the files of a split, below the directory"},
		{files: "a.json", readme: "---\nconfigs:\n- config_name: a\n  data_files: b.json\n---\n", wanted: "data_files: split train: data: jsonl \"b.json\""},
		{files: "a.csv", readme: "---\nconfigs:\n- config_name: a\n  data_files: a.csv\n---\n", wanted: "README.md: split train: found no files in a.csv, wanted .parquet"},
	} {
		files := map[string]string{}
		for _, name := range strings.Fields(c.files) {
			files[name] = "{}\n"
		}
		if c.readme != "" {
			files["README.md"] = c.readme
		}
		dir := tree(t, files)
		d, err := FindDataSet(dir)
		if c.wanted != "" {
			require.ErrorContains(t, err, c.wanted, c.files)
			assert.ErrorContains(t, err, c.wanted2)
			assert.NotContains(t, err.Error(), "\n")
			continue
		}
		require.NoError(t, err, c.files)
		relative := func(paths []string) string {
			var all []string
			for _, p := range paths {
				r, err := filepath.Rel(dir, p)
				require.NoError(t, err)
				all = append(all, filepath.ToSlash(r))
			}
			return strings.Join(all, " ")
		}
		assert.Equal(t, []string{c.train, c.held, c.split, c.unread}, []string{relative(d.Train), relative(d.Held), d.Split, strings.Join(d.Unread, " ")}, c.files)
	}
	dir := tree(t, map[string]string{"train.jsonl": "{}\n", "test.jsonl": "{}\n"})
	_, err := Open(t.Context(), Config{JSONL: []string{dir}, Context: 8})
	require.ErrorContains(t, err, "found a directory, wanted files: name those to train on (1, the first ")
	require.ErrorContains(t, err, ", and in data.held those of its split test (1, the first ")
	_, err = FindDataSet(filepath.Join(t.TempDir(), "none"))
	require.ErrorContains(t, err, "none")
}
