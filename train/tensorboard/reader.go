package tensorboard

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"iter"

	"gputrain/internal/stranger"
)

// events are those of an event file of size bytes, see EventsOf.
func events(r io.Reader, size int64) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		at := int64(0)
		for {
			data, err := readRecord(r, size-at)
			if errors.Is(err, io.EOF) {
				return
			}
			var e Event
			if err == nil {
				if e, err = decode(data); err != nil {
					err = fmt.Errorf("event: %v", err) // which is no end of the file, however a message ends
				}
			}
			if err != nil {
				yield(Event{}, fmt.Errorf("tensorboard: record at byte %d: %w", at, err))
				return
			}
			if !yield(e, nil) {
				return
			}
			at += headerSize + int64(len(data)) + trailerSize
		}
	}
}

// EventsOf are the events of a file, in order. The first that is wrong comes as an error, and is the last: a checksum that does not hold, a
// record longer than the file, a message that is none. Where the file ends within a record, as that of a killed process or of one that is
// writing may, the error matches io.ErrUnexpectedEOF.
func EventsOf(name string) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		f, err := stranger.Open(name)
		if err != nil {
			yield(Event{}, fmt.Errorf("tensorboard: %w", err))
			return
		}
		defer f.Close()
		info, err := f.Stat()
		if err != nil {
			yield(Event{}, fmt.Errorf("tensorboard: %w", err))
			return
		}
		for e, err := range events(bufio.NewReader(f), info.Size()) {
			if err != nil {
				err = fmt.Errorf("%s: %w", name, err)
			}
			if !yield(e, err) {
				return
			}
		}
	}
}
