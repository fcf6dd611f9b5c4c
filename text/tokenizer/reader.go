package tokenizer

import (
	"cmp"
	"context"
	"errors"
	"io"
	"runtime"
	"slices"
	"unsafe"

	"gputrain/internal/ordered"
)

// block is a part of the text on its way through a stream.
type block struct {
	text  []byte
	begin int64 // where it lies in the text
}

// EncodeReader encodes a text of any length, and hands on its ids in order, some at a time; they are valid until emit returns. The text
// is cut where that changes nothing, and its parts are encoded at once on several cores. A text that cannot be cut, because of a pattern
// that is not a well-known one for instance, is read and encoded as a whole.
func (t *Tokenizer) EncodeReader(ctx context.Context, r io.Reader, o Options, emit func(ids []int32) error) error {
	around := template{}
	if o.Special {
		around = t.post.around
	}
	var unread error
	blocks := func(yield func(block) bool) { unread = t.cut(r, o, yield) }
	cores := make(chan struct{}, runtime.GOMAXPROCS(0)) // each with an encoder
	encode := func(b block) ([]int32, error) {
		cores <- struct{}{}
		defer func() { <-cores }()
		e := t.encoders.Get().(*encoder)
		defer t.encoders.Put(e)
		return e.block(b, o)
	}
	held := around.before // what is handed on with what comes next, so that a short text comes at once
	begun := false
	err := ordered.Do(ctx, blocks, encode, func(ids []int32) error {
		if begun && len(held) > 0 {
			if err := emit(held); err != nil {
				return err
			}
		}
		if begun || len(held) == 0 {
			held = ids
		} else {
			held = append(held[:len(held):len(held)], ids...)
		}
		begun = true
		return nil
	})
	if err == nil {
		err = cmp.Or(unread, context.Cause(ctx))
	}
	if held = append(held[:len(held):len(held)], around.behind...); err == nil && len(held) > 0 {
		err = emit(held)
	}
	if err != nil {
		return t.failed("encode", err)
	}
	return nil
}

// cut reads the text and cuts it into blocks.
func (t *Tokenizer) cut(r io.Reader, o Options, yield func(block) bool) error {
	size := o.block
	if size == 0 {
		size = 1 << 20
	}
	begin, rest := int64(0), []byte(nil)
	for last := false; !last; {
		text := append(make([]byte, 0, len(rest)+size), rest...)
		n, err := io.ReadFull(r, text[len(rest):len(rest)+size])
		text = text[:len(rest)+n]
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			last = true
		case err != nil:
			return err
		}
		if o.Progress != nil {
			o.Progress(begin + int64(len(text)))
		}
		end := len(text)
		if !last {
			end = t.cuts.last(text)
		}
		if rest = text[end:]; end == 0 {
			size = max(size, len(text)) // twice as much next time: each byte is looked at a few times at most
			continue
		}
		if !yield(block{text[:end], begin}) {
			break
		}
		begin += int64(end)
	}
	return nil
}

// block encodes a part of a text.
func (e *encoder) block(b block, o Options) ([]int32, error) {
	text, err := o.utf8(unsafe.String(unsafe.SliceData(b.text), len(b.text)), b.begin) // nobody writes to it any more
	if err != nil {
		return nil, err
	}
	e.ids = slices.Grow(e.ids[:0], len(text)/2) // grown little by little it leaves several times as much behind
	err = placed(e.encode(text, b.begin > 0, o), b.begin)
	return slices.Clone(e.ids), err
}
