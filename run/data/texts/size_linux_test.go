package texts

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/run/data"
)

// proc is a number that the system keeps of this process.
func proc(t *testing.T, file, name string) (n int64) {
	t.Helper()
	text, err := os.ReadFile("/proc/self/" + file)
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			_, err := fmt.Sscan(value, &n)
			require.NoError(t, err)
		}
	}
	return n
}

// writeMade writes lines, in turn, until a file has so many bytes; with none it is a hole. It was written an hour ago.
func writeMade(t *testing.T, path string, size int64, lines ...string) {
	t.Helper()
	f, err := os.Create(path)
	require.NoError(t, err)
	if len(lines) == 0 {
		require.NoError(t, f.Truncate(size))
	}
	w := bufio.NewWriterSize(f, 1<<20)
	for at, i := int64(0), 0; len(lines) > 0 && at < size; i++ {
		n, err := w.WriteString(lines[i%len(lines)])
		require.NoError(t, err)
		at += int64(n)
	}
	require.NoError(t, w.Flush())
	require.NoError(t, f.Close())
	then := time.Now().Add(-time.Hour)
	require.NoError(t, os.Chtimes(path, then, then))
}

// A corpus takes some megabytes, whatever it holds: as bytes, by a tokenizer, and as rows, when it is opened first and again, and while a run reads it.
// The second start reads samples and the tokens' sums. GPUTRAIN_CORPUS is how many GiB it has as bytes, and forty times what it has otherwise, as these are
// bound by the processor.
func TestCorpusIsNotInMemory(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(100)) // as programs have it: tests run with more, and garbage would count
	size, most, other := int64(256<<20), int64(48<<10), int64(24<<20)
	if testing.Short() {
		other = 8 << 20
	}
	if gib, err := strconv.ParseFloat(os.Getenv("GPUTRAIN_CORPUS"), 64); err == nil {
		size = int64(gib * (1 << 30))
		other = size / 40
	}
	dir, cache := t.TempDir(), t.TempDir()
	prose := []string{"The lighthouse keeper's lamp burned low.\n", "In 2024, 17 ships passed; none of them saw it.\n\n", "\tif err != nil { return err }\n"}
	const files = 20
	for i := range files {
		writeMade(t, filepath.Join(dir, fmt.Sprintf("%02d.bytes", i)), size/files)
		writeMade(t, filepath.Join(dir, fmt.Sprintf("%02d.txt", i)), other/files, prose...)
		writeMade(t, filepath.Join(dir, fmt.Sprintf("%02d.jsonl", i)), other/files, `{"text": "The keeper's lamp", "id": 1}`+"\n", `{"text": "`+strings.Repeat("ships passed ", 90)+`"}`+"\n")
	}
	for _, c := range []struct {
		name   string
		config Config
		size   int64
	}{
		{"bytes", Config{Text: []string{dir + "/*.bytes"}}, size},
		{"tokenizer", Config{Text: []string{dir + "/*.txt"}, Tokens: "tokenizer", Tokenizer: tokenizerOf(t, "gpt2")}, other},
		{"rows as bytes", Config{JSONL: []string{dir + "/*.jsonl"}}, other},
		{"rows, tokenizer", Config{JSONL: []string{dir + "/*.jsonl"}, Tokens: "tokenizer", Tokenizer: tokenizerOf(t, "gpt2")}, other},
	} {
		c.config.Context, c.config.Validation, c.config.Cache = 1024, 0.05, cache
		for start := range 2 {
			debug.FreeOSMemory()
			require.NoError(t, os.WriteFile("/proc/self/clear_refs", []byte("5"), 0)) // the most so far is what it has now
			resident, read, began := proc(t, "status", "VmRSS"), proc(t, "io", "rchar"), time.Now()
			corpus, err := Open(t.Context(), c.config)
			require.NoError(t, err)
			took := time.Since(began)
			read = proc(t, "io", "rchar") - read
			batches(t, corpus.Train, data.LoaderConfig{Context: 1024, Batch: 8, Seed: 1}, 20)
			grown := proc(t, "status", "VmHWM") - resident
			require.NoError(t, corpus.Close())
			t.Logf("%-16s start %d of %6d MiB: %4d MiB more resident, %6d MiB read, %v", c.name, start+1, c.size>>20, grown>>10, read>>20, took.Round(time.Millisecond))
			assert.Less(t, grown, most, "%s: kB of memory", c.name)
			if start == 0 {
				assert.Greater(t, read, c.size, "%s", c.name)
				continue
			}
			kept := int64(0)
			if c.name != "bytes" {
				found, err := filepath.Glob(cache + "/*")
				require.NoError(t, err)
				for _, f := range found {
					info, err := os.Stat(f)
					require.NoError(t, err)
					kept += info.Size()
				}
			}
			assert.Less(t, read, 4<<20+kept, "%s", c.name)
		}
	}
}
