package data

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
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

// Every pair of neighbours in a document is one input with its label, once, whatever the packing: no token gets lost and none comes from
// another document. Windows are as long as they must be (a packer that keeps only the last part of a document longer than its window, or
// makes rows of other lengths, fails here).
func TestEveryTokenIsLearnedOnce(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 5))
	for _, packing := range Packings {
		for _, size := range []int{1, 2, 3, 4, 5, 8, 31} {
			lengths := []int{11, 9, 2, 0, 1, size, size + 1, size + 2, 2*size + 1, 1} // 11 and 4, 9 and 5: where others lost tokens
			for range 60 {
				lengths = append(lengths, random.IntN(3*size+2))
			}
			want := map[[2]int32]int{}
			for d, n := range lengths {
				for j := range n - 1 {
					want[[2]int32{int32(1000*d + j), int32(1000*d + j + 1)}] = 1
				}
			}
			tokens, labels := rows(t, numbered(Layout{Packing: packing}, lengths...), size)
			got := map[[2]int32]int{}
			for row := range tokens {
				for i, label := range labels[row] {
					if label != Ignored {
						got[[2]int32{tokens[row][i], label}]++
					}
				}
			}
			require.Equal(t, want, got, "%s, windows of %d", packing, size)
		}
	}
}

func TestPackings(t *testing.T) {
	const x = Ignored
	for _, c := range []struct {
		packing, long  string
		tokens, labels [][]int32
	}{
		// Documents of 3, 6, 2, 1 and 2 tokens in windows of 4.
		{
			PackNone, LongSplit,
			[][]int32{{0, 1, 2, 0}, {1000, 1001, 1002, 1003}, {1004, 1005, 0, 0}, {2000, 2001, 0, 0}, {4000, 4001, 0, 0}},
			[][]int32{{1, 2, x, x}, {1001, 1002, 1003, 1004}, {1005, x, x, x}, {2001, x, x, x}, {4001, x, x, x}},
		},
		{
			PackFirstFit, LongSplit,
			[][]int32{{1000, 1001, 1002, 1003}, {1004, 1005, 2000, 2001}, {0, 1, 2, 0}, {4000, 4001, 0, 0}},
			[][]int32{{1001, 1002, 1003, 1004}, {1005, x, 2001, x}, {1, 2, x, x}, {4001, x, x, x}},
		},
		{
			PackGreedy, LongSplit,
			[][]int32{{0, 1, 2, 0}, {1000, 1001, 1002, 1003}, {1004, 1005, 2000, 2001}, {4000, 4001, 0, 0}},
			[][]int32{{1, 2, x, x}, {1001, 1002, 1003, 1004}, {1005, x, 2001, x}, {4001, x, x, x}},
		},
		{
			PackStream, LongSplit,
			[][]int32{{0, 1, 2, 1000}, {1001, 1002, 1003, 1004}, {2000, 2001, 4000, 4001}},
			[][]int32{{1, 2, x, 1001}, {1002, 1003, 1004, 1005}, {2001, x, 4001, x}},
		},
		{
			PackNone, LongKeepStart,
			[][]int32{{0, 1, 2, 0}, {1000, 1001, 1002, 1003}, {2000, 2001, 0, 0}, {4000, 4001, 0, 0}},
			[][]int32{{1, 2, x, x}, {1001, 1002, 1003, 1004}, {2001, x, x, x}, {4001, x, x, x}},
		},
		{
			PackNone, LongKeepEnd,
			[][]int32{{0, 1, 2, 0}, {1001, 1002, 1003, 1004}, {2000, 2001, 0, 0}, {4000, 4001, 0, 0}},
			[][]int32{{1, 2, x, x}, {1002, 1003, 1004, 1005}, {2001, x, x, x}, {4001, x, x, x}},
		},
	} {
		d := numbered(Layout{Packing: c.packing, Long: c.long}, 3, 6, 2, 1, 2)
		tokens, labels := rows(t, d, 4)
		assert.Equal(t, c.tokens, tokens, "%s %s", c.packing, c.long)
		assert.Equal(t, c.labels, labels, "%s %s", c.packing, c.long)
	}
	p, err := numbered(Layout{}, 1, 0, 3).pack(4)
	require.NoError(t, err)
	assert.Equal(t, 2, p.left, "documents without a label")
	_, err = numbered(Layout{}, 1, 0).pack(4)
	require.ErrorContains(t, err, "no document has a label that counts")
}

// Packing wastes little: the bound is what next-fit can waste at worst, half; first-fit is to be better than greedy, stream to waste nothing.
func TestPackingFillsWindows(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 7))
	var lengths []int
	for range 2000 {
		lengths = append(lengths, 2+random.IntN(100))
	}
	windows := map[string]int{}
	for _, packing := range Packings {
		p, err := numbered(Layout{Packing: packing}, lengths...).pack(128)
		require.NoError(t, err)
		windows[packing] = int(p.windows())
	}
	total := 0
	for _, n := range lengths {
		total += n
	}
	assert.Equal(t, 2000, windows[PackNone])
	assert.InDelta(t, total/128+1, windows[PackStream], 1)
	assert.Less(t, windows[PackFirstFit], total*110/100/128)
	assert.Less(t, windows[PackFirstFit], windows[PackGreedy])
	assert.Less(t, windows[PackGreedy], total*2/128)
}

// lines opens JSONL text.
func lines(t *testing.T, c Config, text string) (*Corpus, error) {
	t.Helper()
	c.JSONL = []string{filepath.Join(tree(t, map[string]string{"a.jsonl": text}), "a.jsonl")}
	corpus, err := Open(c)
	if err == nil {
		t.Cleanup(func() { assert.NoError(t, corpus.Close()) })
	}
	return corpus, err
}

func TestJSONL(t *testing.T) {
	const x = Ignored
	end := func(n int) *int { return &n }
	for name, c := range map[string]struct {
		config         Config
		text           string
		tokens, labels []int32
		kind           string
		vocab          int
	}{
		"text":           {Config{}, `{"text": "ab", "id": 7}`, []int32{'a', 'b', 0}, []int32{'b', 0, x}, "bytes", 256},
		"escapes":        {Config{}, `{"text": "\u00e9\n"}`, []int32{0xc3, 0xa9, '\n', 0}, []int32{0xa9, '\n', 0, x}, "bytes", 256},
		"blank lines":    {Config{}, "\n \r\n{\"text\": \"a\"}\r\n\n", []int32{'a', 0}, []int32{0, x}, "bytes", 256},
		"no end":         {Config{Layout: Layout{End: end(-1)}}, `{"text": "ab"}`, []int32{'a', 'b'}, []int32{'b', x}, "bytes", 256},
		"an end":         {Config{Layout: Layout{End: end(300)}}, `{"text": "a"}`, []int32{'a', 300}, []int32{300, x}, "bytes", 301},
		"tokens":         {Config{Vocab: 50257}, `{"input_ids": [5, 50256 ,7]}`, []int32{5, 50256, 7}, []int32{50256, 7, x}, "ids", 50257},
		"tokens, an end": {Config{Vocab: 50257, Layout: Layout{End: end(50256)}}, `{"input_ids": [5]}`, []int32{5, 50256}, []int32{50256, x}, "ids", 50257},
		"another field":  {Config{Fields: Fields{Text: "body"}}, `{"text": 3, "body": "a"}`, []int32{'a', 0}, []int32{0, x}, "bytes", 256},
		"prompt": {
			Config{Fields: Fields{Text: "a", Prompt: "q"}},
			`{"q": "xyz", "a": "bc"}`,
			[]int32{'x', 'y', 'z', 'b', 'c', 0},
			[]int32{x, x, 'b', 'c', 0, x},
			"bytes", 256,
		},
		"mask": {
			Config{Vocab: 10, Fields: Fields{Mask: "m"}},
			`{"input_ids": [1,2,3,4,5], "m": [0,1,0,0,1]}`,
			[]int32{1, 2, 3, 4, 5},
			[]int32{2, x, x, 5, x},
			"ids", 10,
		},
		"mask and end": {
			Config{Vocab: 10, Fields: Fields{Mask: "m"}, Layout: Layout{End: end(9)}},
			`{"input_ids": [1,2,3], "m": [1,1,0]}`,
			[]int32{1, 2, 3, 9},
			[]int32{2, x, x, x},
			"ids", 10,
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.config.Context = len(c.tokens)
			corpus, err := lines(t, c.config, c.text)
			require.NoError(t, err)
			tokens, labels := rows(t, corpus.Train, len(c.tokens))
			assert.Equal(t, [][]int32{c.tokens}, tokens)
			assert.Equal(t, [][]int32{c.labels}, labels)
			assert.Equal(t, c.kind, corpus.Tokens)
			assert.Equal(t, c.vocab, corpus.Train.Vocab())
		})
	}
}

func TestBadJSONL(t *testing.T) {
	good := `{"text": "good"}` + "\n"
	for want, c := range map[string]struct {
		config Config
		text   string
	}{
		`line 2: unexpected end of JSON input`:                                {Config{}, good + `{"text": "a"`},
		`line 2: invalid character`:                                           {Config{}, good + `{"text": "a"} {}`},
		`line 2: json: cannot unmarshal array`:                                {Config{}, good + `["a"]`},
		`line 2: found null, wanted an object`:                                {Config{}, good + `null`},
		`line 2: found fields ["body" "id"], wanted ["text" "input_ids"]`:     {Config{}, good + `{"id": 1, "body": "a"}`},
		`line 2: field "text": found null, wanted text or a list`:             {Config{}, good + `{"text": null}`},
		`line 2: field "text": found 12, wanted text or a list`:               {Config{}, good + `{"text": 12}`},
		`line 2: field "text": token 1: found 1.5, wanted a whole number`:     {Config{}, good + `{"text": [1, 1.5]}`},
		`line 2: field "text": token 0: found "1", wanted a whole`:            {Config{}, good + `{"text": ["1"]}`},
		`line 2: field "text": token 0: found [1, wanted a whole`:             {Config{}, good + `{"text": [[1, 2]]}`},
		`line 2: field "text": token 0: found null, wanted a whole`:           {Config{}, good + `{"text": [null]}`},
		`token 1: is 256, want less than the vocabulary 256 (model.vocab)`:    {Config{}, good + `{"text": [1, 256]}`},
		`token 0: is -1, want less than`:                                      {Config{}, good + `{"text": [-1]}`},
		`line 2: not UTF-8`:                                                   {Config{}, good + "{\"text\": \"\xff\"}"},
		`line 2: field "text": half of a surrogate pair`:                      {Config{}, good + `{"text": "a\ud800b"}`},
		`line 2: found fields ["text"], wanted ["q"]`:                         {Config{Fields: Fields{Prompt: "q"}}, `{"q": "", "text": "a"}` + "\n" + good},
		`line 1: field "m": 1 values, wanted one for each of the 2 tokens`:    {Config{Fields: Fields{Mask: "m"}}, `{"text": [1, 2], "m": [1]}`},
		`line 1: field "m": token 0: is 2, want less than`:                    {Config{Fields: Fields{Mask: "m"}}, `{"text": [1], "m": [2]}`},
		`line 1: found fields ["text"], wanted ["m"]`:                         {Config{Fields: Fields{Mask: "m"}}, `{"text": [1]}`},
		`end token: 256, want less than the vocabulary 256`:                   {Config{Vocab: 256, Layout: Layout{End: new256()}}, good},
		`no document has a label that counts`:                                 {Config{Fields: Fields{Mask: "m"}}, `{"text": [1, 2], "m": [0, 0]}`},
		`validation 0.5 of 1 documents leaves 0 for validation: no document`:  {Config{Validation: 0.5}, good},
		`validation 0 of 0 documents leaves 0 for training: no document`:      {Config{}, "\n"},
		`found text, wanted a list of tokens, as data.tokens says`:            {Config{Tokens: "u16"}, good},
		`packing: "best", want one of`:                                        {Config{Layout: Layout{Packing: "best"}}, good},
		`long documents: "keep", want one of`:                                 {Config{Layout: Layout{Long: "keep"}}, good},
		`long documents: "keep_end", want "split" with packing "stream"`:      {Config{Layout: Layout{Packing: PackStream, Long: LongKeepEnd}}, good},
		`text, jsonl, mixture: 2 of them given, want one: a mixture has both`: {Config{Text: []string{"a"}}, good},
	} {
		c.config.Context = 4
		_, err := lines(t, c.config, c.text)
		if assert.Error(t, err, want) {
			assert.Contains(t, err.Error(), want)
			assert.Contains(t, err.Error(), "data: ")
		}
	}
	// A replacement character that stands there is none that a half pair has become.
	for _, text := range []string{`{"text": "a\ufffdb"}`, `{"text": "a\uFFFDb"}`, `{"text": "a` + "\ufffd" + `b"}`, `{"text": "\ud83d\ude00"}`} {
		_, err := lines(t, Config{Context: 4}, text)
		assert.NoError(t, err, text)
	}
	reader := jsonl{vocab: 256, text: true, limit: 100, spool: newSpool(256, 100)}
	require.ErrorContains(t, reader.file("x", strings.NewReader(good+`{"text": "`+strings.Repeat("a", 200)+`"}`)), "line 2: longer than 100 bytes")
}

func new256() *int {
	n := 256
	return &n
}

func squeeze(t testing.TB, text string) string {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	_, err := z.Write([]byte(text))
	require.NoError(t, err)
	require.NoError(t, z.Close())
	return out.String()
}

func TestCompressedJSONL(t *testing.T) {
	text := `{"text": "one"}` + "\n" + `{"text": "two"}`
	whole := squeeze(t, text)
	root := tree(t, map[string]string{"a.jsonl": text, "b.jsonl.gz": whole, "torn.jsonl.gz": whole[:len(whole)-6], "no.jsonl.gz": text, "joined.jsonl.gz": squeeze(t, text+"\n") + whole})
	opened := func(name string) *Corpus {
		return open(t, Config{JSONL: []string{root + "/" + name}, Context: 4})
	}
	plain, _ := rows(t, opened("a.jsonl").Train, 4)
	packed, _ := rows(t, opened("b.jsonl.gz").Train, 4)
	assert.Equal(t, plain, packed)
	joined, _ := rows(t, opened("joined.jsonl.gz").Train, 4)
	assert.Equal(t, append(plain, plain...), joined)
	_, err := Open(Config{JSONL: []string{root + "/torn.jsonl.gz"}, Context: 4})
	require.ErrorContains(t, err, "unexpected EOF")
	_, err = Open(Config{JSONL: []string{root + "/no.jsonl.gz"}, Context: 4})
	require.ErrorContains(t, err, "gzip: invalid header")
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
	assert.Contains(t, c.Notes[0], "200 documents of 800 tokens in 190 windows of 4")
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

func FuzzJSONL(f *testing.F) {
	f.Add([]byte(`{"text": "a"}`+"\n"+`{"input_ids": [1, 2], "m": [0, 1], "q": "x"}`), uint8(0))
	f.Add([]byte("{\"text\": \"\\ud800\"}\n\xff"), uint8(1))
	f.Add([]byte(squeeze(f, `{"q": [3], "text": [1,2]}`)), uint8(7))
	f.Fuzz(func(t *testing.T, raw []byte, how uint8) {
		j := jsonl{vocab: 256, text: how&8 == 0, limit: 1 << 12, spool: newSpool(256, 1<<10)}
		defer j.spool.Close()
		if how&1 > 0 {
			j.fields.Prompt = "q"
		}
		if how&2 > 0 {
			j.fields.Mask = "m"
		}
		name := "a.jsonl"
		if how&4 > 0 {
			name += ".gz"
		}
		if j.file(name, bytes.NewReader(raw)) != nil {
			return
		}
		total := int64(0)
		for _, s := range j.spans {
			require.Equal(t, total, s.start)
			total += int64(s.count)
		}
		require.Equal(t, total, j.spool.count)
		stored, err := j.spool.store()
		require.NoError(t, err)
		d := &Documents{store: stored, spans: j.spans, vocab: 256, layout: Layout{Packing: Packings[int(how>>4)%len(Packings)]}}
		p, err := d.pack(7)
		if err != nil {
			return
		}
		for i := range p.windows() {
			b := newBatch(1, 7)
			require.NoError(t, p.fill(&b, 0, i))
			require.Positive(t, b.Count)
			for _, token := range b.Tokens {
				require.Less(t, token, int32(256))
			}
		}
	})
}
