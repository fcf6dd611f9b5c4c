package tokenizer

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"gputrain/internal/sentencepiece"
)

// spModel is a SentencePiece model as a tokenizer.
type spModel struct{ *sentencepiece.Model }

// parseModel reads a SentencePiece model of the BPE kind.
func parseModel(raw []byte, s *settings) (*Tokenizer, error) {
	model, err := sentencepiece.Parse(raw)
	if err != nil {
		return nil, err
	}
	m := spModel{model}
	v, own, err := m.vocabulary()
	if err != nil {
		return nil, err
	}
	added, err := s.extendPieces(v, own)
	if err != nil {
		return nil, err
	}
	p := &parsed{kind: "SentencePiece, byte-pair encoding", vocabulary: v, added: added}
	if m.Squeeze {
		p.normalizer = normalizers{squeeze{}}
	}
	all, _ := p.normalizer.(normalizers)
	if m.DummyPrefix {
		all = append(all, prepend{" "})
	}
	if all = append(all, replace{literal(" "), string(spaceMark)}); m.Squeeze {
		all = append(all, withoutEnd(spaceMark))
	}
	p.normalizer = all
	d := spDecoder{control: map[string]bool{}, unknown: v.unknown, strips: m.DummyPrefix || m.Squeeze, all: m.Squeeze}
	for _, a := range added.all {
		if a.hidden {
			d.control[a.content] = true
		}
	}
	p.decoders = []decoder{d}
	// What puts these tokens around a text is not in the model. A tokenizer of Llama's or Gemma's kind puts the first there unless told not to.
	if on := s.AddBOS; m.BOS >= 0 && (on == nil || *on) {
		p.post.around.before = []int32{m.BOS}
	}
	if on := s.AddEOS; m.EOS >= 0 && on != nil && *on {
		p.post.around.behind = []int32{m.EOS}
	}
	return build(p)
}

// longestPiece is as SentencePiece has it: 512 characters.
const longestPiece = 2048

// vocabulary says the model in merges: of every way to cut a piece into two pieces, ranked by the score of the whole.
func (m spModel) vocabulary() (*vocabulary, []addedToken, error) {
	v := &vocabulary{ids: map[string]int32{}, fuse: true, byteFallback: m.ByteFallback}
	var added []addedToken
	ids, ranks := map[string]int32{}, map[float32]int32{}
	for i, p := range m.Pieces {
		id := int32(i)
		if !utf8.ValidString(p.Text) || p.Text == "" {
			return nil, nil, fmt.Errorf("piece %d: found %q, wanted a text", i, p.Text)
		}
		if _, twice := v.ids[p.Text]; twice {
			return nil, nil, fmt.Errorf("piece %d: found %q twice, wanted it once", i, p.Text)
		}
		switch p.Kind {
		case sentencepiece.Normal:
			if len(p.Text) > longestPiece {
				return nil, nil, fmt.Errorf("piece %d: %s: found %d bytes, wanted at most %d", i, excerpt(p.Text), len(p.Text), longestPiece)
			}
			ids[p.Text] = id
			ranks[p.Score] = 0
		case sentencepiece.Unknown:
			v.unknown = p.Text
		case sentencepiece.Control:
			added = append(added, addedToken{id: id, content: p.Text, special: true, hidden: true})
		case sentencepiece.UserDefined:
			added = append(added, addedToken{id: id, content: p.Text, normalized: true, asIs: true})
		case sentencepiece.Byte, sentencepiece.Unused:
		default:
			return nil, nil, fmt.Errorf("piece %d: %q: found type %d, wanted normal, unknown, control, user-defined, unused or byte", i, p.Text, p.Kind)
		}
		v.ids[p.Text] = id
		v.tokens = append(v.tokens, p.Text)
	}
	for rank, score := range slices.Backward(slices.Sorted(maps.Keys(ranks))) {
		ranks[score] = int32(len(ranks) - 1 - rank)
	}
	for text, id := range ids {
		for at := range text {
			left, ok := ids[text[:at]]
			if right, both := ids[text[at:]]; ok && both && at > 0 {
				v.merges = append(v.merges, merge{left, right, id, ranks[m.Pieces[id].Score]})
			}
		}
	}
	return v, added, nil
}

// squeeze leaves one of several spaces, and none at the ends.
type squeeze struct{}

func (squeeze) normalize(s *span) error {
	text := strings.TrimLeft(s.text, " ")
	start := len(s.text) - len(text)
	*s = s.cut(start, start+len(strings.TrimRight(text, " ")))
	var all []match
	at := 0
	for i := 1; i < len(s.text); i++ {
		if s.text[i] == ' ' && s.text[i-1] == ' ' {
			all = append(between(all, at, i), match{i, i + 1, true})
			at = i + 1
		}
	}
	if all == nil {
		return nil
	}
	return s.replace(between(all, at, len(s.text)), "")
}

// withoutEnd takes a character off the end, however often it stands there.
type withoutEnd rune

func (r withoutEnd) normalize(s *span) error {
	*s = s.cut(0, len(strings.TrimRight(s.text, string(rune(r)))))
	return nil
}

// spDecoder makes text of SentencePiece's tokens: control tokens are nothing, the unknown token is ⁇, bytes are characters as far as they
// make such, and the space that was put in front of a text is taken off again.
type spDecoder struct {
	control map[string]bool
	unknown string
	strips  bool // a space at the beginning
	all     bool // all spaces at the beginning
}

func (d spDecoder) begin(bool, *allowance) (decoding, bool) { return &spStage{spDecoder: d}, true }

type spStage struct {
	spDecoder
	bytes   []byte
	started bool // what comes is not the beginning of the text
}

func (s *spStage) token(token string, next func(string) error) error {
	if b, ok := byteToken(token); ok {
		s.bytes = append(s.bytes, b)
		s.started = true
		return s.characters(false, next)
	}
	if err := s.end(next); err != nil {
		return err
	}
	switch {
	case s.control[token]:
		return nil
	case token == s.unknown:
		s.started = true
		return next(" ⁇ ")
	}
	if !s.started && s.strips {
		text, cut := strings.CutPrefix(token, string(spaceMark))
		token, s.started = text, cut && !s.all
	}
	s.started = s.started || token != ""
	return next(strings.ReplaceAll(token, string(spaceMark), " "))
}

func (s *spStage) end(next func(string) error) error { return s.characters(true, next) }

// characters hands on what the bytes make; those that may be the beginning of a character wait, unless they are the last.
func (s *spStage) characters(last bool, next func(string) error) error {
	for len(s.bytes) > 0 && (last || utf8.FullRune(s.bytes)) {
		r, size := utf8.DecodeRune(s.bytes)
		s.bytes = s.bytes[size:]
		if err := next(string(r)); err != nil {
			return err
		}
	}
	return nil
}

// metaspace writes spaces as a visible character and cuts before it. It is a decoder too.
type metaspace struct {
	replacement string
	scheme      string // when a replacement is put in front: always, first (of the whole text), never
	cut         bool
}

func readMetaspace(o *object) metaspace {
	m := metaspace{replacement: string(o.char("replacement")), scheme: "always", cut: o.flag("split", true)}
	o.raw("str_rep") // of old files: the replacement once more
	prefix := o.flag("add_prefix_space", true)
	if o.raw("prepend_scheme") != nil {
		m.scheme = o.one("prepend_scheme", []string{"always", "first", "never"})
	} else if !prefix {
		m.scheme = "never"
	}
	if !prefix && m.scheme != "never" {
		o.fail("%w", errors.New(`add_prefix_space: found false, wanted true or no prepend_scheme beside it but "never"`))
	}
	return m
}

func (m metaspace) split(s span, next func(span) error) error {
	at := s.at
	if err := (replace{literal(" "), m.replacement}).normalize(&s); err != nil {
		return fmt.Errorf("pre_tokenizer: Metaspace: %w", err)
	}
	if !strings.HasPrefix(s.text, m.replacement) && (m.scheme == "always" || m.scheme == "first" && at == 0) {
		if err := s.prepend(m.replacement); err != nil {
			return fmt.Errorf("pre_tokenizer: Metaspace: %w", err)
		}
	}
	if !m.cut {
		return next(s)
	}
	return split{pattern: literal(m.replacement), behavior: "MergedWithNext"}.split(s, next)
}
