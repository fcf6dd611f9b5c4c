package texts

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/run/data"
	"gputrain/text/tokenizer"
)

func tokenizerOf(t *testing.T, name string) *tokenizer.Tokenizer {
	t.Helper()
	tok, err := openTokenizer(filepath.Join("../../../text/tokenizer/testdata", name))
	require.NoError(t, err)
	return tok
}

func encoded(t *testing.T, tok *tokenizer.Tokenizer, text string) []int32 {
	t.Helper()
	ids, err := tok.Encode(text, tokenizer.Options{})
	require.NoError(t, err)
	return ids
}

// One file is the ids of its text, however long it is; between files stands what ends the one and begins the next.
func TestTextOfATokenizer(t *testing.T) {
	tok := tokenizerOf(t, "llama3")
	long := strings.Repeat("The lighthouse keeper don't know, in 2024!\n\n", 30_000)
	require.Greater(t, len(long), wholeLimit)
	root := tree(t, map[string]string{"a.txt": "the first", "b.txt": long, "c.txt": "", "d.txt": "the last\n"})
	with := Config{Tokens: "tokenizer", Tokenizer: tok, Context: 8}
	one := with
	one.Text = []string{root + "/b.txt"}
	ids := encoded(t, tok, long)
	assert.Equal(t, ids, read(t, open(t, one).Train))

	all := with
	all.Text = []string{root + "/*.txt"}
	end, begin := int32(645), int32(644)
	corpus := open(t, all)
	want := slices.Concat(encoded(t, tok, "the first"), []int32{end, begin}, ids, []int32{end, begin, end, begin}, encoded(t, tok, "the last\n"))
	assert.Equal(t, want, read(t, corpus.Train))
	assert.Equal(t, 649, corpus.Train.Vocab())
	assert.Contains(t, corpus.Notes[0], fmt.Sprintf("%d tokens of %d bytes", len(want), len(long)+18))

	none, other := -1, 5
	all.Layout.End = &none
	joined := open(t, all)
	assert.Equal(t, slices.Concat(encoded(t, tok, "the first"), ids, encoded(t, tok, "the last\n")), read(t, joined.Train))
	all.Layout.End = &other
	assert.Contains(t, fmt.Sprint(read(t, open(t, all).Train)[:12]), " 5 644 ")
	assert.NotEqual(t, corpus.Fingerprint, joined.Fingerprint)
}

// Text that a tokenizer encodes is the same source as the ids in a file: the same windows, the same parts.
func TestTextIsAsItsIDs(t *testing.T) {
	tok := tokenizerOf(t, "llama2")
	text := strings.Repeat("It's the keeper's lamp; 17 ships, naïve.\n", 40)
	var ids []byte
	for _, id := range encoded(t, tok, text) {
		ids = binary.LittleEndian.AppendUint32(ids, uint32(id))
	}
	root := tree(t, map[string]string{"a.txt": text, "a.u32": string(ids)})
	first := open(t, Config{Text: []string{root + "/a.txt"}, Tokens: "tokenizer", Tokenizer: tok, Vocab: 704, Context: 16, Validation: 0.2})
	second := open(t, Config{Text: []string{root + "/a.u32"}, Tokens: "u32", Vocab: 704, Context: 16, Validation: 0.2})
	assert.Equal(t, batches(t, second.Train, data.LoaderConfig{Context: 16, Batch: 3, Seed: 7}, 40), batches(t, first.Train, data.LoaderConfig{Context: 16, Batch: 3, Seed: 7}, 40))
	assert.Equal(t, read(t, second.Validation), read(t, first.Validation))
}

// Documents begin and end as the tokenizer says; their prompt is encoded apart from what follows it.
func TestDocumentsOfATokenizer(t *testing.T) {
	tok := tokenizerOf(t, "llama3")
	a, q, r := encoded(t, tok, "a document"), encoded(t, tok, "who?"), encoded(t, tok, "the keeper")
	document := func(c Config, line string) (tokens []int32, counts []bool) {
		c.Tokens, c.Tokenizer, c.Context, c.Vocab = "tokenizer", tok, 64, 700
		corpus, err := lines(t, c, line)
		require.NoError(t, err)
		d := corpus.Train.(*Documents)
		raw := make([]uint32, d.tokens.count)
		require.NoError(t, d.tokens.store.read(raw, 0))
		for _, v := range raw {
			tokens, counts = append(tokens, int32(v&^unlabelled)), append(counts, v&unlabelled == 0)
		}
		return tokens, counts
	}
	none, other := -1, 7
	tokens, counts := document(Config{}, `{"text": "a document"}`)
	assert.Equal(t, slices.Concat([]int32{644}, a, []int32{645}), tokens)
	assert.NotContains(t, counts, false)
	tokens, _ = document(Config{Layout: data.Layout{End: &none}}, `{"text": "a document"}`)
	assert.Equal(t, slices.Concat([]int32{644}, a), tokens)
	tokens, _ = document(Config{Layout: data.Layout{End: &other}}, `{"text": "a document"}`)
	assert.Equal(t, slices.Concat([]int32{644}, a, []int32{7}), tokens)
	tokens, counts = document(Config{Fields: data.Fields{Prompt: "q"}}, `{"text": "the keeper", "q": "who?"}`)
	assert.Equal(t, slices.Concat([]int32{644}, q, r, []int32{645}), tokens)
	assert.Equal(t, 1+len(q), slices.Index(counts, true))
	mask := "[0" + strings.Repeat(",1", len(a)-1) + "]"
	_, counts = document(Config{Fields: data.Fields{Mask: "m"}}, `{"text": "a document", "m": `+mask+`}`)
	assert.Equal(t, 1, slices.Index(counts, false), "the mask is of the text's own tokens")
	tokens, _ = document(Config{}, `{"input_ids": [1, 699]}`)
	assert.Equal(t, []int32{1, 699}, tokens, "lists bring what they have")
}

// What was made of text is kept: the next time nothing is encoded, also for another split or context. Other text, another tokenizer, other ends are another
// file.
func TestTokensAreKept(t *testing.T) {
	root, cache := tree(t, map[string]string{"a.txt": strings.Repeat("some text of it. ", 40), "b.jsonl": strings.Repeat(`{"text": "a line", "q": "ask"}`+"\n", 20)}), filepath.Join(t.TempDir(), "new")
	kept := func(note string) bool { return strings.HasSuffix(note, "as they were kept") }
	files := func() []string {
		found, err := filepath.Glob(cache + "/*.tokens")
		require.NoError(t, err)
		return found
	}
	end := 3
	for _, base := range []Config{
		{Text: []string{root + "/a.txt"}, Validation: 0.1},
		{JSONL: []string{root + "/b.jsonl"}, Fields: data.Fields{Prompt: "q"}, Validation: 0.1},
	} {
		base.Tokens, base.Tokenizer, base.Context, base.Cache = "tokenizer", tokenizerOf(t, "gpt2"), 8, cache
		had := len(files())
		first := open(t, base)
		require.False(t, kept(first.Notes[0]), first.Notes)
		for _, same := range []func(*Config){func(*Config) {}, func(c *Config) { c.Validation, c.Context = 0.3, 4 }, func(c *Config) { c.Dir = "/" }} {
			c := base
			same(&c)
			again := open(t, c)
			assert.True(t, kept(again.Notes[0]), again.Notes)
			assert.Len(t, files(), had+1)
			if c.Context == base.Context {
				assert.Equal(t, first.Fingerprint, again.Fingerprint)
				loader := data.LoaderConfig{Context: 8, Batch: 2, Seed: 1}
				assert.Equal(t, batches(t, first.Train, loader, 9), batches(t, again.Train, loader, 9))
			}
		}
		for _, differs := range []func(*Config){
			func(c *Config) { c.Tokenizer = tokenizerOf(t, "qwen2") }, func(c *Config) {
				if c.Layout.End = &end; len(c.Text) > 0 { // where there is another file to part it from
					c.Text = append(c.Text, root+"/b.jsonl")
				}
			}, func(c *Config) { c.Invalid = invalidReplace },
		} {
			c := base
			differs(&c)
			assert.NotEqual(t, first.Fingerprint, open(t, c).Fingerprint)
		}
		assert.Len(t, files(), had+4)
	}
}

// Lists of ids have an end where one is named: also the tokenizer's own, which text has in any case.
func TestKeptIDsHaveTheirEnd(t *testing.T) {
	tok := tokenizerOf(t, "gpt2")
	own, ok := tok.EndOfText()
	require.True(t, ok)
	named := int(own)
	c := Config{
		JSONL:  []string{filepath.Join(tree(t, map[string]string{"a.jsonl": strings.Repeat(`{"input_ids": [1, 2]}`+"\n", 20)}), "a.jsonl")},
		Tokens: "tokenizer", Tokenizer: tok, Context: 8, Cache: t.TempDir(),
	}
	for _, end := range []*int{nil, &named, nil} {
		c.Layout.End = end
		want := int64(2 * 20)
		if end != nil {
			want += 20
		}
		assert.Equal(t, want, open(t, c).Train.(*Documents).tokens.count)
	}
}

// A kept file that is damaged anywhere is noticed and made again.
func TestDamagedTokensAreMadeAgain(t *testing.T) {
	cache := t.TempDir()
	root := tree(t, map[string]string{"a.txt": strings.Repeat("some text of it. ", 40)})
	c := Config{Text: []string{root + "/a.txt"}, Tokens: "tokenizer", Tokenizer: tokenizerOf(t, "gpt2"), Context: 8, Cache: cache}
	want := read(t, open(t, c).Train)
	found, err := filepath.Glob(cache + "/*.tokens")
	require.NoError(t, err)
	require.Len(t, found, 1)
	whole, err := os.ReadFile(found[0])
	require.NoError(t, err)
	flip := func(at int) []byte {
		bad := bytes.Clone(whole)
		bad[(at+len(bad))%len(bad)] ^= 1
		return bad
	}
	damaged := map[string][]byte{"empty": {}, "cut": whole[:len(whole)-1], "half": whole[:len(whole)/2], "longer": append(bytes.Clone(whole), 0), "text": []byte(strings.Repeat("x", 500))}
	for _, at := range []int{0, 2 * len(want) / 2, 2*len(want) - 1, 2 * len(want), -73, -72, -60, -56, -50, -45, -40, -30, -4, -1} {
		damaged[fmt.Sprint("flipped ", at)] = flip(at)
	}
	other := c
	other.Cache, other.Text = t.TempDir(), []string{tree(t, map[string]string{"a.txt": strings.Repeat("some other text. ", 40)}) + "/a.txt"}
	open(t, other)
	foreign, err := filepath.Glob(other.Cache + "/*.tokens")
	require.NoError(t, err)
	damaged["of another text"], err = os.ReadFile(foreign[0])
	require.NoError(t, err)
	for name, bad := range damaged {
		require.NoError(t, os.WriteFile(found[0], bad, 0o666))
		corpus := open(t, c)
		assert.Contains(t, corpus.Notes[0], "it is made again", name)
		assert.Equal(t, want, read(t, corpus.Train), name)
		now, err := os.ReadFile(found[0])
		require.NoError(t, err)
		assert.Equal(t, whole, now, name)
	}
	assert.Contains(t, open(t, c).Notes[0], "as they were kept")

	for _, where := range []string{"a.txt", "nowhere"} { // a file, and a link to nothing
		c.Cache = filepath.Join(root, where)
		if where == "nowhere" {
			require.NoError(t, os.Symlink("nothing", c.Cache))
		}
		_, err = Open(t.Context(), c)
		require.ErrorContains(t, err, "data: tokens of text: mkdir "+c.Cache)
		assert.ErrorContains(t, err, ": name a directory to write to in data.cache, or for all that is kept in GPUTRAIN_CACHE")
	}
}

// Text that is not UTF-8 is an error that says where, or gets U+FFFD.
func TestInvalidText(t *testing.T) {
	tok := tokenizerOf(t, "gpt2")
	long := strings.Repeat("words and words ", 70_000) + "\xff the end"
	root := tree(t, map[string]string{"a.txt": "so far \xf0\x9f\x98 so good", "b.txt": long, "c.jsonl": "{\"text\": \"fine\"}\n{\"text\": \"b\xffad\"}\n", "d.jsonl": `{"text": "x\ud800y"}`})
	c := Config{Tokens: "tokenizer", Tokenizer: tok, Context: 2}
	for name, want := range map[string]string{
		"a.txt":   "a.txt\": tokenizer: encode: byte 7: found 0xF0, wanted UTF-8: data.invalid=replace puts U+FFFD in its place",
		"b.txt":   "b.txt\": tokenizer: encode: byte 1120000: found 0xFF, wanted UTF-8: data.invalid=replace",
		"c.jsonl": "c.jsonl\": line 2: not UTF-8: byte 11: found 0xFF, wanted UTF-8: data.invalid=replace",
		"d.jsonl": "d.jsonl\": line 1: field \"text\": half of a surrogate pair",
	} {
		one := c
		if strings.HasSuffix(name, ".txt") {
			one.Text = []string{root + "/" + name}
		} else {
			one.JSONL = []string{root + "/" + name}
		}
		_, err := Open(t.Context(), one)
		require.ErrorContains(t, err, want)
		one.Replacing = "--invalid replace"
		_, err = Open(t.Context(), one)
		assert.NotContains(t, err.Error(), "data.invalid")
		one.Invalid = invalidReplace
		corpus := open(t, one)
		switch name {
		case "a.txt":
			assert.Equal(t, encoded(t, tok, "so far \ufffd so good"), read(t, corpus.Train))
		case "b.txt":
			assert.Equal(t, encoded(t, tok, strings.ReplaceAll(long, "\xff", "\ufffd")), read(t, corpus.Train))
		}
	}
}

// An id that the model has no row for is an error with its place.
func TestTokensBeyondTheHead(t *testing.T) {
	root := tree(t, map[string]string{"a.u32": string(binFile(4, 9, 1, 2, 3, 9, 4)[binHeaderSize:]), "h.u32": string(binFile(4, 9, 1, 2, 3, 9, 4)), "a.txt": "x <|endoftext|> y"})
	for name, at := range map[string]int{"a.u32": 3, "h.u32": 3} {
		_, err := Open(t.Context(), Config{Text: []string{root + "/" + name}, Tokens: "u32", Vocab: 9, Context: 1})
		assert.ErrorContains(t, err, fmt.Sprintf("%s\": token %d: is 9, want less than the vocabulary 9", name, at))
	}
	_, err := Open(t.Context(), Config{Text: []string{root + "/a.txt"}, Tokens: "tokenizer", Tokenizer: tokenizerOf(t, "llama3"), Vocab: 60, Context: 1})
	assert.ErrorContains(t, err, "a.txt\": token 0: is 87, want less than the vocabulary 60")
	end := 650
	two := Config{Text: []string{root + "/a.txt", root + "/a.u32"}, Tokens: "tokenizer", Tokenizer: tokenizerOf(t, "llama3"), Vocab: 704, Context: 1, Layout: data.Layout{End: &end}}
	_, err = Open(t.Context(), two)
	assert.ErrorContains(t, err, "data: end token (data.eos): 650, want less than 649, which stands between 2 files of text: so many tokens has the tokenizer ../../../text/tokenizer/testdata/llama3/tokenizer.json")
}

// Sources of a mixture are encoded by the same tokenizer.
func TestMixtureOfATokenizer(t *testing.T) {
	tok, cache := tokenizerOf(t, "llama3"), t.TempDir()
	root := tree(t, map[string]string{"a.txt": strings.Repeat("one text. ", 30), "b.jsonl": strings.Repeat(`{"text": "another"}`+"\n", 30)})
	c := Config{
		Mixture: []Part{{Text: []string{root + "/a.txt"}, Weight: 1}, {JSONL: []string{root + "/b.jsonl"}, Weight: 1}},
		Tokens:  "tokenizer", Tokenizer: tok, Context: 8, Cache: cache, Validation: 0.2,
	}
	first, again := open(t, c), open(t, c)
	loader := data.LoaderConfig{Context: 8, Batch: 4, Seed: 2}
	assert.Equal(t, batches(t, first.Train, loader, 8), batches(t, again.Train, loader, 8))
	assert.Equal(t, first.Fingerprint, again.Fingerprint)
	assert.Equal(t, 2, strings.Count(strings.Join(again.Notes, "\n"), "as they were kept"))
	assert.Equal(t, 649, first.Train.Vocab())
	_, err := Open(t.Context(), Config{Text: []string{root + "/a.txt"}, Tokens: "tokenizer", Context: 8})
	assert.ErrorContains(t, err, `data: tokens: "tokenizer", tokenizer: false: want both or none`)
}
