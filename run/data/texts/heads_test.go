package texts

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/internal/formats"
	"gputrain/model"
	"gputrain/run/data"
	"gputrain/text/chat"
)

// headedOf opens rows of a form.
func headedOf(t *testing.T, c Config, format string, rows ...string) (*Corpus, error) {
	t.Helper()
	c.Dir = tree(t, map[string]string{"rows.jsonl": strings.Join(rows, "\n")})
	c.JSONL, c.Format = []string{"rows.jsonl"}, format
	corpus, err := Open(t.Context(), c)
	if err == nil {
		t.Cleanup(func() { assert.NoError(t, corpus.Close()) })
	}
	return corpus, err
}

// whole is all of a corpus in one batch.
func whole(t *testing.T, corpus *Corpus, context, rows int) data.Batch {
	t.Helper()
	e, err := data.NewEvaluation(corpus.Train, context, rows, 0)
	require.NoError(t, err)
	require.Equal(t, 1, e.Batches())
	b, err := e.Batch(0)
	require.NoError(t, err)
	return b
}

// TestRowsOfHeads lays tokens with their one label, at the last token, and what lies beside; from a token file that is there likewise. A window may be full.
func TestRowsOfHeads(t *testing.T) {
	const none = data.Ignored
	for name, c := range map[string]struct {
		format         string
		group          int
		rows           []string
		tokens, labels [][]int32
		margins        []float32
	}{
		"classes": {
			formats.Classes, 1,
			[]string{
				`{"tokens": [5, 6], "label": 2}`, `{"input_ids": [7, 8, 9, 10], "label": "b"}`, `{"prompt": [1], "completion": [2, 3], "label": "a"}`, `{"text": "x", "label": 0}`,
			},
			[][]int32{{5, 6, 0, 0}, {7, 8, 9, 10}, {1, 2, 3, 0}, {'x', 0, 0, 0}},
			[][]int32{{none, 2, none, none}, {none, none, none, 1}, {none, none, 0, none}, {none, 0, none, none}},
			nil,
		},
		"pairs": {
			formats.Ranked, 2,
			[]string{`{"prompt": [1], "chosen": [2], "rejected": [3, 4], "margin": 0.5}`, `{"prompt": [5, 6], "chosen": [7, 8], "rejected": [9]}`},
			[][]int32{{1, 2, 0, 0}, {1, 3, 4, 0}, {5, 6, 7, 8}, {5, 6, 9, 0}},
			[][]int32{{none, 0, none, none}, {none, none, 0, none}, {none, none, none, 0}, {none, none, 0, none}},
			[]float32{0.5, 0.5, 0, 0},
		},
		"queries": {
			formats.Queries, 4,
			[]string{`{"query": [1], "positive": [2, 3], "negatives": [[4], "y"]}`, `{"query": [5], "positive": [6], "negatives": [[7]]}`},
			[][]int32{{1, 0, 0, 0}, {2, 3, 0, 0}, {4, 0, 0, 0}, {'y', 0, 0, 0}, {5, 0, 0, 0}, {6, 0, 0, 0}, {7, 0, 0, 0}, {0, 0, 0, 0}},
			[][]int32{
				{0, none, none, none},
				{none, 0, none, none},
				{0, none, none, none},
				{none, 0, none, none},
				{0, none, none, none},
				{0, none, none, none},
				{0, none, none, none},
				{none, none, none, none},
			},
			nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			config := Config{Vocab: 256, Context: 4, Cache: t.TempDir(), Group: c.group, Labels: 3, Names: []string{"a", "b", "c"}}
			for range 2 {
				corpus, err := headedOf(t, config, c.format, c.rows...)
				require.NoError(t, err)
				b := whole(t, corpus, 4, len(c.tokens))
				for row := range c.tokens {
					assert.Equal(t, c.tokens[row], b.Tokens[4*row:4*row+4], row)
					assert.Equal(t, c.labels[row], b.Labels[4*row:4*row+4], row)
				}
				assert.Equal(t, c.margins, b.Beside[model.InputMargin])
				all, err := corpus.Show(1, 4)
				require.NoError(t, err)
				assert.Equal(t, c.format == formats.Classes, all[0].Label != nil)
				assert.NotContains(t, all[0].Learned, true)
			}
		})
	}
}

// TestGroupsOfQueriesStayTogether shuffles rows and keeps their windows one behind the other.
func TestGroupsOfQueriesStayTogether(t *testing.T) {
	var rows []string
	for i := 1; i <= 20; i++ {
		row, err := json.Marshal(map[string]any{"query": []int{i}, "positive": []int{i, i}, "negatives": [][]int{{i, i, i}}})
		require.NoError(t, err)
		rows = append(rows, string(row))
	}
	corpus, err := headedOf(t, Config{Vocab: 64, Context: 4, Group: 3, Validation: 0.2}, formats.Queries, rows...)
	require.NoError(t, err)
	assert.Contains(t, corpus.Notes[0], "20 rows")
	assert.Contains(t, corpus.Notes[0], "4 held out")
	loader, err := data.NewLoader(corpus.Train, data.LoaderConfig{Context: 4, Batch: 6, Seed: 1})
	require.NoError(t, err)
	defer loader.Close()
	seen := map[int32]bool{}
	for range 8 {
		b, err := loader.Next(t.Context())
		require.NoError(t, err)
		for row := 0; row < 6; row += 3 {
			first := b.Tokens[4*row]
			seen[first] = true
			assert.Equal(t, []int32{first, 0, 0, 0, first, first, 0, 0, first, first, first, 0}, b.Tokens[4*row:4*row+12])
		}
	}
	assert.Len(t, seen, 16)
}

func TestRowsOfHeadsRefused(t *testing.T) {
	for want, c := range map[string]struct{ format, row string }{
		`line 2: found fields ["text"], wanted ["label"]`:                               {formats.Classes, `{"text": "x"}`},
		`line 2: label: found 3, wanted 0 to 2`:                                         {formats.Classes, `{"text": "x", "label": 3}`},
		`line 2: label: found -1, wanted a name, or a whole number from 0 to 32767`:     {formats.Classes, `{"text": "x", "label": -1}`},
		`line 2: label: found 0.5, wanted a name`:                                       {formats.Classes, `{"text": "x", "label": 0.5}`},
		`line 2: label: found true, wanted a name`:                                      {formats.Classes, `{"text": "x", "label": true}`},
		`line 2: label: found "ab", wanted aa, b or c, or their numbers from 0 on, did`: {formats.Classes, `{"text": "x", "label": "ab"}`},
		`line 2: found no tokens, wanted one or more`:                                   {formats.Classes, `{"input_ids": [], "label": 1}`},
		`row 2: text: found 5 tokens, wanted at most 4, a window: model.context`:        {formats.Classes, `{"input_ids": [1, 2, 3, 4, 5], "label": 1}`},
		`line 2: margin: found "high", wanted a number`:                                 {formats.Ranked, `{"prompt": [1], "chosen": [2], "rejected": [3], "margin": "high"}`},
		`line 2: found fields ["chosen" "prompt"], wanted`:                              {formats.Ranked, `{"prompt": [1], "chosen": [2]}`},
		`line 2: rejected: found no token to be learned`:                                {formats.Ranked, `{"prompt": [1], "chosen": [2], "rejected": []}`},
		`row 2: rejected: found 5 tokens, wanted at most 4`:                             {formats.Ranked, `{"prompt": [1], "chosen": [2], "rejected": [3, 4, 5, 6]}`},
		`line 2: found fields ["positive" "query"], wanted ["query" "positive" "negatives"]`: {
			formats.Queries, `{"query": [1], "positive": [2]}`,
		},
		`line 2: found fields ["negatives" "query"], wanted`:             {formats.Queries, `{"query": [1], "negatives": []}`},
		`line 2: negatives: found 2, wanted at most 1, as head.negative`: {formats.Queries, `{"query": [1], "positive": [2], "negatives": [[1], [2]]}`},
		`line 2: negatives: found "x", wanted a list`:                    {formats.Queries, `{"query": [1], "positive": [2], "negatives": "x"}`},
		`line 2: negatives[0]: found 7, wanted text, a list of messages`: {formats.Queries, `{"query": [1], "positive": [2], "negatives": [7]}`},
		`line 2: positive: found no tokens, wanted one or more`:          {formats.Queries, `{"query": [1], "positive": [], "negatives": []}`},
	} {
		good := map[string]string{
			formats.Classes: `{"input_ids": [1], "label": 0}`, formats.Ranked: `{"prompt": [1], "chosen": [2], "rejected": [3]}`,
			formats.Queries: `{"query": [1], "positive": [2], "negatives": [[3]]}`,
		}[c.format]
		group := map[string]int{formats.Classes: 1, formats.Ranked: 2, formats.Queries: 3}[c.format]
		_, err := headedOf(t, Config{Vocab: 64, Context: 4, Group: group, Labels: 3, Names: []string{"aa", "b", "c"}}, c.format, good, c.row)
		require.ErrorContains(t, err, want)
	}
}

// TestRowsOfHeadsInChats writes messages by the template, with the token that ends them.
func TestRowsOfHeadsInChats(t *testing.T) {
	config := chatting(t, chat.Options{})
	config.Context, config.Labels = 64, 2
	corpus, err := headedOf(t, config, formats.Classes, `{"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "No"}], "label": 1}`)
	require.NoError(t, err)
	b := whole(t, corpus, 64, 1)
	at := 0
	for b.Labels[at] == data.Ignored {
		at++
	}
	assert.EqualValues(t, 1, b.Labels[at])
	assert.Equal(t, 1, b.Count)
	config.Group = 2
	corpus, err = headedOf(t, config, formats.Queries, `{"query": [{"role": "user", "content": "Hi"}], "positive": "Hi"}`)
	require.NoError(t, err)
	assert.Equal(t, 2, whole(t, corpus, 64, 2).Count)
}

// TestLabelsOf tells which labels rows have.
func TestLabelsOf(t *testing.T) {
	of := func(rows ...string) ([]string, int, error) {
		dir := tree(t, map[string]string{"rows.jsonl": strings.Join(rows, "\n")})
		return LabelsOf(t.Context(), Config{Dir: dir, JSONL: []string{"*.jsonl"}})
	}
	names, count, err := of(`{"label": "b"}`, `{"label": "a"}`, ``, `{"label": "b"}`)
	require.NoError(t, err)
	assert.Equal(t, []string{"a", "b"}, names)
	assert.Equal(t, 2, count)
	names, count, err = of(`{"label": 0}`, `{"label": 4}`)
	require.NoError(t, err)
	assert.Nil(t, names)
	assert.Equal(t, 5, count)
	_, _, err = of(`{"label": 0}`, `{"label": "a"}`)
	require.ErrorContains(t, err, `line 2: label: found "a", and names and numbers in other rows, wanted one of them`)
	_, _, err = of(`{"label": 0}`, `{"text": "a"}`)
	require.ErrorContains(t, err, `line 2: found fields ["text"], wanted ["label"]`)
	_, _, err = of(`{"label": null}`)
	require.ErrorContains(t, err, `line 1: found fields ["label"], wanted ["label"]`)
	most, err := NegativesOf(t.Context(), Config{Dir: tree(t, map[string]string{"q.jsonl": `{"negatives": ["a", "b"]}` + "\n" + `{"query": 1}`}), JSONL: []string{"q.jsonl"}})
	require.NoError(t, err)
	assert.Equal(t, 2, most)
}

// TestInputsOfRows gives what a model scores, row by row.
func TestInputsOfRows(t *testing.T) {
	inputs := func(rows ...string) (all [][]Input, numbers []int, err error) {
		text := []byte(strings.Join(rows, "\n"))
		err = Inputs(t.Context(), Config{Vocab: 256, Context: 4}, "rows.jsonl", bytes.NewReader(text), int64(len(text)), func(number int, row json.RawMessage, in []Input) error {
			all, numbers = append(all, in), append(numbers, number)
			return nil
		})
		return all, numbers, err
	}
	all, numbers, err := inputs(`{"text": "ab", "label": "x", "id": 3}`, ``, `{"prompt": [1], "chosen": [2], "rejected": [3, 4], "margin": 1}`,
		`{"query": [1], "positive": "b", "negatives": [[9]]}`, `{"prompt": [1], "completion": [5], "label": true}`)
	require.NoError(t, err)
	assert.Equal(t, [][]Input{
		{{"", []int32{'a', 'b', 0}}},
		{{"chosen", []int32{1, 2}}, {"rejected", []int32{1, 3, 4}}},
		{{"query", []int32{1}}, {"positive", []int32{'b', 0}}, {"negatives[0]", []int32{9}}},
		{{"", []int32{1, 5}}},
	}, all)
	assert.Equal(t, []int{1, 3, 4, 5}, numbers)
	_, _, err = inputs(`{"text": "abcd"}`)
	require.ErrorContains(t, err, `jsonl "rows.jsonl": line 1: found 5 tokens, wanted at most 4, the window`)
	_, _, err = inputs(`{"text": "a"}`, `{"other": "abcd"}`)
	require.ErrorContains(t, err, "line 2: found fields")
	broken := errors.New("enough")
	err = Inputs(t.Context(), Config{Vocab: 256, Context: 4}, "r", strings.NewReader(`{"text": "a"}`), 13, func(int, json.RawMessage, []Input) error { return broken })
	require.ErrorIs(t, err, broken)
}

// FuzzRowsOfHeads reads any row as each form: as many documents as a group has, each with one label at most, or an error.
func FuzzRowsOfHeads(f *testing.F) {
	for _, row := range []string{
		`{"text": "a", "label": 1}`, `{"tokens": [1, 2], "label": "b"}`, `{"prompt": [1], "chosen": [2], "rejected": [3], "margin": 1e9}`,
		`{"query": "a", "positive": [1], "negatives": [[{"role": "user", "content": "x"}], "y"]}`, `{"prompt": "a", "completion": "", "label": true}`, `{"query": [], "negatives": null}`,
	} {
		f.Add([]byte(row))
	}
	f.Fuzz(func(t *testing.T, row []byte) {
		if len(bytes.TrimSpace(row)) == 0 {
			return // as files have them
		}
		for _, format := range []string{formats.Classes, formats.Ranked, formats.Queries} {
			c := Config{Vocab: 256, Context: 8, Format: format, Group: 4, Labels: 3, Names: []string{"a", "b", "c"}}
			j, err := newJSONL(c)
			require.NoError(t, err)
			documents, err := j.group.read(j, j.mended(row))
			if err != nil {
				continue
			}
			require.Len(t, documents, c.group().size())
			for _, d := range documents {
				last := len(d.tokens) - 1
				require.Positive(t, last)
				require.False(t, slices.ContainsFunc(d.tokens[:last], func(token uint32) bool { return token&unlabelled == 0 }))
				require.True(t, d.tokens[last] < 3 || d.tokens[last] == unlabelled)
			}
			_, _ = j.inputs(row)
		}
	})
}

// A row that ends in the padding of its model, or that no window has room for, is named by its place in the files, whatever rows are held out before it.
func TestRowsOfHeadsNamed(t *testing.T) {
	rows := []string{
		`{"input_ids": [1, 3], "label": 0}`, `{"input_ids": [3, 2], "label": 1}`, `{"input_ids": [1], "label": 1}`,
		`{"input_ids": [4, 9], "label": 2}`, `{"input_ids": [5, 2], "label": 2}`, `{"input_ids": [6], "label": 2}`,
	}
	corpus, err := headedOf(t, Config{Vocab: 64, Context: 4, Labels: 3, Validation: 0.34}, formats.Classes, rows...)
	require.NoError(t, err)
	train, held := corpus.Train.(*Documents), corpus.Validation.(*Documents)
	require.NoError(t, train.Ends(7))
	require.NoError(t, held.Ends(7))
	for id, row := range map[int32]int{3: 1, 2: 2, 9: 4, 6: 6} {
		err := cmp.Or(train.Ends(id), held.Ends(id))
		require.ErrorContains(t, err, fmt.Sprintf("row %d: text: found the padding %d (pad_token_id) as its last token", row, id))
	}
	rows[4] = `{"input_ids": [1, 2, 3, 4, 5], "label": 1}`
	_, err = headedOf(t, Config{Vocab: 64, Context: 4, Labels: 3, Validation: 0.34}, formats.Classes, rows...)
	require.ErrorContains(t, err, "row 5: text: found 5 tokens")
}
