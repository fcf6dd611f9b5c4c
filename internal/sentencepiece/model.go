// Package sentencepiece reads and writes models of SentencePiece, as they stand in a tokenizer.model: those that merge pairs of pieces.
package sentencepiece

import (
	"errors"
	"fmt"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// Kinds of pieces, as in sentencepiece_model.proto.
const (
	Normal      = 1
	Unknown     = 2
	Control     = 3
	UserDefined = 4
	Unused      = 5 // a row of the model that no text has
	Byte        = 6
)

// Model is what a model says.
type Model struct {
	Pieces        []Piece
	ByteFallback  bool
	UNK, BOS, EOS int32 // -1 for none
	Pad           int32
	DummyPrefix   bool
	Squeeze       bool // of several spaces one is left, and none at the ends

	algorithm     uint64 // 1 unigram, 2 bpe, 3 word, 4 char
	asSuffix      bool   // spaces are marked behind words
	normalization string
	charsmap      int  // bytes
	escape        bool // spaces are marked
}

// Piece is a token.
type Piece struct {
	Text  string
	Score float32
	Kind  uint64
}

// Parse reads a model of byte-pair encoding that does nothing to a text but mark its spaces. It refuses others, which would give other ids.
func Parse(raw []byte) (*Model, error) {
	m := &Model{algorithm: 1, BOS: 1, EOS: 2, Pad: -1, DummyPrefix: true, Squeeze: true, escape: true}
	if err := m.read(raw); err != nil {
		return nil, err
	}
	return m, m.check()
}

func (m *Model) read(raw []byte) error {
	return fields(raw, func(f field) error {
		switch f.number {
		case 1:
			p := Piece{Kind: Normal}
			err := fields(f.bytes, func(f field) error {
				switch f.number {
				case 1:
					p.Text = string(f.bytes)
				case 2:
					p.Score = math.Float32frombits(uint32(f.value))
				case 3:
					p.Kind = f.value
				}
				return nil
			})
			m.Pieces = append(m.Pieces, p)
			return err
		case 2:
			return fields(f.bytes, m.trainer)
		case 3:
			return fields(f.bytes, m.normalizer)
		}
		return nil
	})
}

func (m *Model) trainer(f field) error {
	switch f.number {
	case 3:
		m.algorithm = f.value
	case 24:
		m.asSuffix = f.value != 0
	case 35:
		m.ByteFallback = f.value != 0
	case 40:
		m.UNK = int32(f.value)
	case 41:
		m.BOS = int32(f.value)
	case 42:
		m.EOS = int32(f.value)
	case 43:
		m.Pad = int32(f.value)
	}
	return nil
}

func (m *Model) normalizer(f field) error {
	switch f.number {
	case 1:
		m.normalization = string(f.bytes)
	case 2:
		m.charsmap = len(f.bytes)
	case 3:
		m.DummyPrefix = f.value != 0
	case 4:
		m.Squeeze = f.value != 0
	case 5:
		m.escape = f.value != 0
	}
	return nil
}

// check refuses what would give other ids.
func (m *Model) check() error {
	kinds := []string{"", "unigram", "bpe", "word", "char"}
	switch {
	case len(m.Pieces) == 0:
		return errors.New("found no pieces, wanted a SentencePiece model")
	case m.algorithm != 2 && m.algorithm < uint64(len(kinds)) && m.algorithm > 0:
		return fmt.Errorf("model_type: found %s, wanted bpe", kinds[m.algorithm])
	case m.algorithm != 2:
		return fmt.Errorf("model_type: found %d, wanted bpe", m.algorithm)
	case m.charsmap > 0:
		return fmt.Errorf("normalizer_spec: found the rules %q, wanted identity", m.normalization)
	case m.asSuffix:
		return errors.New("treat_whitespace_as_suffix: found true, wanted false")
	case !m.escape:
		return errors.New("escape_whitespaces: found false, wanted true")
	}
	return nil
}

// Bytes is the file of a model that Parse reads.
func (m *Model) Bytes() []byte {
	var out, trainer, normalizer message
	for _, p := range m.Pieces {
		var piece message
		piece.bytes(1, []byte(p.Text))
		piece.float(2, p.Score)
		piece.number(3, p.Kind)
		out.bytes(1, piece)
	}
	trainer.number(3, 2)
	trainer.flag(35, m.ByteFallback)
	for i, id := range []int32{m.UNK, m.BOS, m.EOS, m.Pad} {
		trainer.number(protowire.Number(40+i), uint64(int64(id)))
	}
	normalizer.bytes(1, []byte("identity"))
	normalizer.flag(3, m.DummyPrefix)
	normalizer.flag(4, m.Squeeze)
	normalizer.flag(5, true)
	out.bytes(2, trainer)
	out.bytes(3, normalizer)
	return out
}
