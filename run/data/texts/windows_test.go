package texts

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/run/data"
)

// rowsOfText are lines of JSON, some with a prompt.
func rowsOfText(n int) string {
	random := rand.New(rand.NewPCG(3, 3))
	var out strings.Builder
	for i := range n {
		fmt.Fprintf(&out, `{"q": "%d", "text": "%s"}`+"\n", i, strings.Repeat("a", random.IntN(60)))
	}
	return out.String()
}

// Documents are read, encoded and packed once: a second start reads what is kept, and has the same windows and the same figures. What is kept and damaged,
// cut off or of others is made again.
func TestDocumentsAreKept(t *testing.T) {
	root := tree(t, map[string]string{"a.jsonl": rowsOfText(1000)})
	aged(t, root+"/a.jsonl", time.Hour)
	for _, fields := range []data.Fields{{}, {Prompt: "q"}} {
		for _, packing := range data.Packings {
			c := Config{JSONL: []string{root + "/a.jsonl"}, Fields: fields, Layout: data.Layout{Packing: packing}, Context: 32, Validation: 0.1}
			want := open(t, c)
			c.Cache = t.TempDir()
			_, first := readBy(t, c)
			files, err := filepath.Glob(c.Cache + "/*")
			require.NoError(t, err)
			require.Len(t, files, 4, "tokens, hashes, windows to train on and to validate with")
			kept := int64(0)
			before := map[string][]byte{}
			for _, f := range files {
				before[f], err = os.ReadFile(f)
				require.NoError(t, err)
				kept += int64(len(before[f]))
			}
			same := func(got *Corpus) {
				assert.Equal(t, want.Fingerprint, got.Fingerprint)
				assert.Equal(t, want.Tallies, got.Tallies)
				for _, both := range [][2]data.Source{{want.Train, got.Train}, {want.Validation, got.Validation}} {
					tokens, labels := rows(t, both[0], 32)
					gotTokens, gotLabels := rows(t, both[1], 32)
					require.Equal(t, tokens, gotTokens, packing)
					require.Equal(t, labels, gotLabels, packing)
				}
			}
			same(first)
			n, second := readBy(t, c)
			assert.Less(t, n, kept+1, "%s: not the rows", packing)
			same(second)
			for what, damage := range map[string]func(raw []byte) []byte{
				"damaged": func(raw []byte) []byte { raw[len(raw)/2] ^= 1; return raw }, "cut off": func(raw []byte) []byte { return raw[:len(raw)/2] },
				"damaged behind the tokens": func(raw []byte) []byte { raw[len(raw)-tokenFileTrailer-12] ^= 1; return raw },
			} {
				for _, f := range files {
					require.NoError(t, os.WriteFile(f, damage(slices.Clone(before[f])), 0o644))
				}
				_, mended := readBy(t, c)
				same(mended)
				assert.Len(t, mended.Notes, len(want.Notes)+3, "%s: tokens and both windows are made again: %q", what, mended.Notes)
				for _, f := range files {
					now, err := os.ReadFile(f)
					require.NoError(t, err)
					assert.Equal(t, before[f], now, "%s: %s", what, f)
				}
			}
		}
	}
}

// How documents lie on the disk, 12 bytes a piece and 8 a window and a document, is all that there is of them: the heap has none.
func TestDocumentsAreNotInMemory(t *testing.T) {
	const documents = 50_000
	var all strings.Builder
	for range documents {
		all.WriteString("{\"text\": \"abcdefg\"}\n")
	}
	root := tree(t, map[string]string{"a.jsonl": all.String()})
	all.Reset()
	for _, packing := range data.Packings {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		cache := t.TempDir()
		corpus := open(t, Config{JSONL: []string{root + "/a.jsonl"}, Layout: data.Layout{Packing: packing}, Context: 8, Cache: cache, Validation: 0.01})
		runtime.GC()
		runtime.ReadMemStats(&after)
		assert.Less(t, int64(after.HeapAlloc)-int64(before.HeapAlloc), int64(documents), "%s: less than a byte a document", packing)
		require.Equal(t, documents, corpus.Train.(*Documents).Count()+corpus.Validation.(*Documents).Count())
		windows, err := filepath.Glob(cache + "/*.windows")
		require.NoError(t, err)
		size := int64(0)
		for _, w := range windows {
			info, err := os.Stat(w)
			require.NoError(t, err)
			size += info.Size()
		}
		assert.Less(t, size, int64(20*documents*9/8+1000), packing)
		runtime.KeepAlive(corpus)
	}
}

// Windows of another length than those that Open was asked for are laid later, when its context has ended.
func TestWindowsOfAnotherLength(t *testing.T) {
	root := tree(t, map[string]string{"a.jsonl": rowsOfText(50)})
	for _, cache := range []string{"", t.TempDir()} {
		corpus := open(t, Config{JSONL: []string{root + "/a.jsonl"}, Context: 32, Cache: cache})
		want := open(t, Config{JSONL: []string{root + "/a.jsonl"}, Context: 9})
		for range 2 {
			_, labels := rows(t, corpus.Train, 9)
			_, wanted := rows(t, want.Train, 9)
			assert.Equal(t, wanted, labels)
		}
	}
}

// Numbers that memory does not hold go to a file that leaves nothing behind, and come back in their order.
func TestSpill(t *testing.T) {
	dir := t.TempDir()
	c, r := &Corpus{}, &reading{ctx: t.Context(), config: Config{Cache: dir}}
	const count = 3*numbersAtOnce + 7
	f, _, err := c.tokenFile(r, tokenKey{}, 2, func(w *tokenWriter) error {
		for i := range uint64(count) {
			require.NoError(t, w.part(i*i))
		}
		return nil
	})
	require.NoError(t, err)
	next := uint64(0)
	require.NoError(t, f.parts.each(r, func(i int64, n uint64) (bool, error) {
		require.Equal(t, next, uint64(i))
		require.Equal(t, next*next, n)
		next++
		return next < count-1, nil
	}))
	assert.Equal(t, uint64(count-1), next)
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Len(t, left, 1)
	require.NoError(t, c.Close())
}
