package data

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// numbered makes documents whose tokens tell document and place: document d has the tokens 1000 d, 1000 d + 1, ...
func numbered(layout Layout, lengths ...int) *Documents {
	spool := newSpool(1<<30, spoolLimit)
	d := &Documents{vocab: 1 << 30, layout: layout}
	for i, n := range lengths {
		var tokens []uint32
		for j := range n {
			tokens = append(tokens, uint32(1000*i+j))
		}
		d.spans = append(d.spans, span{start: spool.count, count: int32(n)})
		if err := spool.add(tokens); err != nil {
			panic(err)
		}
	}
	d.store, _ = spool.store()
	return d
}

// rows are all windows of a source, as an evaluation has them.
func rows(t *testing.T, source Source, context int) (tokens, labels [][]int32) {
	t.Helper()
	e, err := NewEvaluation(source, context, 1, 0)
	require.NoError(t, err)
	for i := range e.Batches() {
		b, err := e.Batch(i)
		require.NoError(t, err)
		require.Len(t, b.Tokens, context)
		tokens, labels = append(tokens, b.Tokens), append(labels, b.Labels)
	}
	return tokens, labels
}

// What outgrows memory goes to a file that leaves nothing behind, and is the same.
func TestSpoolOnDisk(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	t.Setenv("TMP", dir)
	for _, vocab := range []int{300, 1 << 20} {
		var stores []store
		for _, limit := range []int{1 << 20, 100} {
			s := newSpool(vocab, limit)
			defer s.Close()
			for i := range 1000 {
				require.NoError(t, s.add([]uint32{uint32(i % vocab), uint32(i%vocab) | unlabelled}))
			}
			require.Equal(t, limit == 100, s.file != nil)
			stored, err := s.store()
			require.NoError(t, err)
			stores = append(stores, stored)
			require.Error(t, stored.read(make([]uint32, 3), 1998), "past the end")
		}
		for at := range int64(1990) {
			a, b := make([]uint32, 10), make([]uint32, 10)
			require.NoError(t, stores[0].read(a, at))
			require.NoError(t, stores[1].read(b, at))
			require.Equal(t, a, b)
			require.Equal(t, uint32(at/2%int64(vocab))|uint32(at%2)<<31, a[0])
		}
	}
	if runtime.GOOS != "windows" {
		left, err := os.ReadDir(dir)
		require.NoError(t, err)
		assert.Empty(t, left)
	}
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
		got = append(got, DecodeBytes(row[:3]))
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
	assert.Equal(t, first, print(Config{Layout: Layout{Packing: PackFirstFit, Long: LongSplit}}, text))
	for what, other := range map[string]string{
		"content":    print(Config{}, strings.Replace(text, "abc", "abd", 1)),
		"validation": print(Config{Validation: 0.2}, text),
		"field":      print(Config{Fields: Fields{Text: "b"}}, text),
		"packing":    print(Config{Layout: Layout{Packing: PackGreedy}}, text),
		"end":        print(Config{Layout: Layout{End: new(int)}}, text),
	} {
		assert.NotEqual(t, first, other, what)
	}
}
