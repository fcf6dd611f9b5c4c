package texts

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/run/data"
)

// documentsOf makes documents of what add writes, in a temporary file, which the system closes.
func documentsOf(layout data.Layout, vocab int, add func(w *tokenWriter) error) (*Documents, error) {
	c, r := &Corpus{}, &reading{ctx: context.Background()}
	tokens, _, err := c.tokenFile(r, tokenKey{}, tokenWidth(vocab), add)
	return &Documents{corpus: c, tokens: tokens, vocab: vocab, layout: layout}, err
}

// numbered makes documents whose tokens tell document and place: document d has the tokens 1000 d, 1000 d + 1, ...
func numbered(layout data.Layout, lengths ...int) *Documents {
	d, err := documentsOf(layout, 1<<30, func(w *tokenWriter) error {
		for i, n := range lengths {
			one := document{}
			for j := range n {
				one.tokens = append(one.tokens, uint32(1000*i+j))
			}
			if err := errors.Join(w.add(one.tokens), w.part(one.part())); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		panic(err)
	}
	return d
}

// rows are all windows of a source, as an evaluation has them.
func rows(t *testing.T, source data.Source, context int) (tokens, labels [][]int32) {
	t.Helper()
	e, err := data.NewEvaluation(source, context, 1, 0)
	require.NoError(t, err)
	for i := range e.Batches() {
		b, err := e.Batch(i)
		require.NoError(t, err)
		require.Len(t, b.Tokens, context)
		tokens, labels = append(tokens, b.Tokens), append(labels, b.Labels)
	}
	return tokens, labels
}

func TestDocumentsAreSplitEvenly(t *testing.T) {
	var text strings.Builder
	for i := range 200 {
		fmt.Fprintf(&text, "{\"text\": \"%03d\"}\n", i)
	}
	c, err := lines(t, Config{Context: 4, Validation: 0.05}, text.String())
	require.NoError(t, err)
	assert.Equal(t, "by document", c.Split)
	tokens, _ := rows(t, c.Validation, 4)
	var got []string
	for _, row := range tokens {
		got = append(got, data.DecodeBytes(row[:3]))
	}
	assert.Equal(t, []string{"019", "039", "059", "079", "099", "119", "139", "159", "179", "199"}, got)
	tokens, _ = rows(t, c.Train, 4)
	assert.Len(t, tokens, 190)
	assert.Contains(t, c.Notes[0], "200 documents (text) of 800 tokens in 200 windows of 4, 100 % full, 75 % of the tokens learned, longest 4, 0 cut")
}

func TestFingerprintOfDocuments(t *testing.T) {
	text := strings.Repeat(`{"text": "abc", "b": "de"}`+"\n", 10)
	print := func(c Config, text string) string {
		c.Context = 4
		corpus, err := lines(t, c, text)
		require.NoError(t, err)
		return corpus.Fingerprint
	}
	first := print(Config{}, text)
	assert.Len(t, first, 64)
	assert.Equal(t, first, print(Config{Layout: data.Layout{Packing: data.PackFirstFit, Long: data.LongSplit}}, text))
	for what, other := range map[string]string{
		"content":    print(Config{}, strings.Replace(text, "abc", "abd", 1)),
		"validation": print(Config{Validation: 0.2}, text),
		"field":      print(Config{Fields: data.Fields{Text: "b"}}, text),
		"packing":    print(Config{Layout: data.Layout{Packing: data.PackGreedy}}, text),
		"end":        print(Config{Layout: data.Layout{End: new(int)}}, text),
	} {
		assert.NotEqual(t, first, other, what)
	}
}
