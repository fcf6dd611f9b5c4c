package texts

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/internal/formats"
)

// Rows are the same documents whatever form their file has: lines, an array, Parquet, or one of the first two compressed.
func TestFormsOfRows(t *testing.T) {
	text, err := os.ReadFile("internal/parquet/testdata/rows.jsonl")
	require.NoError(t, err)
	packed, err := os.ReadFile("internal/parquet/testdata/zstd.parquet")
	require.NoError(t, err)
	array := " \r\n[" + strings.ReplaceAll(strings.TrimSpace(string(text)), "\n", " ,\n\n ") + "]\n"
	root := tree(t, map[string]string{"lines.jsonl": string(text), "array.json": array, "array.json.gz": squeeze(t, array), "file.parquet": string(packed), "named.data": string(packed)})
	want, _ := rows(t, open(t, Config{JSONL: []string{root + "/lines.jsonl"}, Context: 16, Format: formats.Fields}).Train, 16)
	for _, name := range []string{"array.json", "array.json.gz", "file.parquet", "named.data"} {
		c := open(t, Config{JSONL: []string{root + "/" + name}, Context: 16, Format: formats.Fields})
		got, _ := rows(t, c.Train, 16)
		assert.Equal(t, want, got, name)
		assert.Contains(t, c.Notes[0], "40 documents", name)
	}
}

// Rows of an array and of Parquet are named by their number.
func TestBadRows(t *testing.T) {
	good := `{"text": "good"}`
	packed, err := os.ReadFile("internal/parquet/testdata/snappy.parquet")
	require.NoError(t, err)
	for name, c := range map[string]struct{ content, want string }{
		"a.json":         {"[" + good + ", {\"id\": 1}]", `row 2: found fields ["id"], wanted ["text" "input_ids"]`},
		"open.json":      {"[" + good, "row 2: unexpected EOF"},
		"within.json":    {"[" + good + `, {"text": "a`, "row 2: unexpected EOF"},
		"comma.json":     {"[" + good + good + "]", "row 2: expected comma after array element"},
		"after.json":     {"[" + good + "] 7", "found 7 after the array, wanted the end of the file"},
		"value.json":     {"[" + good + `, "x"]`, "row 2: found a string, wanted an object"},
		"null.json":      {"[null]", "row 1: found null, wanted an object"},
		"twice.json":     {`[{"text": "a", "text": "b"}]`, "row 1: found 2 keys, 1 of them different"},
		"no.parquet":     {good, "at the end, wanted \"PAR1\""},
		"torn.parquet":   {string(packed[:len(packed)-9]), "at the end, wanted"},
		"no.json":        {"[]", "found no rows, wanted at least one"},
		"column.parquet": {string(packed), `row 1: found fields ["half" "id" "messages" "small" "tags" "text"], wanted ["score"]`},
		"lacks.parquet":  {string(packed), `found columns ["text" "messages" "id" "score" "small" "half" "ok" "tags"], wanted "body"`},
	} {
		config := Config{JSONL: []string{tree(t, map[string]string{name: c.content}) + "/" + name}, Context: 4, Format: formats.Fields}
		config.Fields.Text = map[string]string{"column.parquet": "score", "lacks.parquet": "body"}[name]
		_, err := Open(t.Context(), config)
		if assert.ErrorContains(t, err, c.want, name) {
			assert.Contains(t, err.Error(), name)
		}
	}
	reader := jsonl{vocab: 256, text: true, limit: 100, to: discarded()}
	long := "[" + good + `,{"text": "` + strings.Repeat("a", 200) + `"}]`
	require.ErrorContains(t, reader.file(t.Context(), "x", strings.NewReader(long), int64(len(long))), "row 2: longer than 100 bytes")

	r := &reading{} // which counts rows as they become tokens
	reader.limit, reader.rowDone = maxRow, func() { r.tell(func(p *Progress) { p.Rows++ }) }
	three := good + "\n\n" + good + "\n" + good
	require.NoError(t, reader.file(t.Context(), "x", strings.NewReader(three), int64(len(three))))
	assert.EqualValues(t, 3, r.progress.Rows)
}
