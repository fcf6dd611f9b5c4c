package runfile

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What is wrong is said with file, line, key, what was found and what is wanted.
func TestErrorsOfFiles(t *testing.T) {
	for text, want := range map[string]string{
		"train:\n\tsteps: 3\n":                              "run file: run.yaml:2: found character '\t' that cannot start any token",
		"train: {steps: 3\n":                                "run file: run.yaml:1: could not find flow mapping end token '}'",
		"train: {steps: 1}\nmodel: {}\ntrain: {batch: 3}\n": `run file: run.yaml:3: mapping key "train" already defined in line 1`,
		"train: {steps: 1}\n---\ntrain: {steps: 4}\n":       "run file: run.yaml:3: found 2 documents, wanted one",
		"train:\n  prompt: \xff\n":                          "run file: run.yaml:2: found byte 0xff, wanted text in UTF-8",
		"\xff\xfet\x00r\x00":                                "run file: run.yaml:1: found UTF-16, wanted text in UTF-8",

		"train:\n  batch: &n 3\n":                    "run file: run.yaml:2: found an anchor (&n 3), wanted values that stand where they are used",
		"train:\n  batch: *n\n":                      "run file: run.yaml:2: found an alias (*n), wanted values that stand where they are used",
		"train:\n  <<: {batch: 3}\n":                 "run file: run.yaml:2: found a merge key (<<), wanted values that stand where they are used",
		"model: {layers: 2}\ntrain: &t {steps: 3}\n": "run file: run.yaml:2: found an anchor (&t {steps: 3}), wanted values that stand where they are used",
		"data:\n  mixture:\n    - {text: a, weight: 1}\n    - text: b\n      weigth: 1\n": `run file: run.yaml:5: data.mixture[1]: unknown key "weigth", wanted text, jsonl, weight, field, prompt_field, mask_field, did you mean "weight"?`,
		"data:\n  mixture:\n    - text: a\n      weight: x\n":                             "run file: run.yaml:4: data.mixture[0].weight: found x, wanted a number",

		"train: {steps: 3000000000}":          "run file: run.yaml:1: train.steps: found 3000000000, wanted a whole number of at most 2147483647",
		"data: {eos: -3000000000}":            "run file: run.yaml:1: data.eos: found -3000000000, wanted a whole number or null of at least -2147483648",
		"train: {seed: 3e19}":                 "run file: run.yaml:1: train.seed: found 3e19, wanted a whole number of 0 or more and at most 18446744073709551615",
		"train: {steps: 010}":                 "run file: run.yaml:1: train.steps: found 010, wanted a whole number, not begun with 0",
		"train: {steps: 08}":                  "run file: run.yaml:1: train.steps: found 08, wanted a whole number, not begun with 0",
		"train: {steps: }":                    "run file: run.yaml:1: train.steps: found nothing, wanted a whole number",
		"optimizer: {learning_rate: 1e400}":   "run file: run.yaml:1: optimizer.learning_rate: found 1e400, wanted a number",
		"train: {prompt: 12}":                 "run file: run.yaml:1: train.prompt: found 12, wanted text in quotes",
		"lora: {rank_pattern: {q_proj: 1.5}}": "run file: run.yaml:1: lora.rank_pattern: \"q_proj\": found 1.5, wanted a whole number",
		"lora: {alpha_pattern: [q_proj]}":     "run file: run.yaml:1: lora.alpha_pattern: found [q_proj], wanted names, each with a number",
		"train: {time_limit: 90}":             "run file: run.yaml:1: train.time_limit: found 90, wanted a time such as 90s, 15m or 1d2h30m, or nothing",
		"train: {memory_limit: 6}":            "run file: run.yaml:1: train.memory_limit: found 6, wanted bytes such as 800MB or 6GiB",

		"Train: {steps: 3}": `run file: run.yaml:1: unknown key "Train", did you mean "train"?`,
		"trian: {steps: 3}": `run file: run.yaml:1: unknown key "trian", did you mean "train"?`,
		"layers: 3":         `run file: run.yaml:1: unknown key "layers", did you mean "model.layers" or "lora.layers"?`,
		"steps: 3":          `run file: run.yaml:1: unknown key "steps", did you mean "optimizer.schedule.steps" or "train.steps"?`,
	} {
		assert.EqualError(t, New().Parse("run.yaml", []byte(text)), want, "%q", text)
	}
}

// A value that is no text is refused where it is given: in the record of the run other bytes would take the place of its own.
func TestVariablesAreText(t *testing.T) {
	assert.EqualError(t, New().Environment([]string{"GPUTRAIN_DATA_TEXT=caf\xe9.txt"}), "environment: GPUTRAIN_DATA_TEXT: data.text: found byte 0xe9, wanted text in UTF-8")
}

// What is deep would keep the parser busy for minutes.
func TestDeepFiles(t *testing.T) {
	for _, text := range []string{strings.Repeat("[", 500_000), strings.Repeat("{a: ", 250_000), strings.Repeat("- ", 500_000), strings.Repeat("? ", 500_000)} {
		err := New().Parse("run.yaml", []byte("# deep\n"+text))
		assert.EqualError(t, err, "run file: run.yaml:2: found values more than 100 deep in each other, wanted a run file")
	}
	text := "data:\n  text:\n" + strings.Repeat("    - a\n", 1000) + "pipeline: {rules: [" + strings.Repeat("{match: a, stage: 0}, ", 1000) + "]}\n"
	require.NoError(t, New().Parse("run.yaml", []byte(text)))
}

// Keys in numbers, or of a length, that no run file has would keep the parser, or the search for what was meant, busy for as long.
func TestFilesOfTooManyKeys(t *testing.T) {
	var many strings.Builder
	for i := range 60_000 {
		fmt.Fprintf(&many, "k%d: 1\n", i)
	}
	for text, want := range map[string]string{
		many.String(): "run file: run.yaml:10001: found more than 10000 keys, wanted a run file",
		"train:\n  " + strings.Repeat("a", 900_000) + ": 3\n": "run file: run.yaml:2: found a key of 900000 bytes, wanted a run file",
		strings.Repeat("a:", 400_000):                         "run file: run.yaml:1: found a key of 799999 bytes, wanted a run file",
	} {
		assert.EqualError(t, New().Parse("run.yaml", []byte(text)), want)
	}
}

// Files as editors on other systems write them.
func TestFilesThatAreFine(t *testing.T) {
	for _, text := range []string{
		"\ufefftrain: {steps: 3}\n", "train:\r\n  steps: 3\r\n", "\ufeff# a comment\r\ntrain:\r\n  steps: 0x3", `{"train": {"steps": 3}}`, "---\ntrain: {steps: 3}\n",
	} {
		c := New()
		require.NoError(t, c.Parse("run.yaml", []byte(text)), "%q", text)
		assert.EqualValues(t, 3, c.Train.Steps, "%q", text)
	}
	for _, text := range []string{"", "# nothing\n", "---\n", "null\n", "train:\n", "\ufeff"} {
		c := New()
		require.NoError(t, c.Parse("run.yaml", []byte(text)), "%q", text)
		assert.Equal(t, Default(), c.Run)
	}
}

// What is named by mistake is not read to its end.
func TestFilesThatAreNone(t *testing.T) {
	dir := t.TempDir()
	large := filepath.Join(dir, "model.safetensors")
	require.NoError(t, os.WriteFile(large, nil, 0o666))
	require.NoError(t, os.Truncate(large, 1<<40)) // takes no room
	require.EqualError(t, New().File(large), "run file: "+large+": found 1099511627776 bytes, wanted at most 1048576")
	require.ErrorContains(t, New().File(dir), "run file: "+dir+": is a directory")
	require.ErrorIs(t, New().File(filepath.Join(dir, "absent.yaml")), os.ErrNotExist)
}

// Nothing given for a list of texts is an empty list, as it is an empty text elsewhere.
func TestSetToNothing(t *testing.T) {
	c := New()
	require.NoError(t, c.Set("data.text=books"))
	require.NoError(t, c.Set("data.text="))
	assert.Empty(t, c.Data.Text)
}
