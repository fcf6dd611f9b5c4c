package tokenizer

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"gputrain/internal/protobuf"
)

// Types of SentencePiece's pieces, as in sentencepiece_model.proto.
const (
	spNormal      = 1
	spUnknown     = 2
	spControl     = 3
	spUserDefined = 4
	spUnused      = 5 // a row of the model that no text has
	spByte        = 6
)

// spModel is what a SentencePiece model says.
type spModel struct {
	pieces []spPiece

	kind         uint64 // of the model: 1 unigram, 2 bpe, 3 word, 4 char
	byteFallback bool
	asSuffix     bool // spaces are marked behind words
	bos, eos     int32

	normalization string
	charsmap      int // bytes
	dummyPrefix   bool
	squeeze       bool // of several spaces one is left, and none at the ends
	escape        bool // spaces are marked
}

type spPiece struct {
	text  string
	score float32
	kind  uint64
}

// parseModel reads a SentencePiece model of the BPE kind.
func parseModel(raw []byte, s *settings) (*Tokenizer, error) {
	m := &spModel{kind: 1, bos: 1, eos: 2, dummyPrefix: true, squeeze: true, escape: true}
	if err := m.read(raw); err != nil {
		return nil, err
	}
	if err := m.check(); err != nil {
		return nil, err
	}
	v, added, err := m.vocabulary()
	if err != nil {
		return nil, err
	}
	if added, err = s.show(added, v); err != nil {
		return nil, err
	}
	p := &parsed{kind: "SentencePiece, byte-pair encoding", vocabulary: v, added: added}
	if m.squeeze {
		p.normalizer = normalizers{squeeze{}}
	}
	all, _ := p.normalizer.(normalizers)
	if m.dummyPrefix {
		all = append(all, prepend{" "})
	}
	if all = append(all, replace{literal(" "), string(spaceMark)}); m.squeeze {
		all = append(all, withoutEnd(spaceMark))
	}
	p.normalizer = all
	d := spDecoder{control: map[string]bool{}, unknown: v.unknown, strips: m.dummyPrefix || m.squeeze, all: m.squeeze}
	for _, a := range added {
		if a.hidden {
			d.control[a.content] = true
		}
	}
	p.decoders = []decoder{d}
	// What puts these tokens around a text is not in the model. A tokenizer of Llama's or Gemma's kind puts the first there unless told not to.
	if on := s.AddBOS; m.bos >= 0 && (on == nil || *on) {
		p.post.around.before = []int32{m.bos}
	}
	if on := s.AddEOS; m.eos >= 0 && on != nil && *on {
		p.post.around.behind = []int32{m.eos}
	}
	return build(p)
}

func (m *spModel) read(raw []byte) error {
	return protobuf.Fields(raw, func(f protobuf.Field) error {
		switch f.Number {
		case 1:
			p := spPiece{kind: spNormal}
			err := protobuf.Fields(f.Bytes, func(f protobuf.Field) error {
				switch f.Number {
				case 1:
					p.text = string(f.Bytes)
				case 2:
					p.score = math.Float32frombits(uint32(f.Value))
				case 3:
					p.kind = f.Value
				}
				return nil
			})
			m.pieces = append(m.pieces, p)
			return err
		case 2:
			return protobuf.Fields(f.Bytes, m.trainer)
		case 3:
			return protobuf.Fields(f.Bytes, m.normalizer)
		}
		return nil
	})
}

func (m *spModel) trainer(f protobuf.Field) error {
	switch f.Number {
	case 3:
		m.kind = f.Value
	case 24:
		m.asSuffix = f.Value != 0
	case 35:
		m.byteFallback = f.Value != 0
	case 41:
		m.bos = int32(f.Value)
	case 42:
		m.eos = int32(f.Value)
	}
	return nil
}

func (m *spModel) normalizer(f protobuf.Field) error {
	switch f.Number {
	case 1:
		m.normalization = string(f.Bytes)
	case 2:
		m.charsmap = len(f.Bytes)
	case 3:
		m.dummyPrefix = f.Value != 0
	case 4:
		m.squeeze = f.Value != 0
	case 5:
		m.escape = f.Value != 0
	}
	return nil
}

// check refuses what would give other ids.
func (m *spModel) check() error {
	kinds := []string{"", "unigram", "bpe", "word", "char"}
	switch {
	case len(m.pieces) == 0:
		return fmt.Errorf("found no pieces, wanted a SentencePiece model")
	case m.kind != 2 && m.kind < uint64(len(kinds)) && m.kind > 0:
		return fmt.Errorf("model_type: found %s, wanted bpe", kinds[m.kind])
	case m.kind != 2:
		return fmt.Errorf("model_type: found %d, wanted bpe", m.kind)
	case m.charsmap > 0:
		return fmt.Errorf("normalizer_spec: found the rules %q, wanted identity", m.normalization)
	case m.asSuffix:
		return fmt.Errorf("treat_whitespace_as_suffix: found true, wanted false")
	case !m.escape:
		return fmt.Errorf("escape_whitespaces: found false, wanted true")
	}
	return nil
}

// longestPiece is as SentencePiece has it: 512 characters.
const longestPiece = 2048

// vocabulary says the model in merges: of every way to cut a piece into two pieces, ranked by the score of the whole.
func (m *spModel) vocabulary() (*vocabulary, []addedToken, error) {
	v := &vocabulary{ids: map[string]int32{}, fuse: true, byteFallback: m.byteFallback}
	var added []addedToken
	ids, ranks := map[string]int32{}, map[float32]int32{}
	for i, p := range m.pieces {
		id := int32(i)
		if !utf8.ValidString(p.text) || p.text == "" {
			return nil, nil, fmt.Errorf("piece %d: found %q, wanted a text", i, p.text)
		}
		if _, twice := v.ids[p.text]; twice {
			return nil, nil, fmt.Errorf("piece %d: found %q twice, wanted it once", i, p.text)
		}
		switch p.kind {
		case spNormal:
			if len(p.text) > longestPiece {
				return nil, nil, fmt.Errorf("piece %d: %s: found %d bytes, wanted at most %d", i, excerpt(p.text), len(p.text), longestPiece)
			}
			ids[p.text] = id
			ranks[p.score] = 0
		case spUnknown:
			v.unknown = p.text
		case spControl:
			added = append(added, addedToken{id: id, content: p.text, special: true, hidden: true})
		case spUserDefined:
			added = append(added, addedToken{id: id, content: p.text, normalized: true, asIs: true})
		case spByte, spUnused:
		default:
			return nil, nil, fmt.Errorf("piece %d: %q: found type %d, wanted normal, unknown, control, user-defined, unused or byte", i, p.text, p.kind)
		}
		v.ids[p.text] = id
		v.tokens = append(v.tokens, p.text)
	}
	for rank, score := range slices.Backward(slices.Sorted(maps.Keys(ranks))) {
		ranks[score] = int32(len(ranks) - 1 - rank)
	}
	for text, id := range ids {
		for at := range text {
			left, ok := ids[text[:at]]
			if right, both := ids[text[at:]]; ok && both && at > 0 {
				v.merges = append(v.merges, merge{left, right, id, ranks[m.pieces[id].score]})
			}
		}
	}
	return v, added, nil
}

// show makes those pieces tokens that are looked for in texts of which the settings say so, and adds those that follow the pieces: SentencePiece itself never
// looks for control pieces.
func (s *settings) show(added []addedToken, v *vocabulary) ([]addedToken, error) {
	var ids []int
	for key, d := range s.Added {
		id, err := strconv.Atoi(key)
		if err != nil || id < 0 || d.Content == "" {
			return nil, fmt.Errorf("tokenizer_config.json: added_tokens_decoder: found %.20q for %.80q, wanted the id of a token with a content", key, d.Content)
		}
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, n := range ids {
		d, next := s.Added[strconv.Itoa(n)], len(v.tokens)
		id, ok := v.ids[d.Content]
		if !ok && n == next {
			id, ok = int32(n), true
			v.ids[d.Content], v.tokens = id, append(v.tokens, d.Content)
		}
		if !ok || int(id) != n {
			return nil, fmt.Errorf("tokenizer_config.json: added_tokens_decoder: found id %d for %.80q, wanted that of its piece, or %d behind them", n, d.Content, next)
		}
		shown := addedToken{id: id, content: d.Content, singleWord: d.SingleWord, lstrip: d.LStrip, rstrip: d.RStrip, normalized: d.Normalized, asIs: d.Normalized, special: d.Special}
		if i := slices.IndexFunc(added, func(a addedToken) bool { return a.id == id }); i >= 0 {
			added[i] = shown
		} else {
			added = append(added, shown)
		}
	}
	return added, nil
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
