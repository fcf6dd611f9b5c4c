package tokenizer

import (
	"bytes"
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const seed = 20261123

// snippets are what random texts are made of.
var snippets = strings.Split("the|The|lighthouse|don't|WE'VE|it's|'S|42|1234567|½|Ⅷ|é|e\u0301|ﬁ|中文|日本語|한국어|각|👩‍💻|naïve|İ|q\u0323\u0307|<s>|</s>|<unk>|"+
	"<|endoftext|>|<|eot_id|>|<think>|▁|▁▁x|\u00a0|\u3000|\u200d|\t|\n|\r\n|\n\n|  |   |_|camelCase|HTTPServer|//|/\n|...|!?|—|\u1100\u1161|\x00|\x7f|\u0085|<0x41>| a b c", "|")

func randomText(r *rand.Rand) string {
	var b strings.Builder
	for range 1 + r.IntN(14) {
		switch r.IntN(8) {
		case 0:
			b.WriteRune([]rune{rune(32 + r.IntN(95)), rune(0xA0 + r.IntN(0x500)), rune(0x3040 + r.IntN(0x5000)), rune(0x10000 + r.IntN(0x10000))}[r.IntN(4)])
		case 1, 2, 3:
			b.WriteByte(' ')
		}
		b.WriteString(snippets[r.IntN(len(snippets))])
	}
	return b.String()
}

// naive is the definition of a byte-pair encoding: as long as any pair joins, the one of lowest rank does, the leftmost of equals.
func naive(v *vocabulary, symbols []int32) []int32 {
	ranks := map[[2]int32]merge{}
	for _, m := range v.merges {
		ranks[[2]int32{m.left, m.right}] = m
	}
	for {
		at, best := -1, merge{}
		for i := 1; i < len(symbols); i++ {
			if m, ok := ranks[[2]int32{symbols[i-1], symbols[i]}]; ok && (at < 0 || m.rank < best.rank) {
				at, best = i, m
			}
		}
		if at < 0 {
			return symbols
		}
		symbols = slices.Replace(symbols, at-1, at+1, best.joined)
	}
}

// slow encodes text of a byte-level tokenizer as its parts are defined: added tokens, a regular expression, characters of the alphabet.
func slow(t *testing.T, tok *Tokenizer, expression, text string) (ids []int32) {
	for text != "" {
		at, found := len(text), addedToken{}
		for _, a := range tok.raw.tokens {
			if i := strings.Index(text, a.content); i >= 0 && (i < at || i == at && len(a.content) > len(found.content)) {
				at, found = i, a
			}
		}
		part := span{text: text[:at]}
		if tok.normalizer != nil {
			require.NoError(t, tok.normalizer.normalize(&part))
		}
		e, err := newExpression(expression)
		require.NoError(t, err)
		for _, word := range piecesOf(t, e, part.text) {
			if id, ok := tok.vocabulary.ids[asBytes(word)]; ok && tok.model.whole != nil {
				ids = append(ids, id)
				continue
			}
			var symbols []int32
			for _, char := range asBytes(word) {
				symbols = append(symbols, tok.vocabulary.ids[string(char)])
			}
			ids = append(ids, naive(tok.vocabulary, symbols)...)
		}
		if found.content != "" {
			ids = append(ids, found.id)
		}
		text = text[at+len(found.content):]
	}
	return ids
}

func TestByteLevelEqualsTheDefinition(t *testing.T) {
	for name, pattern := range map[string]string{"gpt2": "gpt2", "llama3": "llama3", "qwen2": "qwen2"} {
		tok, err := openAt("testdata/" + name)
		require.NoError(t, err)
		text, err := Pattern(pattern)
		require.NoError(t, err)
		r := rand.New(rand.NewPCG(seed, 1))
		for range 1000 {
			s := randomText(r)
			ids, err := tok.Encode(s, Options{})
			require.NoError(t, err)
			require.Equal(t, slow(t, tok, text, s), ids, "%s %q", name, s)
			back, err := tok.Decode(ids, false)
			require.NoError(t, err)
			if tok.normalizer == nil {
				require.Equal(t, s, back, name)
			}
		}
	}
}

// Text that no pre-tokenizer cuts is one word of any length.
func TestWholeTextEqualsTheDefinition(t *testing.T) {
	for _, name := range []string{"llama2", "spm_bpe"} {
		tok, err := openAt("testdata/" + name)
		require.NoError(t, err)
		require.NotEmpty(t, tok.model.borders.mark, "words are encoded one by one all the same")
		r := rand.New(rand.NewPCG(seed, 2))
		for range 300 {
			s := strings.NewReplacer("<s>", "", "</s>", "", "<unk>", "").Replace(randomText(r))
			part := span{text: s}
			require.NoError(t, tok.normalizer.normalize(&part))
			var symbols []int32
			for _, s := range tok.model.symbols(nil, part.text) {
				symbols = append(symbols, s.id)
			}
			ids, err := tok.Encode(s, Options{})
			require.NoError(t, err)
			require.Equal(t, naive(tok.vocabulary, symbols), append([]int32(nil), ids...), "%s %q", name, s)
			if !utf8.ValidString(s) || strings.Contains(s, string(spaceMark)) {
				continue // the mark of a space decodes to a space
			}
			back, err := tok.Decode(ids, false)
			require.NoError(t, err)
			require.Equal(t, s, back, name)
		}
	}
}

// A stream gives the ids of the whole, wherever it is cut and however it is read; decoding id by id gives the text of all.
func TestStreamsEqualTheWhole(t *testing.T) {
	r := rand.New(rand.NewPCG(seed, 3))
	for _, name := range []string{"gpt2", "llama2", "llama3", "qwen2", "spm_bpe"} {
		tok, err := openAt("testdata/" + name)
		require.NoError(t, err)
		require.True(t, tok.cuts.anywhere, name)
		for range 100 {
			text := randomText(r) + " and then some words\nwith a line " + randomText(r)
			want, err := tok.Encode(text, Options{Special: true})
			require.NoError(t, err)
			got, calls := []int32{}, 0
			o := Options{Special: true, block: 1 + r.IntN(40)}
			require.NoError(t, tok.EncodeReader(context.Background(), iotest.OneByteReader(strings.NewReader(text)), o, func(ids []int32) error {
				got, calls = append(got, ids...), calls+1
				return nil
			}))
			require.Equal(t, want, got, "%s %q %d", name, text, o.block)
			if o.block < 10 {
				require.Greater(t, calls, 1, "it was cut")
			}
			whole, err := tok.Decode(want, true)
			require.NoError(t, err)
			var parts bytes.Buffer
			s := tok.NewStream(true)
			for _, id := range want {
				part, err := s.Next(id)
				require.NoError(t, err)
				require.True(t, utf8.ValidString(part))
				parts.WriteString(part)
			}
			end, err := s.End()
			require.NoError(t, err)
			require.Equal(t, whole, parts.String()+end)
		}
	}
}

// What cannot be cut for certain is encoded as a whole.
func TestStreamsThatCannotBeCut(t *testing.T) {
	tok, err := parseJSON(withPart(t, "gpt2", "pre_tokenizer", `{"type":"Split","pattern":{"Regex":"a b"},"behavior":"Isolated","invert":false}`), &settings{})
	require.NoError(t, err)
	assert.False(t, tok.cuts.anywhere)
	text, calls := strings.Repeat("a b and c ", 50), 0
	want, err := tok.Encode(text, Options{})
	require.NoError(t, err)
	require.NoError(t, tok.EncodeReader(context.Background(), strings.NewReader(text), Options{block: 8}, func(ids []int32) error {
		assert.Equal(t, want, ids)
		calls++
		return nil
	}))
	assert.Equal(t, 1, calls)
}

// The scanners of well-known patterns are the expressions themselves.
func TestScannersEqualTheirExpressions(t *testing.T) {
	r := rand.New(rand.NewPCG(seed, 4))
	for _, w := range wellKnown {
		e, err := newExpression(w.text)
		require.NoError(t, err)
		for range 1000 {
			text := randomText(r)
			if r.IntN(3) == 0 { // unseparated characters of all kinds
				chars := []rune("aAéÉǅʰ中\u0301\u0903\u20dd'sSſtTrReEvVlLdDmM19Ⅷ½ \t\r\n/.\u00a0\U00010D40\U0001E5D0")
				text = ""
				for range 1 + r.IntN(12) {
					text += string(chars[r.IntN(len(chars))])
				}
			}
			require.Equal(t, piecesOf(t, e, text), piecesOf(t, w.scanner, text), "%s %q", w.name, text)
		}
	}
}

// A text that is one word takes time in proportion to n log n: with n*n steps this would not end.
func TestLongWords(t *testing.T) {
	tok, err := openAt("testdata/gpt2")
	require.NoError(t, err)
	text := strings.Repeat("thereandback", 100_000)
	ids, err := tok.Encode(text, Options{})
	require.NoError(t, err)
	back, err := tok.Decode(ids, false)
	require.NoError(t, err)
	assert.True(t, text == back)
	short, err := tok.Encode(text[:12*100], Options{})
	require.NoError(t, err)
	assert.Equal(t, short[:400], ids[:400])
}
