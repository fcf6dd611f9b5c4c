package texts

import (
	"fmt"
	"slices"

	"gputrain/run/data"
)

// A Line is one document as training has it: its tokens without those that Layout.Long leaves out of a window, each with its label, the next token or
// data.Ignored.
type Line struct {
	Number         int64 // of the document among all rows of the files, from 0 on
	Tokens, Labels []int32
}

// Lines takes the documents in their order, and counts the rows of the files.
func (d *Documents) Lines(size int, take func(Line) error) (rows int64, err error) {
	spans, err := d.spans()
	if err != nil {
		return 0, err
	}
	for i, s := range spans {
		if !d.has(int64(i)) {
			continue
		}
		l := Line{Number: int64(i)}
		if kept := s.kept(size, d.layout.WithDefaults().Long); kept.count > 1 {
			p := kept.piece(0, int(kept.count))
			if l.Tokens, l.Labels, err = p.read(d.tokens.store); err != nil {
				return 0, err
			}
		}
		if err := take(l); err != nil {
			return 0, err
		}
	}
	return int64(len(spans)), nil
}

// spans are the places of all documents of the files.
func (d *Documents) spans() (all []span, err error) {
	start := int64(0)
	err = d.tokens.parts.each(d.later(), func(_ int64, part uint64) (bool, error) {
		s := span{start: start, count: int32(part >> 1), masked: part&1 == 1}
		start += int64(s.count)
		all = append(all, s)
		return true, nil
	})
	return all, err
}

// A Piece is a run of a Line in a window. Its labels lie from At on in a row of a batch; Before labels of the line that are not data.Ignored precede them.
type Piece struct {
	Number  int64
	Before  int
	Row, At int
	Labels  []int32
}

// Along is the same source for windows of size tokens, where lay adds numbers for each piece beside a batch.
func (d *Documents) Along(size int, lay func(b *data.Batch, p Piece) error) (data.Source, error) {
	packed, err := d.pack(d.later(), size)
	if err != nil {
		return nil, err
	}
	spans, err := d.spans()
	if err != nil {
		return nil, err
	}
	own, laid := *d, *packed
	long := d.layout.WithDefaults().Long
	laid.along = func(b *data.Batch, row, at int, p piece, labels []int32) error {
		i, _ := slices.BinarySearchFunc(spans, p.start, func(s span, start int64) int {
			if s.start+int64(s.count) <= start {
				return -1
			}
			return 1
		})
		if i == len(spans) {
			return fmt.Errorf("data: token %d: found no document that has it", p.start)
		}
		before := 0
		if kept := spans[i].kept(size, long); p.start > kept.start {
			_, earlier, err := (piece{start: kept.start, inputs: int32(p.start - kept.start)}).read(d.tokens.store)
			if err != nil {
				return err
			}
			before = data.Counted(earlier)
		}
		return lay(b, Piece{Number: int64(i), Before: before, Row: row, At: at, Labels: labels})
	}
	own.laid = &laid
	return &own, nil
}
