package texts

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/run/data"
	"gputrain/tests/frugal"
)

// lines opens JSONL text.
func lines(t *testing.T, c Config, text string) (*Corpus, error) {
	t.Helper()
	c.JSONL = []string{filepath.Join(tree(t, map[string]string{"a.jsonl": text}), "a.jsonl")}
	corpus, err := Open(t.Context(), c)
	if err == nil {
		t.Cleanup(func() { assert.NoError(t, corpus.Close()) })
	}
	return corpus, err
}

func TestJSONL(t *testing.T) {
	const x = data.Ignored
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
		"no end":         {Config{Layout: data.Layout{End: end(-1)}}, `{"text": "ab"}`, []int32{'a', 'b'}, []int32{'b', x}, "bytes", 256},
		"an end":         {Config{Layout: data.Layout{End: end(300)}}, `{"text": "a"}`, []int32{'a', 300}, []int32{300, x}, "bytes", 301},
		"tokens":         {Config{Vocab: 50257}, `{"input_ids": [5, 50256 ,7]}`, []int32{5, 50256, 7}, []int32{50256, 7, x}, "ids", 50257},
		"tokens, an end": {Config{Vocab: 50257, Layout: data.Layout{End: end(50256)}}, `{"input_ids": [5]}`, []int32{5, 50256}, []int32{50256, x}, "ids", 50257},
		"another field":  {Config{Fields: data.Fields{Text: "body"}}, `{"text": 3, "body": "a"}`, []int32{'a', 0}, []int32{0, x}, "bytes", 256},
		"prompt": {
			Config{Fields: data.Fields{Text: "a", Prompt: "q"}},
			`{"q": "xyz", "a": "bc"}`,
			[]int32{'x', 'y', 'z', 'b', 'c', 0},
			[]int32{x, x, 'b', 'c', 0, x},
			"bytes", 256,
		},
		"mask": {
			Config{Vocab: 10, Fields: data.Fields{Mask: "m"}},
			`{"input_ids": [1,2,3,4,5], "m": [0,1,0,0,1]}`,
			[]int32{1, 2, 3, 4, 5},
			[]int32{2, x, x, 5, x},
			"ids", 10,
		},
		"mask and end": {
			Config{Vocab: 10, Fields: data.Fields{Mask: "m"}, Layout: data.Layout{End: end(9)}},
			`{"input_ids": [1,2,3], "m": [1,1,0]}`,
			[]int32{1, 2, 3, 9},
			[]int32{2, x, x, x},
			"ids", 10,
		},
		// What transformers and TRL have beside tokens.
		"labels":        {Config{Vocab: 10}, `{"input_ids": [1,2,3,4], "labels": [-100,-100,3,4]}`, []int32{1, 2, 3, 4}, []int32{x, 3, 4, x}, "ids", 10},
		"labels, named": {Config{Vocab: 10, Fields: data.Fields{Mask: "labels"}}, `{"input_ids": [1,2,3,4], "labels": [1,-100,3,4]}`, []int32{1, 2, 3, 4}, []int32{x, 3, 4, x}, "ids", 10},
		"padding": {
			Config{Vocab: 10},
			`{"input_ids": [0,1,2,3,0,0], "attention_mask": [0,1,1,1,0,0], "labels": [-100,1,-100,3,-100,-100]}`,
			[]int32{1, 2, 3},
			[]int32{x, 3, x},
			"ids", 10,
		},
		"masks": {
			Config{Vocab: 10, Layout: data.Layout{End: end(9)}},
			`{"input_ids": [1,2,3,4], "completion_mask": [0,1,1,1], "assistant_masks": [1,1,0,1], "loss_mask": null}`,
			[]int32{1, 2, 3, 4, 9},
			[]int32{2, x, 4, 9, x},
			"ids", 10,
		},
		"text with labels": {Config{}, `{"text": "ab", "labels": [-100], "input_ids": [7]}`, []int32{'a', 'b', 0}, []int32{'b', 0, x}, "bytes", 256},
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
		`line 2: unexpected end of JSON input`:                                                                         {Config{}, good + `{"text": "a"`},
		`line 2: invalid character`:                                                                                    {Config{}, good + `{"text": "a"} {}`},
		`line 2: found the beginning of an array, wanted an object`:                                                    {Config{}, good + `["a"]`},
		`line 2: found a string, wanted an object`:                                                                     {Config{}, good + `"a"`},
		`line 1: found a byte-order mark, wanted an object`:                                                            {Config{}, "\ufeff" + good},
		`line 1: found 3 keys, 2 of them different (["id" "text"])`:                                                    {Config{}, `{"text": "{\":\\", "id": {"a": [1, {"b": 2}]}, "text": "b"}`},
		`line 2: found null, wanted an object`:                                                                         {Config{}, good + `null`},
		`line 2: found fields ["body" "id"], wanted ["text" "input_ids"]`:                                              {Config{}, good + `{"id": 1, "body": "a"}`},
		`line 2: field "text": found null, wanted text or a list`:                                                      {Config{}, good + `{"text": null}`},
		`line 2: field "text": found 12, wanted text or a list`:                                                        {Config{}, good + `{"text": 12}`},
		`line 2: field "text": token 1: found 1.5, wanted a whole number`:                                              {Config{}, good + `{"text": [1, 1.5]}`},
		`line 2: field "text": token 0: found "1", wanted a whole`:                                                     {Config{}, good + `{"text": ["1"]}`},
		`line 2: field "text": token 0: found [1, wanted a whole`:                                                      {Config{}, good + `{"text": [[1, 2]]}`},
		`line 2: field "text": token 0: found null, wanted a whole`:                                                    {Config{}, good + `{"text": [null]}`},
		`token 1: is 256, want less than the vocabulary 256 (model.vocab)`:                                             {Config{}, good + `{"text": [1, 256]}`},
		`token 0: is -1, want less than`:                                                                               {Config{}, good + `{"text": [-1]}`},
		`line 2: not UTF-8`:                                                                                            {Config{}, good + "{\"text\": \"\xff\"}"},
		`line 2: field "text": half of a surrogate pair`:                                                               {Config{}, good + `{"text": "a\ud800b"}`},
		`line 2: found fields ["text"], wanted ["q"]`:                                                                  {Config{Fields: data.Fields{Prompt: "q"}}, `{"q": "", "text": "a"}` + "\n" + good},
		`line 1: field "m": 1 values, wanted one for each of the 2 tokens`:                                             {Config{Fields: data.Fields{Mask: "m"}}, `{"text": [1, 2], "m": [1]}`},
		`line 1: field "m": value 0: is 2, want 1 for a token to predict or 0`:                                         {Config{Fields: data.Fields{Mask: "m"}}, `{"text": [1], "m": [2]}`},
		`line 1: labels: label 1: is 3, want the token itself, 2, or -100`:                                             {Config{}, `{"text": [1, 2], "labels": [-100, 3]}`},
		`line 1: labels: 1 labels, wanted one for each of the 2 tokens`:                                                {Config{}, `{"text": [1, 2], "labels": [-100]}`},
		`line 1: attention_mask: value 1: is 0 between tokens that are seen`:                                           {Config{}, `{"text": [1, 2, 3], "attention_mask": [1, 0, 1]}`},
		`line 1: attention_mask: value 0: is 2, want 1 for a token that is seen or`:                                    {Config{}, `{"text": [1], "attention_mask": [2]}`},
		`line 1: chat: row: position_ids: found a list: the row has several texts`:                                     {Config{}, `{"text": [1, 2], "position_ids": [0, 0]}`},
		`line 1: chat: row: rejected: found "b": it is a row of preferences`:                                           {Config{}, `{"prompt": "p", "chosen": null, "rejected": "b"}`},
		`line 1: found fields ["text"], wanted ["m"]`:                                                                  {Config{Fields: data.Fields{Mask: "m"}}, `{"text": [1]}`},
		`end token (data.eos): 256, want less than the vocabulary 256 (model.`:                                         {Config{Vocab: 256, Layout: data.Layout{End: new256()}}, good},
		`no document has a label that counts`:                                                                          {Config{Fields: data.Fields{Mask: "m"}}, `{"text": [1, 2], "m": [0, 0]}`},
		`validation 0.5 of 1 documents leaves 0 for validation, wanted 1 or more: data.validation 0, which keeps none`: {Config{Validation: 0.5}, good},
		`validation 0.05 of 10 documents leaves 0 for validation, wanted 1 or more: data.validation 0.1 or more, or 0`: {Config{Validation: 0.05}, strings.Repeat(good, 10)},
		`validation 0.1 of 3 documents leaves 0 for validation, wanted 1 or more: data.validation 0.34 or more`:        {Config{Validation: 0.1}, strings.Repeat(good, 3)},
		`: found no rows, wanted at least one`:                                                                         {Config{}, "\n"},
		`found text, wanted a list of tokens, as data.tokens says`:                                                     {Config{Tokens: "u16"}, good},
		`packing: "best", want one of`:                                                                                 {Config{Layout: data.Layout{Packing: "best"}}, good},
		`long documents: "keep", want one of`:                                                                          {Config{Layout: data.Layout{Long: "keep"}}, good},
		`long documents: "keep_end", want "split" with packing "stream"`:                                               {Config{Layout: data.Layout{Packing: data.PackStream, Long: data.LongKeepEnd}}, good},
		`field, prompt_field: both are "text", want a field for each`:                                                  {Config{Fields: data.Fields{Prompt: "text"}}, good},
		`field, prompt_field: both are "q", want a field`:                                                              {Config{Fields: data.Fields{Text: "q", Prompt: "q"}}, good},
		`mask_field: "q" is the field of text too, want one of its own`:                                                {Config{Fields: data.Fields{Text: "q", Mask: "q"}}, good},
		`mask_field: "p" is the field of text too`:                                                                     {Config{Fields: data.Fields{Prompt: "p", Mask: "p"}}, good},
		`text, jsonl, mixture: 2 of them given, want one: a mixture has both`:                                          {Config{Text: []string{"a"}}, good},
		`: 2 of 2 are longer than a window of 4 tokens and cut to it (data.long keep_start)`: {
			Config{Fields: data.Fields{Mask: "m"}, Layout: data.Layout{Long: data.LongKeepStart}}, strings.Repeat(`{"text": [1,2,3,4,5,6], "m": [0,0,0,0,0,1]}`+"\n", 2),
		},
		`found 2 documents of which nothing is to be learned`: {Config{Fields: data.Fields{Mask: "m"}}, `{"text": [1, 2], "m": [1, 0]}` + "\n" + `{"text": [3], "m": [1]}`},

		`line 2: field "text": found {"found": "a value of fifty characters, ..., wanted text or a list of tokens`: {Config{}, good + `{"text": {"found": "a value of fifty characters, of which forty are shown"}}`},
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
	long := good + `{"text": "` + strings.Repeat("a", 200) + `"}`
	reader := jsonl{vocab: 256, text: true, limit: 100, to: discarded()}
	require.ErrorContains(t, reader.file(t.Context(), "x", strings.NewReader(long), int64(len(long))), "line 2: longer than 100 bytes")
}

// discarded takes documents that nobody reads.
func discarded() *tokenWriter { return &tokenWriter{out: bufio.NewWriter(io.Discard), width: 2} }

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
	_, err := Open(t.Context(), Config{JSONL: []string{root + "/torn.jsonl.gz"}, Context: 4})
	require.ErrorContains(t, err, "unexpected EOF")
	_, err = Open(t.Context(), Config{JSONL: []string{root + "/no.jsonl.gz"}, Context: 4})
	require.ErrorContains(t, err, "gzip: invalid header")
}

func FuzzJSONL(f *testing.F) {
	f.Add([]byte(`{"text": "a"}`+"\n"+`{"input_ids": [1, 2], "m": [0, 1], "q": "x"}`), uint8(0))
	f.Add([]byte("{\"text\": \"\\ud800\"}\n\xff"), uint8(1))
	f.Add([]byte(` [{"text": "a"}, {"text": [1, 2], "m": [1, 0]} ]`), uint8(2))
	f.Add([]byte(squeeze(f, `{"q": [3], "text": [1,2]}`)), uint8(7))
	f.Fuzz(func(t *testing.T, raw []byte, how uint8) {
		frugal.Parse(t, len(raw), func() {
			j := jsonl{vocab: 256, text: how&8 == 0, limit: 1 << 12}
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
			d, err := documentsOf(data.Layout{Packing: data.Packings[int(how>>4)%len(data.Packings)]}, 256, func(w *tokenWriter) error {
				j.to = w
				return j.file(t.Context(), name, bytes.NewReader(raw), int64(len(raw)))
			})
			if err != nil {
				return
			}
			defer d.corpus.Close()
			total := int64(0)
			require.NoError(t, d.each(d.later(), func(_ int, s span) (bool, error) {
				require.Equal(t, total, s.start)
				total += int64(s.count)
				return true, nil
			}))
			require.Equal(t, total, d.tokens.count)
			p, err := d.pack(d.later(), 7)
			if err != nil {
				return
			}
			for i := range p.Windows() {
				b := data.Batch{Tokens: make([]int32, 7), Labels: make([]int32, 7), Rows: 1}
				require.NoError(t, p.Fill(&b, 0, i))
				require.Positive(t, b.Count)
				for _, token := range b.Tokens {
					require.Less(t, token, int32(256))
				}
			}
		})
	})
}
