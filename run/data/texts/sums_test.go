package texts

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/run/data"
)

// aged makes files older than the clock of a file system is coarse.
func aged(t *testing.T, pattern string, age time.Duration) {
	paths, err := filepath.Glob(pattern)
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	for _, p := range paths {
		require.NoError(t, os.Chtimes(p, time.Time{}, time.Now().Add(-age)))
	}
}

// readBy is how many bytes the last phase of opening a corpus reads.
func readBy(t *testing.T, c Config) (int64, *Corpus) {
	r := &reading{ctx: t.Context(), config: c}
	corpus, err := r.open(c)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, corpus.Close()) })
	return r.far(0).Bytes, corpus
}

// A second start reads a few samples instead of the text, and says the same of it.
func TestContentIsReadOnce(t *testing.T) {
	const files, size = 6, 1 << 20
	content := map[string]string{}
	for i := range files {
		content[fmt.Sprintf("%d.txt", i)] = strings.Repeat(fmt.Sprintf("the text of file %d. ", i), size/20)
	}
	root := tree(t, content)
	c := Config{Text: []string{root + "/*.txt"}, Context: 8, Cache: t.TempDir(), Validation: 0.2}
	plain := c
	plain.Cache = ""
	_, want := readBy(t, plain)
	tokens := read(t, want.Train)

	_, young := readBy(t, c) // files that may still be written within a tick of the clock
	again, _ := readBy(t, c)
	assert.Greater(t, again, int64(files*size*9/10), "just written: nothing is kept")
	aged(t, root+"/*.txt", time.Hour)
	first, corpus := readBy(t, c)
	assert.Greater(t, first, int64(files*size*9/10))
	second, kept := readBy(t, c)
	assert.Less(t, second, int64(files*8*sumParts+200))
	for _, corpus := range []*Corpus{young, corpus, kept} {
		assert.Equal(t, want.Fingerprint, corpus.Fingerprint)
	}
	assert.Equal(t, tokens, read(t, kept.Train))

	// What changes is read again, alone.
	change := func(what string, change func(name string), seen bool) {
		name := filepath.Join(root, "3.txt")
		before, err := os.ReadFile(name)
		require.NoError(t, err)
		info, err := os.Stat(name)
		require.NoError(t, err)
		change(name)
		n, changed := readBy(t, c)
		assert.Equal(t, seen, changed.Fingerprint != want.Fingerprint, what)
		assert.Less(t, n, int64(2*size), what)
		require.NoError(t, os.WriteFile(name, before, 0o644))
		require.NoError(t, os.Chtimes(name, time.Time{}, info.ModTime()))
		_, back := readBy(t, c)
		assert.Equal(t, want.Fingerprint, back.Fingerprint, what)
	}
	put := func(at int64, touch time.Duration) func(name string) {
		return func(name string) {
			info, err := os.Stat(name)
			require.NoError(t, err)
			f, err := os.OpenFile(name, os.O_WRONLY, 0)
			require.NoError(t, err)
			_, err = f.WriteAt([]byte("#"), at)
			require.NoError(t, err)
			require.NoError(t, f.Close())
			require.NoError(t, os.Chtimes(name, time.Time{}, info.ModTime().Add(touch)))
		}
	}
	change("overwritten", put(100_000, time.Second), true)
	change("overwritten in the sample, at the same time", put(100, 0), true)
	change("grown", func(name string) {
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND, 0)
		require.NoError(t, err)
		_, err = f.WriteString("more")
		require.NoError(t, err)
		require.NoError(t, f.Close())
		aged(t, name, 30*time.Minute)
	}, true)
	change("touched", func(name string) { aged(t, name, time.Minute) }, false)
	// The one change that nothing tells but reading all: this is what the page says.
	change("overwritten beside the sample, at the same time", put(100_000, 0), false)
}

// Hashes that are damaged, cut off, of other files or of no file are made again, and a directory that cannot be written to is told of.
func TestKeptHashesThatCannotBe(t *testing.T) {
	root := tree(t, map[string]string{"a.txt": strings.Repeat("some text. ", 100), "b.txt": "more of it"})
	aged(t, root+"/*.txt", time.Hour)
	c := Config{Text: []string{root + "/*.txt"}, Context: 8, Cache: t.TempDir()}
	_, want := readBy(t, c)
	kept, err := filepath.Glob(c.Cache + "/*.sums")
	require.NoError(t, err)
	require.Len(t, kept, 1)
	whole, err := os.ReadFile(kept[0])
	require.NoError(t, err)
	for what, raw := range map[string][]byte{
		"cut off": whole[:len(whole)-9], "empty": {}, "damaged": append([]byte{whole[0] ^ 1}, whole[1:]...), "something else": bytes.Repeat([]byte("x"), len(whole)),
	} {
		require.NoError(t, os.WriteFile(kept[0], raw, 0o644))
		_, corpus := readBy(t, c)
		assert.Equal(t, want.Fingerprint, corpus.Fingerprint, what)
		now, err := os.ReadFile(kept[0])
		require.NoError(t, err)
		assert.Equal(t, whole, now, what)
	}
	c.Cache = filepath.Join(root, "a.txt", "below a file")
	_, corpus := readBy(t, c)
	assert.Equal(t, want.Fingerprint, corpus.Fingerprint)
	require.Len(t, corpus.Notes, 1)
	assert.Contains(t, corpus.Notes[0], "hashes of 2 files are not kept")
	assert.Contains(t, corpus.Notes[0], "data.cache")
}

// A text is not in memory, and of many files few are open: a file that was closed meanwhile is opened again, unless it has changed or gone.
func TestManyFiles(t *testing.T) {
	const files, size = mostOpen + 40, 64 << 10
	content := map[string]string{}
	for i := range files {
		content[fmt.Sprintf("%04d.txt", i)] = strings.Repeat(fmt.Sprintf("%07d ", i), size/8)
	}
	root := tree(t, content)
	content = nil
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	corpus := open(t, Config{Text: []string{root + "/*.txt"}, Context: 8})
	runtime.GC()
	runtime.ReadMemStats(&after)
	assert.Less(t, int64(after.HeapAlloc)-int64(before.HeapAlloc), int64(files<<10), "a KiB a file of 64")
	dst := make([]int32, 8)
	for range 2 {
		for i := range files {
			require.NoError(t, text(corpus.Train).Read(dst, int64(i)*size+8*int64(i)))
			require.Equal(t, fmt.Sprintf("%07d ", i), data.DecodeBytes(dst))
		}
	}
	all := corpus.files[0].(*openFiles)
	assert.Len(t, all.open, mostOpen)
	var closed []int64
	for i := range int64(files) {
		if _, there := all.open[corpus.Paths[i]]; !there {
			closed = append(closed, i)
		}
	}
	gone, changed := corpus.Paths[closed[0]], corpus.Paths[closed[1]]
	require.NoError(t, os.Remove(gone))
	require.NoError(t, os.WriteFile(changed, []byte("other"), 0o644))
	require.ErrorContains(t, text(corpus.Train).Read(dst, closed[0]*size), gone)
	require.ErrorContains(t, text(corpus.Train).Read(dst, closed[1]*size), "the file changed while it was in use: 5 bytes, was 65536")
	require.NoError(t, corpus.Close())
	require.ErrorContains(t, text(corpus.Train).Read(dst, 2*size), "the corpus is closed")
}
