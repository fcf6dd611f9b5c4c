package tokenizer

import (
	"context"
	"errors"
	"io"
	"runtime"
	"slices"
	"sync"
	"unsafe"

	"gputrain/internal/caught"
)

// StreamOptions say how a long text is encoded.
type StreamOptions struct {
	Options
	Workers  int              // goroutines that encode; 0: one a core
	Progress func(read int64) // is called with the bytes read so far; nil: nothing is
	block    int              // bytes that a goroutine takes at once; 0: a megabyte
}

// block is a part of the text on its way through a stream.
type block struct {
	text  []byte
	begin int64 // where it lies in the text
	ids   []int32
	err   error
	done  chan struct{}
}

// EncodeReader encodes a text of any length, and hands on its ids in order, some at a time; they are valid until emit returns. The text
// is cut where that changes nothing, and its parts are encoded at once on several cores. A text that cannot be cut, because of a pattern
// that is not a well-known one for instance, is read and encoded as a whole.
func (t *Tokenizer) EncodeReader(ctx context.Context, r io.Reader, o StreamOptions, emit func(ids []int32) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	workers := o.Workers
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	work, order := make(chan *block), make(chan *block, workers)
	var all sync.WaitGroup
	all.Go(func() {
		defer close(order)
		defer close(work)
		err := caught.Do(func() error { return t.cut(ctx, r, o, work, order) })
		if err != nil {
			cancel(err)
		}
	})
	for range workers {
		all.Go(func() {
			e := newEncoder(t)
			for b := range work {
				b.err = caught.Do(func() error { return e.block(b, o.Options) })
				close(b.done)
			}
		})
	}
	err := t.collect(ctx, o, order, emit)
	if err != nil {
		cancel(err)
	}
	all.Wait()
	if err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return t.failed("encode", err)
	}
	return nil
}

// cut reads the text and cuts it into blocks.
func (t *Tokenizer) cut(ctx context.Context, r io.Reader, o StreamOptions, work, order chan<- *block) error {
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
		b := &block{text: text[:end], begin: begin, done: make(chan struct{})}
		begin += int64(end)
		for _, to := range []chan<- *block{order, work} {
			select {
			case to <- b:
			case <-ctx.Done():
				close(b.done)
				return context.Cause(ctx)
			}
		}
	}
	return nil
}

// collect hands on the ids of the blocks in order.
func (t *Tokenizer) collect(ctx context.Context, o StreamOptions, order <-chan *block, emit func(ids []int32) error) error {
	around := template{}
	if o.Special {
		around = t.post.around
	}
	held := around.before // what is handed on with what comes next, so that a short text comes at once
	begun := false
	for b := range order {
		<-b.done
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case b.err != nil:
			return b.err
		}
		if begun && len(held) > 0 {
			if err := emit(held); err != nil {
				return err
			}
		}
		if begun || len(held) == 0 {
			held = b.ids
		} else {
			held = append(held[:len(held):len(held)], b.ids...)
		}
		begun = true
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if held = append(held[:len(held):len(held)], around.behind...); len(held) == 0 {
		return nil
	}
	return emit(held)
}

// block encodes a part of a text.
func (e *encoder) block(b *block, o Options) error {
	text, err := o.utf8(unsafe.String(unsafe.SliceData(b.text), len(b.text)), b.begin) // nobody writes to it any more
	if err != nil {
		return err
	}
	e.ids = slices.Grow(e.ids[:0], len(text)/2) // grown little by little it leaves several times as much behind
	err = placed(e.encode(text, b.begin > 0, o), b.begin)
	b.ids, b.text = append([]int32(nil), e.ids...), nil
	return err
}
