package data

import (
	"errors"
	"fmt"
)

// openWindows is how many windows first_fit keeps open for documents that still fit.
const openWindows = 64

// piece is a run of tokens of one document in a window, each with the token after it as its label; where the document ends, the last has
// none.
type piece struct {
	start  int64
	inputs int32
	ends   bool
}

// packed is documents laid into windows.
type packed struct {
	store  store
	size   int     // tokens a window
	pieces []piece // window after window
	starts []int   // of each window in pieces, then their number
	left   int     // documents without a label that counts

	cut, divided    int   // documents of which tokens are left out, and those in several windows
	filled, learned int64 // tokens in windows, and labels that count
	apart           bool  // the documents of a window do not see each other
	paired          bool  // every two windows stay together
}

// pack lays the documents into windows of size tokens. Which window a document is in depends on the documents, the layout and size only.
func (d *Documents) pack(size int) (*packed, error) {
	if size < 1 {
		return nil, fmt.Errorf("a window of %d tokens, want at least 1", size)
	}
	if d.laid != nil && d.laid.size == size {
		return d.laid, nil
	}
	layout := d.layout.withDefaults()
	p := &packer{store: d.store, size: size, open: map[string]int{PackGreedy: 1, PackFirstFit: openWindows}[layout.Packing]}
	out := &packed{store: d.store, size: size, apart: layout.Packing != PackNone && !layout.Together, paired: d.paired}
	for i, s := range d.spans {
		used := p.used
		place := p.place
		if layout.Packing == PackStream {
			place = p.stream
		}
		kept := s.kept(size, layout.Long)
		if err := place(kept); err != nil {
			return nil, err
		}
		if err := d.onePiece(i, p.used-used, s, size); err != nil {
			return nil, err
		}
		if kept.count < s.count {
			out.cut++
		}
		switch p.used - used {
		case 0:
			out.left++
		case 1:
		default:
			out.divided++
		}
	}
	p.closeAll()
	out.filled, out.learned = p.filled, p.learned
	switch {
	case len(p.done) > 0:
	case out.cut > 0:
		return nil, fmt.Errorf("no document has a label that counts: %d of %d are longer than a window of %d tokens and cut to it (data.long %s)", out.cut, len(d.spans), size, layout.Long)
	default:
		return nil, errors.New("no document has a label that counts")
	}
	for _, w := range p.done {
		out.starts = append(out.starts, len(out.pieces))
		out.pieces = append(out.pieces, w.pieces...)
	}
	out.starts = append(out.starts, len(out.pieces))
	return out, nil
}

// kept is the document without what long says to leave out. A window has a label behind its last token.
func (s span) kept(size int, long string) span {
	if over := int64(s.count) - int64(size) - 1; over > 0 && long != LongSplit {
		if long == LongKeepEnd {
			s.start += over
		}
		s.count -= int32(over)
	}
	return s
}

// openWindow is a window that is being filled.
type openWindow struct {
	pieces []piece
	room   int
}

type packer struct {
	store   store
	size    int
	open    int // windows that may be open
	current []openWindow
	done    []openWindow
	used    int // pieces placed

	filled, learned int64 // tokens of these, and labels that count
}

// place cuts a document into pieces of at most a window and puts each into the first open window that has room for all of it. A last
// token alone would have nothing to predict: it has been the label of the one before.
func (p *packer) place(s span) error {
	for from := int32(0); s.count-from >= 2; from += int32(p.size) {
		next := s.piece(from, p.size)
		if counts, err := p.counts(s, next); err != nil {
			return err
		} else if !counts {
			continue
		}
		i := 0
		for i < len(p.current) && p.current[i].room < int(next.inputs) {
			i++
		}
		if i == len(p.current) {
			if i > 0 && i >= p.open {
				p.close(0)
				i--
			}
			p.current = append(p.current, openWindow{room: p.size})
		}
		p.put(i, next)
		if p.open == 0 {
			p.closeAll()
		}
	}
	return nil
}

// stream fills the one open window and goes on in the next.
func (p *packer) stream(s span) error {
	for from := int32(0); s.count-from >= 2; {
		if len(p.current) == 0 {
			p.current = append(p.current, openWindow{room: p.size})
		}
		next := s.piece(from, p.current[0].room)
		from += next.inputs
		if counts, err := p.counts(s, next); err != nil {
			return err
		} else if counts {
			p.put(0, next)
		}
	}
	return nil
}

// piece is the tokens of s from one on, as many as there is room for.
func (s span) piece(from int32, room int) piece {
	n := min(s.count-from, int32(room))
	return piece{start: s.start + int64(from), inputs: n, ends: from+n == s.count}
}

// put adds a piece to an open window, which is closed once it is full.
func (p *packer) put(i int, next piece) {
	w := &p.current[i]
	w.pieces, w.room = append(w.pieces, next), w.room-int(next.inputs)
	p.used, p.filled = p.used+1, p.filled+int64(next.inputs)
	if w.room == 0 {
		p.close(i)
	}
}

func (p *packer) close(i int) {
	if w := p.current[i]; len(w.pieces) > 0 {
		p.done = append(p.done, w)
	}
	p.current = append(p.current[:i], p.current[i+1:]...)
}

func (p *packer) closeAll() {
	for len(p.current) > 0 {
		p.close(0)
	}
}

// counts tells whether a piece has a label that counts, and counts them.
func (p *packer) counts(s span, next piece) (bool, error) {
	n := int64(next.inputs)
	if next.ends {
		n--
	}
	if s.masked {
		_, labels, err := next.read(p.store)
		if err != nil {
			return false, err
		}
		n = int64(Counted(labels))
	}
	p.learned += n
	return n > 0, nil
}

// read returns the tokens of a piece and their labels.
func (p piece) read(s store) (tokens, labels []int32, err error) {
	raw := make([]uint32, p.inputs, p.inputs+1)
	if !p.ends {
		raw = raw[:p.inputs+1]
	}
	if err := s.read(raw, p.start); err != nil {
		return nil, nil, err
	}
	tokens, labels = make([]int32, p.inputs), make([]int32, p.inputs)
	for i := range tokens {
		tokens[i], labels[i] = int32(raw[i]&^unlabelled), Ignored
		if i+1 < len(raw) && raw[i+1]&unlabelled == 0 {
			labels[i] = int32(raw[i+1])
		}
	}
	return tokens, labels, nil
}

func (p *packed) windows() int64 { return int64(len(p.starts) - 1) }

// fill reads window i into a row of b.
func (p *packed) fill(b *Batch, row int, i int64) error {
	at := 0
	for _, piece := range p.pieces[p.starts[i]:p.starts[i+1]] {
		tokens, labels, err := piece.read(p.store)
		if err != nil {
			return err
		}
		b.put(row, at, tokens, labels)
		if p.apart {
			b.place(row, at, len(tokens))
		}
		at += len(tokens)
	}
	return nil
}
