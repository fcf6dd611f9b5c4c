package texts

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/internal/formats"
	"gputrain/run/data"
)

// lettered are rows of texts, a letter each.
func lettered(key, letters string) string {
	var text strings.Builder
	for _, l := range letters {
		fmt.Fprintf(&text, "{%q: \"%s\", \"answer\": 1}\n", key, strings.Repeat(string(l), 8))
	}
	return text.String()
}

// lettersOf are the letters of the windows of a source, each once.
func lettersOf(t *testing.T, s data.Source) string {
	t.Helper()
	tokens, _ := rows(t, s, 10)
	var seen strings.Builder
	for _, window := range tokens {
		for _, id := range window {
			if id > 0 && !strings.ContainsRune(seen.String(), rune(id)) {
				seen.WriteRune(rune(id))
			}
		}
	}
	return seen.String()
}

// Rows of files that are held out are evaluated and not trained on, whether or not what was made of them is kept, and are the same wherever they lie.
func TestHeldFiles(t *testing.T) {
	dir := tree(t, map[string]string{
		"a.jsonl": lettered("text", "abc"), "b.jsonl": lettered("text", "def"), "held.jsonl": lettered("text", "xy"), "both.jsonl": lettered("text", "xbyde"),
		"other/h.jsonl": lettered("text", "xy"), "none.jsonl": "\n",
	})
	cache := t.TempDir()
	config := func(jsonl, held string) Config {
		return Config{Dir: dir, JSONL: []string{jsonl}, Held: []string{held}, Context: 10, Cache: cache}
	}
	var first string
	for _, held := range []string{"held.jsonl", "held.jsonl", "other/h.jsonl"} { // the second time it is kept
		c := open(t, config("[ab].jsonl", held))
		assert.Equal(t, "abcdef", sorted(lettersOf(t, c.Train)))
		assert.Equal(t, "xy", sorted(lettersOf(t, c.Validation)))
		assert.Equal(t, []any{"held files", 3, 2, 8}, []any{c.Split, c.Files, c.Tallies[0].Held, c.Tallies[0].Documents})
		if first == "" {
			first = c.Fingerprint
		}
		assert.Equal(t, first, c.Fingerprint)
	}
	assert.NotEqual(t, first, open(t, Config{Dir: dir, JSONL: []string{"held.jsonl", "[ab].jsonl"}, Context: 10}).Fingerprint)
	open(t, Config{Dir: dir, JSONL: []string{"[ab].jsonl"}, Context: 10, Cache: cache}) // the same files in the same order, and none held out
	assert.Equal(t, "abc", sorted(lettersOf(t, open(t, config("b.jsonl", "a.jsonl")).Validation)))
	for want, c := range map[string]Config{
		`data: held both.jsonl: found 3 of its 5 rows among those to train on, too, wanted none`: config("[ab].jsonl", "both.jsonl"),
		`held.jsonl": found it among the files to train on, too, wanted a file of its own`:       config("*.jsonl", "held.jsonl"),
		`held none.jsonl: found 3 and 0 rows`:                                                    config("a.jsonl", "none.jsonl"),
		`data: held "absent.jsonl": file does`:                                                   config("a.jsonl", "absent.jsonl"),
		`data: held: found files, jsonl ["a.js`:                                                  {Dir: dir, JSONL: []string{"a.jsonl"}, Held: []string{"b.jsonl"}, Validation: 0.5, Context: 10},
	} {
		_, err := Open(t.Context(), c)
		assert.ErrorContains(t, err, want)
	}
	for range 2 { // nothing is kept of what was refused
		_, err := Open(t.Context(), config("[ab].jsonl", "both.jsonl"))
		require.ErrorContains(t, err, "found 3 of its 5 rows")
	}
}

// sorted are letters in their order.
func sorted(letters string) string {
	return strings.Join(slices.Sorted(slices.Values(strings.Split(letters, ""))), "")
}

// Prompts are held out so, too, and are numbered by their own files; of pairs whole rows are.
func TestHeldRowsOfAForm(t *testing.T) {
	pair := `{"prompt": %q, "chosen": "b", "rejected": "c"}` + "\n"
	dir := tree(t, map[string]string{
		"a.jsonl": lettered("prompt", "abc"), "held.jsonl": lettered("prompt", "xy"), "both.jsonl": lettered("prompt", "xb"),
		"pairs.jsonl": fmt.Sprintf(pair+pair, "one", "two"), "apart.jsonl": fmt.Sprintf(pair, "three"), "same.jsonl": fmt.Sprintf(pair, "two"),
	})
	c := open(t, Config{Dir: dir, JSONL: []string{"a.jsonl"}, Held: []string{"held.jsonl"}, Format: formats.Prompts, Context: 10})
	train, held := c.Train.(*data.Prompts), c.Validation.(*data.Prompts)
	assert.Equal(t, []int{3, 2}, []int{train.Len(), held.Len()})
	assert.Equal(t, []any{int64(0), int32('a')}, []any{train.At(0).Row, train.At(0).Tokens[0]})
	assert.Equal(t, []any{int64(1), int32('y')}, []any{held.At(1).Row, held.At(1).Tokens[0]})
	_, err := Open(t.Context(), Config{Dir: dir, JSONL: []string{"a.jsonl"}, Held: []string{"both.jsonl"}, Format: formats.Prompts, Context: 10})
	require.ErrorContains(t, err, "found 1 of its 2 rows among those to train on")
	pairs := Config{Dir: dir, JSONL: []string{"pairs.jsonl"}, Held: []string{"apart.jsonl"}, Format: formats.Pairs, Context: 20}
	c = open(t, pairs)
	assert.Equal(t, []int{3, 1}, []int{c.Tallies[0].Groups, c.Tallies[0].Held})
	pairs.Held = []string{"same.jsonl"}
	_, err = Open(t.Context(), pairs)
	require.ErrorContains(t, err, "found 1 of its 1 rows")
}
