package tokenizer

import (
	"fmt"
	"time"
	"unicode/utf8"

	"gputrain/internal/characters"
)

// Options say how a text is encoded.
type Options struct {
	// Special puts the tokens of the post-processor around the text, such as <s> before it.
	Special bool
	// Replace takes U+FFFD for what is not UTF-8, one for each longest part of what could be a character; otherwise that is an error.
	Replace bool
	// Search is the time that the regular expressions of a tokenizer may take for a text, beside a second for each 100,000 bytes of it. 0: ten seconds, which
	// is also the most.
	Search time.Duration
	// Progress is called by EncodeReader with the bytes read so far; nil: nothing is.
	Progress func(read int64)

	block int // bytes that a goroutine of EncodeReader takes at once; 0: a megabyte
}

// utf8 is a text that is UTF-8; it begins at byte begin of what was given.
func (o Options) utf8(text string, begin int64) (string, error) {
	if o.Replace && !utf8.ValidString(text) {
		text = characters.Replaced([]byte(text))
	}
	return text, characters.Check(text, begin)
}

// Span is the part of the text that a token stands for, in characters (code points): [Start, End).
type Span struct{ Start, End int }

// Encode turns text into ids. It is safe for several goroutines at once.
func (t *Tokenizer) Encode(text string, o Options) ([]int32, error) {
	text, err := o.utf8(text, 0)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: encode: %w", err)
	}
	e := t.encoders.Get().(*encoder)
	defer t.encoders.Put(e)
	if err := e.encode(text, false, o); err != nil {
		return nil, t.failed("encode", err)
	}
	var around template
	if o.Special {
		around = t.post.around
	}
	ids := make([]int32, 0, len(around.before)+len(e.ids)+len(around.behind))
	return append(append(append(ids, around.before...), e.ids...), around.behind...), nil
}

// EncodeSpans is Encode, and the part of the text that each token stands for; those that Special adds stand for [0, 0).
func (t *Tokenizer) EncodeSpans(text string, o Options) ([]int32, []Span, error) {
	text, err := o.utf8(text, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("tokenizer: encode: %w", err)
	}
	e := newEncoder(t)
	e.traces = &traces{}
	if err := e.encode(text, false, o); err != nil {
		return nil, nil, t.failed("encode", err)
	}
	spans := e.traces.spans(text, t.post)
	if !o.Special {
		return e.ids, spans, nil
	}
	around := t.post.around
	ids := append(append(append([]int32(nil), around.before...), e.ids...), around.behind...)
	all := append(append(make([]Span, len(around.before)), spans...), make([]Span, len(around.behind))...)
	return ids, all, nil
}

// encoder is what one goroutine needs to encode.
type encoder struct {
	*Tokenizer
	ids    []int32
	traces *traces // where the parts of the text are wanted
	cache  cache
	work   []symbol
	heap   ranked
	links  []link
}

func newEncoder(t *Tokenizer) *encoder { return &encoder{Tokenizer: t, cache: cache{}} }

// encode puts the ids of a text into e.ids. A text that goes on is not the beginning: nothing is put in front of it.
func (e *encoder) encode(text string, goesOn bool, o Options) error {
	e.ids = e.ids[:0]
	may := newAllowance(o.Search)
	may.add(len(text))
	return e.raw.each(text, func(start, end int, token *addedToken) error {
		s := span{text: text[start:end], at: start, may: may}
		if e.traces != nil {
			s.from = e.traces.origin(text, start, end)
		}
		if token != nil {
			e.added(s, token.id)
			return nil
		}
		s.goesOn = goesOn && start == 0
		return e.section(s)
	})
}

// section encodes what lies between added tokens.
func (e *encoder) section(s span) error {
	if e.normalizer != nil {
		if err := e.normalizer.normalize(&s); err != nil {
			return fmt.Errorf("normalizer: %w", err)
		}
	}
	return e.normal.each(s.text, func(start, end int, token *addedToken) error {
		part := s.cut(start, end)
		if token != nil {
			e.added(part, token.id)
			return nil
		}
		return e.pieces(0, part)
	})
}

func (e *encoder) added(s span, id int32) {
	e.ids = append(e.ids, id)
	if e.traces != nil {
		e.traces.add(s.extent(0, len(s.text)), s.text)
	}
}

// pieces cuts with the pre-tokenizers from the i-th on, and encodes what they leave.
func (e *encoder) pieces(i int, s span) error {
	if i == len(e.stages) {
		e.piece(s)
		return nil
	}
	if words, ok := e.stages[i].(split); ok && e.traces == nil && i == len(e.stages)-1 {
		if fast, ok := words.pattern.(*scanner); ok && words.isolated() {
			e.words(fast, s.text)
			return nil
		}
	}
	return e.stages[i].split(s, func(part span) error { return e.pieces(i+1, part) })
}

// words is pieces for the patterns of well-known tokenizers.
func (e *encoder) words(s *scanner, text string) {
	c := &cursor{classes: classTable()}
	for text != "" {
		c.text = text
		n := s.piece(c)
		e.word(text[:n])
		text = text[n:]
	}
}

// piece encodes what no pre-tokenizer cuts further.
func (e *encoder) piece(s span) {
	for at := 0; at < len(s.text); {
		n := e.model.borders.next(s.text[at:])
		if e.traces == nil {
			e.word(s.text[at : at+n])
		} else {
			e.traced(s.cut(at, at+n))
		}
		at += n
	}
}

// word adds the ids of a word.
func (e *encoder) word(word string) {
	if len(word) <= longestCached {
		if ids, ok := e.cache[word]; ok {
			e.ids = append(e.ids, ids...)
			return
		}
	}
	begin := len(e.ids)
	for _, s := range e.merged(word) {
		e.ids = append(e.ids, s.id)
	}
	if len(word) <= longestCached {
		e.cache.keep(word, e.ids[begin:])
	}
}

// traced is word where the parts of the text are wanted.
func (e *encoder) traced(s span) {
	at := 0
	for _, token := range e.merged(s.text) {
		e.ids = append(e.ids, token.id)
		e.traces.add(s.extent(at, at+int(token.size)), e.vocabulary.tokens[token.id])
		at += int(token.size)
	}
}

// merged are the tokens of a word. They are valid until the next call.
func (e *encoder) merged(word string) []symbol {
	if id, ok := e.model.whole[word]; ok {
		e.work = append(e.work[:0], symbol{id: id, size: int32(len(word))})
		return e.work
	}
	e.work = e.model.symbols(e.work[:0], word)
	return e.join(e.work)
}
