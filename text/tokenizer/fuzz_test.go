package tokenizer

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"gputrain/tests/frugal"
)

// FuzzJSON: no tokenizer.json may panic or take more memory than it justifies, and what it says of a text must hold.
func FuzzJSON(f *testing.F) {
	for _, name := range []string{"gpt2", "llama2"} {
		raw, err := os.ReadFile("testdata/" + name + "/tokenizer.json")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Add([]byte(`{"model":{"vocab":{"a":0,"b":1,"ab":2},"merges":["a b"]},"normalizer":{"type":"NFC"},"decoder":{"type":"Fuse"}}`))
	f.Add([]byte(`{"model":{"vocab":{"a":0,"▁":1,"▁a":2},"merges":[["▁","a"]]},"pre_tokenizer":{"type":"Metaspace","replacement":"▁"},"added_tokens":[{"id":3,"content":"x","lstrip":true}]}`))
	f.Add([]byte(`{"model":{"type":"BPE","unk_token":"u","fuse_unk":true,"byte_fallback":true,"ignore_merges":true,"vocab":{"u":0,"<0x61>":1,"a":2,"b":3,"ab":4},"merges":["a b"]},
		"normalizer":{"type":"Sequence","normalizers":[{"type":"Lowercase"},{"type":"Strip","strip_left":true,"strip_right":true},{"type":"Prepend","prepend":"a"},{"type":"Replace","pattern":{"Regex":"(a+)+$"},"content":"b"}]},
		"pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"Digits","individual_digits":true},{"type":"Split","pattern":{"Regex":"\\s+(?!\\S)|\\p{L}+"},"behavior":"MergedWithNext","invert":true},{"type":"ByteLevel","add_prefix_space":true,"use_regex":true}]},
		"post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"s","type_id":0}},{"Sequence":{"id":"A","type_id":0}}],"special_tokens":{"s":{"id":"s","ids":[5],"tokens":["s"]}}},
		"decoder":{"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"b"},"content":"c"},{"type":"ByteFallback"},{"type":"Fuse"},{"type":"Strip","content":"a","start":1,"stop":0}]},
		"added_tokens":[{"id":5,"content":"s","special":true,"normalized":false,"single_word":true,"rstrip":true}]}`))
	for _, part := range []string{
		`"normalizer":{"type":"Sequence","normalizers":[` + strings.Repeat(`{"type":"Replace","pattern":{"String":"a"},"content":"aaaaaaaaaaaaaaaa"},`, 9) + `{"type":"NFKD"}]}`,
		`"normalizer":{"type":"Replace","pattern":{"Regex":"."},"content":"` + strings.Repeat("a", 9000) + `"}`,
		`"pre_tokenizer":{"type":"Sequence","pretokenizers":[` + strings.Repeat(`{"type":"ByteLevel"},`, 30) + `{"type":"Metaspace","replacement":"a"}]}`,
		`"post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"s"}},{"SpecialToken":{"id":"s"}},{"Sequence":{"id":"A"}}],"special_tokens":{"s":{"ids":[0,1,2]}}}`,
		`"decoder":{"type":"Sequence","decoders":[` + strings.Repeat(`{"type":"Replace","pattern":{"String":"a"},"content":"aaaaaaaaaaaaaaaa"},`, 9) + `{"type":"Strip","content":"a","start":4000000000,"stop":4000000000}]}`,
	} {
		f.Add([]byte(`{"model":{"vocab":{"a":0,"b":1,"ab":2},"merges":["a b"]},` + part + `}`))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var tok *Tokenizer
		var err error
		frugal.Parse(t, len(raw), func() { tok, err = parseJSON(raw, &settings{}) })
		if err == nil {
			frugal.Parse(t, len(raw)+encoding, func() { holds(t, tok, "ab x▁a  é\n") })
		}
	})
}

// encoding is what a tokenizer may take for a short text, in bytes of a parsed file: each step may make it 64 KiB longer, with more for its places.
const encoding = 16 << 10

// FuzzModel is the same for SentencePiece models.
func FuzzModel(f *testing.F) {
	raw, err := os.ReadFile("testdata/spm_bpe/tokenizer.model")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	f.Add([]byte("\x0a\x07\x0a\x03\xe2\x96\x81\x18\x01\x12\x02\x18\x02"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var tok *Tokenizer
		var err error
		frugal.Parse(t, len(raw), func() { tok, err = parseModel(raw, &settings{}) })
		if err == nil {
			frugal.Parse(t, len(raw)+encoding, func() { holds(t, tok, "ab x▁a  é\n") })
		}
	})
}

// FuzzText: whatever the text, its ids, parts and decoded text fit together.
func FuzzText(f *testing.F) {
	var all []*Tokenizer
	for _, name := range []string{"gpt2", "llama2", "llama3", "qwen2", "spm_bpe"} {
		tok, err := openAt("testdata/" + name)
		if err != nil {
			f.Fatal(err)
		}
		all = append(all, tok)
	}
	for _, text := range snippets {
		f.Add(text + " it's\r\n")
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, tok := range all {
			holds(t, tok, text)
		}
	})
}

// holds checks what is true of every tokenizer and text.
func holds(t *testing.T, tok *Tokenizer, text string) {
	o := Options{Search: 100 * time.Millisecond}
	ids, err := tok.Encode(text, o)
	if !utf8.ValidString(text) {
		if err == nil {
			t.Fatalf("%q: encoded, wanted an error", text)
		}
		return
	}
	if err != nil {
		return // a pattern that took too long, or a step that made too much
	}
	traced, spans, err := tok.EncodeSpans(text, o)
	if err != nil || len(traced) != len(ids) || len(spans) != len(ids) {
		t.Fatalf("%q: %d ids, %d with parts: %v", text, len(ids), len(traced), err)
	}
	for i, s := range spans {
		if traced[i] != ids[i] || s.Start < 0 || s.Start > s.End || s.End > utf8.RuneCountInString(text) {
			t.Fatalf("%q: token %d: id %d or %d, part %v", text, i, ids[i], traced[i], s)
		}
	}
	back, err := tok.Decode(ids, false)
	var late *searchError
	var grown *growthError
	if errors.As(err, &late) || errors.As(err, &grown) {
		return
	}
	if err != nil || !utf8.ValidString(back) {
		t.Fatalf("%q: decoded to %q: %v", text, back, err)
	}
	if promises(tok) && back != text {
		t.Fatalf("%q: decoded to %q", text, back)
	}
}

// promises says whether decoding gives the text back: no normalizer, every byte has a token, and nothing takes white space.
func promises(t *Tokenizer) bool {
	if t.normalizer != nil || !t.model.plain || len(t.stages) != 1 || len(t.decoders) != 1 || len(t.normal.tokens) > 0 {
		return false
	}
	for _, id := range t.model.bytes {
		if id == none {
			return false
		}
	}
	for _, a := range t.raw.tokens {
		if a.lstrip || a.rstrip {
			return false
		}
	}
	words, isSplit := t.stages[0].(split)
	_, known := words.pattern.(*scanner)
	_, bytes := t.decoders[0].(decodeBytes)
	return isSplit && known && words.isolated() && bytes
}
