package tokenizer

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/hub"
)

// textCase is a line of a file of cases: what the reference library makes of a text.
type textCase struct {
	Text           string   `json:"text"`
	IDs            []int32  `json:"ids"`
	WithSpecial    []int32  `json:"with_special"`
	Offsets        []int    `json:"offsets"`
	Decoded        *string  `json:"decoded"`
	WithoutSpecial *string  `json:"decoded_skipping_special"`
	Pieces         []string `json:"pieces"`
}

func readCases(t *testing.T, path string) (cases []textCase, pattern string) {
	t.Helper()
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	var file struct {
		Pattern string     `json:"pattern"`
		Cases   []textCase `json:"cases"`
	}
	require.NoError(t, json.Unmarshal(raw, &file))
	require.NotEmpty(t, file.Cases)
	return file.Cases, file.Pattern
}

func TestReferenceCases(t *testing.T) {
	paths, err := filepath.Glob("testdata/*/cases.json")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(paths), 5)
	for _, path := range paths {
		t.Run(filepath.Base(filepath.Dir(path)), func(t *testing.T) {
			tok, err := openAt(filepath.Dir(path))
			require.NoError(t, err)
			cases, _ := readCases(t, path)
			for _, c := range cases {
				checkCase(t, tok, c)
			}
		})
	}
}

func checkCase(t *testing.T, tok *Tokenizer, c textCase) {
	t.Helper()
	ids, err := tok.Encode(c.Text, Options{})
	require.NoError(t, err)
	assert.Equal(t, c.IDs, ids, "%q", c.Text)
	if c.WithSpecial != nil {
		ids, err := tok.Encode(c.Text, Options{Special: true})
		require.NoError(t, err)
		assert.Equal(t, c.WithSpecial, ids, "%q", c.Text)
	}
	traced, spans, err := tok.EncodeSpans(c.Text, Options{})
	require.NoError(t, err)
	assert.Equal(t, ids, append([]int32{}, traced...), "%q", c.Text)
	if c.Offsets != nil {
		flat := []int{}
		for _, s := range spans {
			flat = append(flat, s.Start, s.End)
		}
		assert.Equal(t, c.Offsets, flat, "%q %v", c.Text, c.IDs)
	}
	want := c.Text
	if c.Decoded != nil {
		want = *c.Decoded
	}
	text, err := tok.Decode(c.IDs, false)
	require.NoError(t, err)
	assert.Equal(t, want, text, "%v", c.IDs)
	if c.WithoutSpecial != nil {
		text, err := tok.Decode(c.IDs, true)
		require.NoError(t, err)
		assert.Equal(t, *c.WithoutSpecial, text, "%v", c.IDs)
	}
}

func TestDecodeCases(t *testing.T) {
	paths, err := filepath.Glob("testdata/*/decode.json")
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	for _, path := range paths {
		tok, err := openAt(filepath.Dir(path))
		require.NoError(t, err)
		cases, _ := readCases(t, path)
		for _, c := range cases {
			text, err := tok.Decode(c.IDs, false)
			require.NoError(t, err)
			assert.Equal(t, *c.Decoded, text, "%s %v", path, c.IDs)
			text, err = tok.Decode(c.IDs, true)
			require.NoError(t, err)
			assert.Equal(t, *c.WithoutSpecial, text, "%s %v", path, c.IDs)
		}
	}
}

// The pieces of a pattern are those of Oniguruma, by our scanner and by the regular expression.
func TestSplitCases(t *testing.T) {
	paths, err := filepath.Glob("testdata/splits/*.json")
	require.NoError(t, err)
	require.Len(t, paths, 4)
	for _, path := range paths {
		cases, text := readCases(t, path)
		fast, err := newRegex(text)
		require.NoError(t, err)
		require.IsType(t, &scanner{}, fast)
		slow, err := newExpression(text)
		require.NoError(t, err)
		for _, c := range cases {
			for _, p := range []pattern{fast, slow} {
				assert.Equal(t, c.Pieces, piecesOf(t, p, c.Text), "%s %T %q", path, p, c.Text)
			}
		}
	}
}

func piecesOf(t *testing.T, p pattern, text string) []string {
	t.Helper()
	pieces := []string{}
	require.NoError(t, split{pattern: p, behavior: "Isolated"}.split(span{text: text}, func(s span) error {
		pieces = append(pieces, s.text)
		return nil
	}))
	return pieces
}

// openAt opens the tokenizer at a path.
func openAt(path string) (*Tokenizer, error) {
	files, err := hub.OpenTokenizer(path)
	if err != nil {
		return nil, err
	}
	return Open(files)
}
