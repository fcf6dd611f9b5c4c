package tokenizer

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/text/unicode/norm"

	"gputrain/internal/characters"
	"gputrain/tests/frugal"
)

// openWith opens a tokenizer.json of testdata with another part, so that errors can name the file.
func openWith(t *testing.T, name, part string) *Tokenizer {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tokenizer.json")
	require.NoError(t, os.WriteFile(path, withPart(t, "gpt2", name, part), 0o644))
	tok, err := openAt(path)
	require.NoError(t, err)
	return tok
}

func sequence(list, step string, n int) string {
	return `{"type":"Sequence","` + list + `":[` + strings.Repeat(step+",", n-1) + step + `]}`
}

const replaceA = `{"type":"Replace","pattern":{"String":"a"},"content":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}`

// What steps put into a text is bounded by the text, whichever steps they are; the error names the file, the step and the figures.
func TestGrowthIsBounded(t *testing.T) {
	for part, c := range map[string]struct{ name, text, want string }{
		sequence("normalizers", replaceA, 7):                                              {"normalizer", "sea sea sea", "normalizers[2]: replace: found 98301 bytes put into a text of 11, wanted at most 65712 by all steps (16 for each of its bytes, and 65536)"},
		`{"type":"Replace","pattern":{"Regex":"."},"content":"` + longText(9000) + `"}`:   {"normalizer", "eleven char", "normalizer: replace: found 98989 bytes put"},
		sequence("normalizers", `{"type":"Prepend","prepend":"`+longText(9000)+`"}`, 9):   {"normalizer", "x", "normalizers[7]: prepend: found 72000 bytes put"},
		sequence("pretokenizers", `{"type":"ByteLevel"}`, 40):                             {"pre_tokenizer", "é", "pre_tokenizer: ByteLevel: found"},
		sequence("pretokenizers", cuts2("x")+","+cuts2("y"), 20):                          {"pre_tokenizer", "ab", "pre_tokenizer: Metaspace: found"},
		`{"type":"Replace","pattern":{"String":" "},"content":"` + longText(1<<20) + `"}`: {"normalizer", "a b", "replace: found 1048575 bytes put into a text of 3"},
	} {
		tok := openWith(t, c.name, part)
		frugal.Parse(t, encoding, func() {
			_, err := tok.Encode(c.text, Options{})
			require.ErrorContains(t, err, c.want)
			assert.ErrorContains(t, err, "tokenizer: encode: "+tok.Files()[0]+": ")
			_, _, err = tok.EncodeSpans(c.text, Options{})
			assert.ErrorContains(t, err, "bytes put into a text of")
		})
		assert.ErrorContains(t, tok.EncodeReader(context.Background(), strings.NewReader(c.text), Options{}, func([]int32) error { return nil }), tok.Files()[0])
	}
	tok := openWith(t, "decoder", sequence("decoders", replaceA, 7))
	id, ok := tok.ID("a")
	require.True(t, ok)
	frugal.Parse(t, encoding, func() {
		_, err := tok.Decode([]int32{id, id}, false)
		assert.ErrorContains(t, err, "tokenizer: decode: "+tok.Files()[0]+": id ")
		assert.ErrorContains(t, err, ": decoder: replace: found ")
	})
	tok = openWith(t, "decoder", `{"type":"Strip","content":"a","start":4611686018427387904,"stop":4611686018427387904}`)
	text, err := tok.Decode([]int32{id, id + 1}, false)
	require.NoError(t, err)
	assert.Equal(t, "b", text)
}

func longText(n int) string { return strings.Repeat("y", n) }

// cuts2 cuts each character and puts a mark before it.
func cuts2(mark string) string {
	return `{"type":"Split","pattern":{"Regex":"."},"behavior":"Isolated","invert":false},{"type":"Metaspace","replacement":"` + mark + `","prepend_scheme":"always","split":false}`
}

// No text makes the steps of real tokenizers reach that bound: the character that grows most under NFKC, and spaces.
func TestRealTokenizersMayGrow(t *testing.T) {
	tok := openWith(t, "normalizer", `{"type":"Sequence","normalizers":[{"type":"Prepend","prepend":"▁"},{"type":"NFKD"},{"type":"Lowercase"},{"type":"Replace","pattern":{"String":" "},"content":"▁"}]}`)
	for _, text := range []string{strings.Repeat("\ufdfa", 20_000), strings.Repeat(" ", 20_000), strings.Repeat("\ufdfa ", 20_000), "\ufdfa"} {
		_, err := tok.Encode(text, Options{})
		assert.NoError(t, err)
	}
}

// What a file alone may ask for is bounded too.
func TestRefusedSizes(t *testing.T) {
	deep := `{"type":"NFC"}`
	for range 9 {
		deep = sequence("normalizers", deep, 1)
	}
	template := `{"type":"TemplateProcessing","single":[` + strings.Repeat(`{"SpecialToken":{"id":"x"}},`, 40) + `{"Sequence":{"id":"A"}}],"special_tokens":{"x":{"ids":[1` + strings.Repeat(",1", 39) + `]}}}`
	for want, raw := range map[string][]byte{
		"normalizers: found sequences in each other, wanted at most 8":            withPart(t, "gpt2", "normalizer", deep),
		"normalizer: found 1001 steps, wanted at most 1000":                       withPart(t, "gpt2", "normalizer", sequence("normalizers", `{"type":"NFC"}`, 1001)),
		"pre_tokenizer: found 1001 steps, wanted at most 1000":                    withPart(t, "gpt2", "pre_tokenizer", sequence("pretokenizers", `{"type":"ByteLevel"}`, 1001)),
		"decoder: found 1001 steps, wanted at most 1000":                          withPart(t, "gpt2", "decoder", sequence("decoders", `{"type":"Fuse"}`, 1001)),
		"post_processor: found 1040 tokens or more around a text, wanted at most": withPart(t, "gpt2", "post_processor", template),
		"processors":          withPart(t, "gpt2", "post_processor", sequence("processors", strings.Replace(template, strings.Repeat(`{"SpecialToken":{"id":"x"}},`, 40), strings.Repeat(`{"SpecialToken":{"id":"x"}},`, 20), 1), 2)),
		`added_tokens: "yyyy`: withPart(t, "gpt2", "added_tokens", `[{"id":600,"content":"`+longText(5000)+`","special":true}]`),
		"found 5000 bytes to look for, wanted at most 4096": withPart(t, "gpt2", "added_tokens", `[{"id":600,"content":"`+longText(5000)+`","special":true}]`),
		"found 16385 bytes, wanted at most 16384":           withPart(t, "gpt2", "normalizer", `{"type":"Replace","pattern":{"Regex":"`+longText(16385)+`"},"content":"x"}`),
	} {
		if want == "processors" {
			want = "post_processor: found 1600 tokens or more around a text"
		}
		_, err := parseJSON(raw, &settings{})
		assert.ErrorContains(t, err, want)
		assert.Less(t, len(fmt.Sprint(err)), 400)
	}
	added := altered(t, "gpt2", func(whole, _ map[string]json.RawMessage) {
		whole["normalizer"] = json.RawMessage(replaceA)
		whole["added_tokens"] = json.RawMessage(`[{"id":600,"content":"aab","normalized":true},{"id":601,"content":"` + strings.Repeat("ab", 1000) + `","normalized":true}]`)
	})
	_, err := parseJSON(added, &settings{})
	assert.ErrorContains(t, err, `added_tokens: "abab`)
	assert.ErrorContains(t, err, "found 33000 bytes to look for")
	piece := append([]byte{1<<3 | 2, 0x84, 0x10}, strings.Repeat("z", 2052)...)
	model, err := os.ReadFile("testdata/spm_bpe/tokenizer.model")
	require.NoError(t, err)
	_, err = parseModel(append(append(model, 1<<3|2, 0x87, 0x10), piece...), &settings{})
	assert.ErrorContains(t, err, "found 2052 bytes, wanted at most 2048")
}

// The time of searches is that of a text and not of one of them, and the error quotes a little of the text at the place.
func TestSearchTimeIsOfTheText(t *testing.T) {
	tok := openWith(t, "pre_tokenizer", `{"type":"Split","pattern":{"Regex":"(a+)+b|!"},"behavior":"Isolated","invert":false}`)
	before := strings.Repeat("the sea \x1b[31mred! ", 1000)
	begun := time.Now()
	_, err := tok.Encode(before+strings.Repeat("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa! ", 1000), Options{Search: time.Millisecond})
	took := time.Since(begun)
	require.ErrorContains(t, err, tok.Files()[0]+`: pre_tokenizer: Split: pattern "(a+)+b|!": near byte `)
	assert.ErrorContains(t, err, "found searches without an end, wanted it within 1ms and a second for each 100000 of the 51000 bytes")
	assert.NotContains(t, err.Error(), "\x1b")
	assert.Less(t, len(err.Error()), 500)
	var late *searchError
	require.ErrorAs(t, err, &late)
	assert.GreaterOrEqual(t, late.at, int64(len(before)-1))
	assert.Greater(t, took, 400*time.Millisecond, "a legal text has time for its bytes")
	err = tok.EncodeReader(context.Background(), strings.NewReader(strings.Repeat("a", 64)), Options{Search: time.Millisecond}, func([]int32) error { return nil })
	assert.ErrorContains(t, err, "near byte 0")

	may := newAllowance(50 * time.Millisecond)
	may.add(1)
	e, err := newExpression("(a+)+b|!")
	require.NoError(t, err)
	texts := 0
	for ; err == nil; texts++ { // each search alone ends soon
		_, err = e.matches("aaaaaaaaaa!", may)
	}
	assert.Greater(t, texts, 2)
	require.ErrorAs(t, err, &late)

	words := map[string]int64{}
	for err = nil; err == nil; { // and so does each line of a text to learn from, which share one time
		err = count(words, "aaaaaaaaaaaa!", e, may)
	}
	assert.ErrorAs(t, err, &late)
}

// One compiled expression is one goroutine's at a time, and gives what the library gives for the whole text.
func TestMatchesAreTheLibrarys(t *testing.T) {
	r := rand.New(rand.NewPCG(seed, 5))
	for _, pattern := range []string{`\s*`, `a|`, `(?=b)`, `\p{L}+|\s`, `(?<=é).`, `$`, `^`, `x*`} {
		e, err := newExpression(pattern)
		require.NoError(t, err)
		s, err := e.search()
		require.NoError(t, err)
		for range 200 {
			text := randomText(r)
			found, err := s.FindAllStringIndex(text, -1)
			require.NoError(t, err)
			var want []match
			at := 0
			for _, f := range found {
				want = append(between(want, at, f[0]), match{f[0], f[1], true})
				at = f[1]
			}
			got, err := e.matches(text, nil)
			require.NoError(t, err)
			require.Equal(t, between(want, at, len(text)), got, "%q %q", pattern, text)
		}
	}
}

// Texts in which each place asks for a look at all before it or behind it take time in proportion to themselves: with n*n steps these would not end.
func TestHostileTextsTakeLinearTime(t *testing.T) {
	marks := strings.Repeat("\u0301\u0316", 200_000)
	tok := openWith(t, "normalizer", `{"type":"NFC"}`)
	_, err := tok.Encode("q"+marks, Options{})
	require.NoError(t, err)
	short := "q" + marks[:2*2*14]
	s := span{text: short}
	require.NoError(t, unicodeForm{norm.NFD, norm.NFD}.normalize(&s))
	assert.Equal(t, norm.NFD.String(short), s.text)

	for _, flag := range []string{"lstrip", "rstrip"} {
		tok, err := parseJSON(withPart(t, "gpt2", "added_tokens", `[{"id":600,"content":"<|endoftext|>"},{"id":601,"content":" ","`+flag+`":true,"normalized":false}]`), &settings{})
		if err != nil { // its vocabulary has the id 600 or not, by the file
			tok, err = parseJSON(withPart(t, "gpt2", "added_tokens", `[{"id":600,"content":" ","`+flag+`":true,"normalized":false}]`), &settings{})
		}
		require.NoError(t, err)
		_, err = tok.Encode(strings.Repeat(" ", 600_000)+"x", Options{})
		require.NoError(t, err)
	}
}

// Added tokens are found leftmost first and of those the longest, as trying all of them at each place finds them.
func TestFinderEqualsTheDefinition(t *testing.T) {
	r := rand.New(rand.NewPCG(seed, 6))
	letters := func(n int) string {
		text := make([]byte, n)
		for i := range text {
			text[i] = "abé "[r.IntN(5)]
		}
		return string(text)
	}
	for range 300 {
		f, names := newFinder(), []string{}
		for range 1 + r.IntN(6) {
			if name := letters(1 + r.IntN(4)); !slices.Contains(names, name) {
				require.NoError(t, f.add(addedToken{content: name}, name))
				names = append(names, name)
			}
		}
		text, got, want := letters(30), []string{}, []string{}
		require.NoError(t, f.each(text, func(start, end int, token *addedToken) error {
			if token != nil {
				got = append(got, fmt.Sprint(start, " ", token.content))
			}
			return nil
		}))
		for at := 0; at < len(text); {
			best := ""
			for _, name := range names {
				if strings.HasPrefix(text[at:], name) && len(name) > len(best) {
					best = name
				}
			}
			if best != "" {
				want = append(want, fmt.Sprint(at, " ", best))
			}
			at += max(1, len(best))
		}
		require.Equal(t, want, got, "%q %q", names, text)
	}
}

// A vocabulary of a text in one line is that of the line, in memory that does not grow with it; what cannot be cut is an error and not all memory.
func TestTrainingOnLongLines(t *testing.T) {
	raw, err := os.ReadFile("testdata/train/corpus.txt")
	require.NoError(t, err)
	line := strings.Repeat(strings.ReplaceAll(string(raw), "\n", " "), 1+(3<<20)/len(raw))
	require.Greater(t, len(line), 3*pieceSize)
	for _, name := range []string{"gpt2", "llama3", "o200k"} {
		text, err := Pattern(name)
		require.NoError(t, err)
		p, err := newRegex(text)
		require.NoError(t, err)
		want := map[string]int64{}
		require.NoError(t, count(want, line, p, newAllowance(0)))
		got, err := countWords(context.Background(), []io.Reader{strings.NewReader(line)}, p, nil)
		require.NoError(t, err)
		require.Equal(t, want, got, name)
	}
	r := lineReader{in: bufio.NewReaderSize(strings.NewReader(line+"\nnext"), pieceSize/4), cuts: cuts{anywhere: true}}
	parts, longest := "", 0
	for err == nil {
		var part string
		part, err = r.next()
		parts, longest = parts+part, max(longest, len(part))
	}
	require.ErrorIs(t, err, io.EOF)
	assert.True(t, line+"\nnext" == parts)
	assert.LessOrEqual(t, longest, pieceSize)

	zero := &endless{}
	_, err = Train(context.Background(), []io.Reader{zero}, TrainConfig{VocabSize: 300})
	require.ErrorContains(t, err, "tokenizer: train: text 1: byte 0: found 16777216 bytes of a line in which the pattern leaves no place to cut it")
	assert.LessOrEqual(t, zero.read, 2*longestPart)
	_, err = Train(context.Background(), []io.Reader{strings.NewReader("")}, TrainConfig{VocabSize: 300})
	assert.ErrorIs(t, err, ErrNoText)
	_, err = countWords(context.Background(), []io.Reader{strings.NewReader("ok\n" + strings.Repeat("word ", 300_000) + "\xff")}, gpt2, nil)
	var invalid *characters.UTF8Error
	require.True(t, errors.As(err, &invalid))
	assert.Equal(t, int64(1_500_003), invalid.At)
}

// endless is a device of zeros.
type endless struct{ read int }

func (e *endless) Read(p []byte) (int, error) {
	clear(p)
	e.read += len(p)
	return len(p), nil
}
