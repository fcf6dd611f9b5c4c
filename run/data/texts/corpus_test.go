package texts

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/hub"
	"gputrain/run/data"
	"gputrain/tests/frugal"
	"gputrain/text/tokenizer"
)

// text is a source that is known to be one.
func text(s data.Source) *data.Tokens { return s.(*data.Tokens) }

func read(t *testing.T, source data.Source) []int32 {
	t.Helper()
	tokens := text(source)
	all := make([]int32, tokens.Len())
	require.NoError(t, tokens.Read(all, 0))
	return all
}

func open(t *testing.T, c Config) *Corpus {
	t.Helper()
	corpus, err := Open(t.Context(), c)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, corpus.Close()) })
	return corpus
}

func TestOpenJoinsFilesInPathOrder(t *testing.T) {
	root := tree(t, map[string]string{"b.txt": "second", "a.txt": "first ", "c.txt": "", "d.txt": "\xff\x00"})
	c := open(t, Config{Text: []string{root + "/*.txt"}, Context: 3})
	assert.Equal(t, []string{root + "/a.txt", root + "/b.txt", root + "/c.txt", root + "/d.txt"}, c.Paths)
	assert.Equal(t, "first second\xff\x00", data.DecodeBytes(read(t, c.Train)))
	assert.Equal(t, data.EncodeBytes("first second\xff\x00"), read(t, c.Train))
	assert.Nil(t, c.Validation)
	assert.Equal(t, 256, c.Train.Vocab())
	assert.Equal(t, "none", c.Split)
	for from := int64(0); from < text(c.Train).Len(); from++ {
		for to := from; to <= text(c.Train).Len(); to++ {
			dst := make([]int32, to-from)
			require.NoError(t, text(c.Train).Read(dst, from))
			require.Equal(t, read(t, c.Train)[from:to], dst)
		}
	}
	require.Error(t, text(c.Train).Read(make([]int32, 2), text(c.Train).Len()-1))
	require.Error(t, text(c.Train).Read(make([]int32, 1), -1))
}

func TestSplitByFileIsCloseToTheShare(t *testing.T) {
	files := map[string]string{}
	total := 0
	for i := range 200 {
		size := 50 + i*37%211
		files[fmt.Sprintf("f%03d.txt", i)] = strings.Repeat(string(rune('a'+i%26)), size)
		total += size
	}
	root := tree(t, files)
	c := open(t, Config{Text: []string{root + "/*"}, Context: 8, Validation: 0.05})
	assert.Equal(t, "by file", c.Split)
	assert.InDelta(t, 0.05*float64(total), float64(text(c.Validation).Len()), 0.01*float64(total))
	assert.Equal(t, int64(total), text(c.Train).Len()+text(c.Validation).Len())
	assert.Len(t, slices.Compact(read(t, c.Validation)), 10, "files, each of one letter")
	assert.Len(t, slices.Compact(read(t, c.Train)), 190)
	again := open(t, Config{Text: []string{root + "/*"}, Context: 8, Validation: 0.05})
	assert.Equal(t, read(t, c.Validation), read(t, again.Validation))
}

func TestSplitTakesTheTailWhereFilesAreTooCoarse(t *testing.T) {
	root := tree(t, map[string]string{"a.txt": strings.Repeat("a", 900), "b.txt": strings.Repeat("b", 100)})
	for _, tt := range []struct {
		share             float64
		train, validation string
		split             string
	}{
		{0.04, strings.Repeat("a", 900) + strings.Repeat("b", 60), strings.Repeat("b", 40), "tail"},
		{0.1, strings.Repeat("a", 900), strings.Repeat("b", 100), "by file"},
		{0.4, strings.Repeat("a", 600), strings.Repeat("a", 300) + strings.Repeat("b", 100), "tail"},
		{0.9, strings.Repeat("a", 100), strings.Repeat("a", 800) + strings.Repeat("b", 100), "tail"},
	} {
		c := open(t, Config{Text: []string{root + "/*"}, Context: 8, Validation: tt.share})
		assert.Equal(t, tt.split, c.Split, tt.share)
		assert.Equal(t, tt.train, data.DecodeBytes(read(t, c.Train)), tt.share)
		assert.Equal(t, tt.validation, data.DecodeBytes(read(t, c.Validation)), tt.share)
	}
	one := open(t, Config{Text: []string{root + "/a.txt"}, Context: 8, Validation: 0.1})
	assert.Equal(t, int64(90), text(one.Validation).Len())
}

func TestOpenErrors(t *testing.T) {
	root := tree(t, map[string]string{"empty.txt": "", "short.txt": strings.Repeat("x", 100), "long.txt": strings.Repeat("x", 1200)})
	for want, c := range map[string]Config{
		"empty: 0 bytes in 1 files found, want at least 129":            {Text: []string{root + "/empty.txt"}, Context: 128},
		"100 bytes found, want at least 129":                            {Text: []string{root + "/short.txt"}, Context: 128},
		"leaves 60 for validation, want at least 129":                   {Text: []string{root + "/long.txt"}, Context: 128, Validation: 0.05},
		"leaves 12 for training, want at least 129":                     {Text: []string{root + "/long.txt"}, Context: 128, Validation: 0.99},
		"validation: 1, want a share":                                   {Text: []string{root + "/long.txt"}, Context: 128, Validation: 1},
		"validation: NaN, want a share":                                 {Text: []string{root + "/long.txt"}, Context: 128, Validation: nan()},
		"context: 0, want at least 1":                                   {Text: []string{root + "/long.txt"}},
		`tokens: "byte", want one of ["bytes" "u16" "u32" "tokenizer"]`: {Text: []string{root + "/long.txt"}, Tokens: "byte", Context: 8},
		"vocabulary 0, want that of the tokens":                         {Text: []string{root + "/long.txt"}, Tokens: "u32", Context: 8},
		`vocab: 65537: does not suit tokens "u16"`:                      {Text: []string{root + "/long.txt"}, Tokens: "u16", Vocab: 65537, Context: 8},
		`text: none, want the files of the "u16" tokens`:                {Tokens: "u16", Context: 8},
		"no file matches":                                               {Text: []string{root + "/books/*.txt"}, Context: 8},
		`data: tokens "` + root + `/empty.txt": 0 bytes: empty`:         {Text: []string{root + "/empty.txt"}, Tokens: "u16", Context: 8},
		"token 0: is 30840, want less than the vocabulary 1000":         {Text: []string{root + "/long.txt"}, Tokens: "u16", Vocab: 1000, Context: 8},
		"token 0: is 30840, want less than the vocabulary 30840":        {Text: []string{root + "/long.txt"}, Tokens: "u16", Vocab: 30840, Context: 8},
		"token 0: is 2021161080, want less than the vocabulary 50257":   {Text: []string{root + "/long.txt"}, Tokens: "u32", Vocab: 50257, Context: 8},
	} {
		corpus, err := Open(t.Context(), c)
		if err == nil { // tokens out of the vocabulary show when they are read
			err = text(corpus.Train).Read(make([]int32, 4), 0)
			require.NoError(t, corpus.Close())
		}
		require.ErrorContains(t, err, want)
		assert.ErrorContains(t, err, "data: ")
	}
}

func nan() float64 {
	var zero float64
	return zero / zero
}

// binFile is a well-formed token file.
func binFile(width int, vocab uint32, tokens ...uint32) []byte {
	raw := append([]byte(binMagic), make([]byte, binHeaderSize-8)...)
	binary.LittleEndian.PutUint32(raw[8:], binVersion)
	binary.LittleEndian.PutUint32(raw[12:], uint32(width))
	binary.LittleEndian.PutUint64(raw[16:], uint64(len(tokens)))
	binary.LittleEndian.PutUint32(raw[24:], vocab)
	for _, v := range tokens {
		if width == 2 {
			raw = binary.LittleEndian.AppendUint16(raw, uint16(v))
		} else {
			raw = binary.LittleEndian.AppendUint32(raw, v)
		}
	}
	return raw
}

func TestTokenFiles(t *testing.T) {
	two, four := binFile(2, 60000, 1, 2, 3, 59999), binFile(4, 100000, 99999, 5, 6)
	root := tree(t, map[string]string{
		"a.bin": string(two), "b.bin": string(four),
		"bare.u16": string(two[binHeaderSize:]), "bare.u32": string(four[binHeaderSize:]),
	})
	c := open(t, Config{Text: []string{root + "/a.bin"}, Tokens: "u16", Context: 2})
	assert.Equal(t, []int32{1, 2, 3, 59999}, read(t, c.Train))
	assert.Equal(t, 60000, c.Train.Vocab())
	c = open(t, Config{Text: []string{root + "/b.*", root + "/bare.u32"}, Tokens: "u32", Vocab: 200000, Context: 2})
	assert.Equal(t, []int32{99999, 5, 6, 99999, 5, 6}, read(t, c.Train), "with and without a header")
	assert.Equal(t, 200000, c.Train.Vocab())
	_, err := Open(t.Context(), Config{Text: []string{root + "/*.bin"}, Tokens: "u16", Context: 2})
	require.ErrorContains(t, err, "tokens of 4 bytes, want 2: set data.tokens to u32")
	c = open(t, Config{Text: []string{root + "/bare.u16"}, Tokens: "u16", Context: 2})
	assert.Equal(t, []int32{1, 2, 3, 59999}, read(t, c.Train))
	assert.Equal(t, 65536, c.Train.Vocab())
	c = open(t, Config{Text: []string{root + "/bare.u32"}, Tokens: "u32", Vocab: 100000, Context: 1})
	assert.Equal(t, []int32{99999, 5, 6}, read(t, c.Train))
	_, err = Open(t.Context(), Config{Text: []string{root + "/bare.u32"}, Tokens: "u32", Vocab: 100000, Context: 1, Validation: 0.3})
	require.ErrorContains(t, err, "of 3 tokens: leaves 1 for validation, want at least 2")
	_, err = Open(t.Context(), Config{Text: []string{root + "/a.bin"}, Context: 2})
	require.ErrorContains(t, err, "set data.tokens to u16 or u32")
}

func TestHostileTokenFiles(t *testing.T) {
	change := func(at int, v uint32) []byte {
		raw := binFile(2, 100, 1, 2, 3)
		binary.LittleEndian.PutUint32(raw[at:], v)
		return raw
	}
	good := binFile(2, 100, 1, 2, 3)
	for want, raw := range map[string][]byte{
		"9 bytes found, want at least 32": []byte(binMagic + "1"),
		"truncated or corrupted":          good[:len(good)-1],
		"says 3 tokens of 2 bytes":        good[:len(good)-2],
		"the file holds 8 bytes":          append(binFile(2, 100, 1, 2, 3), 0, 0),
		"says 4294967295 tokens":          change(16, 1<<32-1),
		"says 9223372036854775811 tokens": change(20, 1<<31), // count*2 would overflow
		"version 2, want 1":               change(8, 2),
		"3 bytes a token":                 change(12, 3),
		"0 bytes a token":                 change(12, 0),
		"vocabulary 0":                    change(24, 0),
		"vocabulary 65537":                change(24, 65537),
		"reserved field is 7":             change(28, 7),
	} {
		name := filepath.Join(t.TempDir(), "x.bin")
		require.NoError(t, os.WriteFile(name, raw, 0o644))
		_, err := Open(t.Context(), Config{Text: []string{name}, Tokens: "u16", Context: 1})
		require.ErrorContains(t, err, want)
		assert.ErrorContains(t, err, name)
	}
	name := filepath.Join(t.TempDir(), "odd")
	require.NoError(t, os.WriteFile(name, []byte{1, 2, 3}, 0o644))
	_, err := Open(t.Context(), Config{Text: []string{name}, Tokens: "u16", Context: 1})
	require.ErrorContains(t, err, "want a multiple of 2")
}

func FuzzBinHeader(f *testing.F) {
	f.Add(binFile(2, 100, 1, 2, 3))
	f.Add(binFile(4, 1<<30, 7))
	f.Add([]byte(binMagic))
	f.Fuzz(func(t *testing.T, raw []byte) {
		frugal.Parse(t, len(raw), func() {
			h, err := readBinHeader(strings.NewReader(string(raw)), int64(len(raw)))
			if err == nil {
				require.Equal(t, int64(len(raw)), h.offset+h.count*int64(h.width))
				require.Positive(t, h.vocab)
			}
		})
	})
}

// A run must not learn from other bytes than its fingerprint says: a file may be renamed or removed while it is read,
// and nothing else.
func TestChangedFileIsAnError(t *testing.T) {
	const size = 1 << 20
	long := time.Now().Add(-time.Hour)
	for change, c := range map[string]struct {
		make func(name string) error
		says string
	}{
		"truncated": {func(name string) error { return os.Truncate(name, 4096) }, "4096 bytes, was"},
		"grown": {func(name string) error {
			f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND, 0)
			_, put := f.WriteString("more")
			return errors.Join(err, put, f.Close())
		}, fmt.Sprintf("%d bytes, was %d", size+4, size)},
		"overwritten": {func(name string) error {
			f, err := os.OpenFile(name, os.O_WRONLY, 0)
			_, put := f.WriteAt([]byte("x"), 4096)
			return errors.Join(err, put, f.Close())
		}, "written at"},
		"renamed": {func(name string) error { return os.Rename(name, name+".old") }, ""},
		"replaced": {func(name string) error {
			return errors.Join(os.WriteFile(name+".new", []byte("x"), 0o644), os.Rename(name+".new", name))
		}, ""},
		"removed": {os.Remove, ""},
	} {
		t.Run(change, func(t *testing.T) {
			name := filepath.Join(t.TempDir(), "big.txt")
			require.NoError(t, os.WriteFile(name, []byte(strings.Repeat("0123456789abcdef", size/16)), 0o644))
			require.NoError(t, os.Chtimes(name, long, long))
			corpus := open(t, Config{Text: []string{name}, Context: 8})
			dst := make([]int32, 16)
			for _, at := range []int64{0, size - 16} {
				require.NoError(t, text(corpus.Train).Read(dst, at))
			}
			require.Len(t, corpus.files[0].(*openFiles).open, 1, "not in memory")
			require.NoError(t, c.make(name))
			for _, at := range []int64{0, size - 16} {
				err := text(corpus.Train).Read(dst, at)
				if c.says == "" {
					require.NoError(t, err)
					require.Equal(t, "0123456789abcdef", data.DecodeBytes(dst))
					continue
				}
				require.ErrorContains(t, err, "the file changed while it was in use: "+c.says)
				require.ErrorContains(t, err, name)
			}
		})
	}
}

func TestFingerprintSeesEveryChange(t *testing.T) {
	base := map[string]string{"a.txt": strings.Repeat("a", 500), "b.txt": strings.Repeat("b", 500)}
	print := func(files map[string]string, validation float64) string {
		return open(t, Config{Text: []string{tree(t, files) + "/*.txt"}, Context: 8, Validation: validation}).Fingerprint
	}
	first := print(base, 0.1)
	assert.Len(t, first, 64)
	assert.Equal(t, first, print(base, 0.1), "another directory, the same text")
	for what, files := range map[string]map[string]string{
		"one byte":  {"a.txt": strings.Repeat("a", 499) + "x", "b.txt": strings.Repeat("b", 500)},
		"the sizes": {"a.txt": strings.Repeat("a", 500) + "b", "b.txt": strings.Repeat("b", 499)},
	} {
		assert.NotEqual(t, first, print(files, 0.1), what)
	}
	assert.NotEqual(t, first, print(base, 0.2), "the split")

	// What counts is the content, however its files are called and their paths are spelt.
	renamed := tree(t, map[string]string{"books/x.txt": base["a.txt"], "books/y.txt": base["b.txt"]})
	t.Chdir(renamed)
	for _, spelling := range [][]string{
		{renamed + "/books/*.txt"}, {"books/*.txt"}, {"./books/../books/[xy].txt"}, {"**/*.txt"}, {"books/y.txt", "books/x.txt"},
	} {
		corpus := open(t, Config{Text: spelling, Context: 8, Validation: 0.1})
		assert.Equal(t, first, corpus.Fingerprint, spelling)
	}
	t.Chdir(t.TempDir())
	assert.Equal(t, first, open(t, Config{Dir: renamed, Text: []string{"books/*.txt"}, Context: 8, Validation: 0.1}).Fingerprint, "from another directory")
	assert.Equal(t, first, open(t, Config{Dir: renamed, Text: []string{"books/x.txt", "books/y.txt"}, Context: 8, Validation: 0.1}).Fingerprint)
}

// Opening ends with its context, and where a read hangs; it says how far it is.
func TestOpeningEnds(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("signal interrupt"))
	_, err := Open(ctx, Config{Text: []string{tree(t, map[string]string{"a.txt": "abc"}) + "/*"}, Context: 1})
	require.ErrorContains(t, err, "signal interrupt")

	hang, left := make(chan struct{}), make(chan struct{})
	r := &reading{config: Config{Timeout: 200 * time.Millisecond}}
	r.ctx, r.end = context.WithCancelCause(t.Context())
	var told int64
	r.config.Progress = func(p Progress) { told = p.Bytes }
	done := make(chan opened, 1)
	go func() {
		_, _ = r.do("a", func() (int, error) { return 7, nil })
		_, err := r.do("disk", func() (int, error) { <-hang; return 0, nil })
		done <- opened{&Corpus{files: []io.Closer{closed(left)}}, err}
	}()
	_, err = r.wait(done)
	var late *data.TimeoutError
	require.ErrorAs(t, err, &late)
	require.ErrorContains(t, err, `data: open "disk": nothing read within 200ms`)
	assert.EqualValues(t, 7, told)
	close(hang)
	<-left // what it has opened in the end is closed
}

// closed tells that it was closed.
type closed chan struct{}

func (c closed) Close() error { close(c); return nil }

// The built-in corpus is what the default run learns: it must be there, be large, and
// be parted by file near 95 to 5.
func TestBuiltInCorpus(t *testing.T) {
	if testing.Short() {
		t.Skip("reads the source of the toolchain")
	}
	c := open(t, Config{Context: 128, Validation: 0.05})
	total := text(c.Train).Len() + text(c.Validation).Len()
	t.Logf("%d files, %d bytes, validation %.3f %%, %s", c.Files, total, 100*float64(text(c.Validation).Len())/float64(total), c.Fingerprint)
	assert.Greater(t, c.Files, 2000)
	assert.Greater(t, total, int64(20<<20))
	assert.Equal(t, "by file", c.Split)
	assert.InDelta(t, 0.05, float64(text(c.Validation).Len())/float64(total), 0.002)
}

// openTokenizer opens the tokenizer at a path.
func openTokenizer(path string) (*tokenizer.Tokenizer, error) {
	files, err := hub.OpenTokenizer(path)
	if err != nil {
		return nil, err
	}
	return tokenizer.Open(files)
}
