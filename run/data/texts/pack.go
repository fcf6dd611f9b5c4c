package texts

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"gputrain/run/data"
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

// packed is documents laid into windows. Where these lie is kept as a token file, made once: three words of four bytes a piece, window after window; as parts
// the first piece of each window, their number, and the figures. A piece of no tokens, behind one of a window, is what lies beside that.
type packed struct {
	store store
	size  int // tokens a window
	index *tokenFile
	figures
	apart bool  // the documents of a window do not see each other
	group group // of windows that stay together
	// places is how many documents a window has at most, all of a group in one; up to 1: each is a window.
	places int
	// beside are numbers that lie beside tokens (data.Batch.Beside), by window.
	beside map[string][]float32
	along  func(b *data.Batch, row, at int, p piece, labels []int32) error // lays more beside a piece; nil: nothing
}

// figures are what packing counts.
type figures struct {
	documents, longest int64
	left               int64 // documents without a label that counts
	cut, divided       int64 // documents of which tokens are left out, and those in several windows
	tokens             int64 // of all documents
	filled, learned    int64 // tokens in windows, and labels that count
}

// all is their order in the file.
func (f *figures) all() []*int64 {
	return []*int64{&f.documents, &f.longest, &f.left, &f.cut, &f.divided, &f.tokens, &f.filled, &f.learned}
}

// pack lays the documents into windows of size tokens. Which window a document is in depends on the documents, the layout and size only.
func (d *Documents) pack(r *reading, size int) (*packed, error) {
	if size < 1 {
		return nil, fmt.Errorf("a window of %d tokens, want at least 1", size)
	}
	if d.laid != nil && d.laid.size == size {
		return d.laid, nil
	}
	layout := d.layout.WithDefaults()
	key := tokenKey{kind: windowsKind}
	key.sum = sha256.Sum256(fmt.Appendf(nil, "gputrain windows 1\n%x %d %s %s %v %v %v", d.key.sum, size, layout.Packing, layout.Long, d.group.windows(), d.share, d.held))
	if d.places > 1 {
		key.sum = sha256.Sum256(fmt.Appendf(key.sum[:], " groups of at most %d", d.places))
	}
	d.corpus.packing.Lock()
	defer d.corpus.packing.Unlock()
	index, _, err := d.corpus.tokenFile(r, key, 4, func(w *tokenWriter) error {
		r.begin("packing", []file{{size: 8 * d.tokens.parts.count}})
		return d.lay(r, w, layout, size)
	})
	if err != nil {
		return nil, err
	}
	p := &packed{store: d.tokens.store, size: size, index: index, apart: layout.Packing != data.PackNone && !layout.Together, group: d.group, places: d.places}
	all := p.all()
	last := make([]uint64, len(all))
	if err := index.parts.read(last, index.parts.count-int64(len(last))); err != nil {
		return nil, err
	}
	for i, to := range all {
		*to = int64(last[i])
	}
	return p, nil
}

// lay writes the windows of size tokens. In memory are the open ones.
func (d *Documents) lay(r *reading, w *tokenWriter, layout data.Layout, size int) error {
	p := &packer{store: d.tokens.store, size: size, group: d.group, open: map[string]int{data.PackGreedy: 1, data.PackFirstFit: openWindows}[layout.Packing], places: max(d.places, 1), to: w}
	place := p.place
	if layout.Packing == data.PackStream {
		place = p.stream
	}
	err := d.each(r, func(i int, s span) (bool, error) {
		if d.places > 1 {
			p.documents, p.tokens, p.longest = p.documents+1, p.tokens+int64(s.count), max(p.longest, int64(s.count))
			return true, cmp.Or(p.together(d.group, i, s), p.err)
		}
		used := p.used
		kept := s.kept(size, layout.Long)
		if err := place(kept); err != nil {
			return false, err
		}
		if err := d.onePiece(i, p.used-used, s, size); err != nil {
			return false, err
		}
		n := int64(s.count)
		if d.group.ends {
			n--
		}
		p.documents, p.tokens, p.longest = p.documents+1, p.tokens+n, max(p.longest, n)
		if kept.count < s.count {
			p.cut++
		}
		switch p.used - used {
		case 0:
			p.left++
		case 1:
		default:
			p.divided++
		}
		return true, p.err
	})
	p.closeAll()
	switch {
	case err != nil:
		return err
	case p.err != nil:
		return p.err
	case w.count > 0:
	case p.cut > 0:
		return fmt.Errorf("no document has a label that counts: %d of %d are longer than a window of %d tokens and cut to it (data.long %s)", p.cut, p.documents, size, layout.Long)
	default:
		return errors.New("no document has a label that counts")
	}
	if err := w.part(uint64(w.count / pieceWords)); err != nil {
		return err
	}
	for _, figure := range p.all() {
		if err := w.part(uint64(*figure)); err != nil {
			return err
		}
	}
	return nil
}

// pieceWords is how many words a piece is on the disk: the two halves of its start, with ends as the highest bit, and its tokens.
const pieceWords = 3

func (p piece) words() []uint32 {
	ends := uint32(0)
	if p.ends {
		ends = 1 << 31
	}
	return []uint32{uint32(p.start), uint32(p.start>>32) | ends, uint32(p.inputs)}
}

func pieceOf(words []uint32) piece {
	return piece{start: int64(words[0]) | int64(words[1]&^(1<<31))<<32, inputs: int32(words[2]), ends: words[1]>>31 == 1}
}

// kept is the document without what long says to leave out.
func (s span) kept(size int, long string) span {
	from, n := data.Kept(int(s.count), size, long)
	s.start, s.count = s.start+int64(from), int32(n)
	return s
}

// openWindow is a window that is being filled.
type openWindow struct {
	pieces []piece
	texts  int // of them: the others are numbers beside these
	room   int
}

type packer struct {
	store   store
	size    int
	open    int // windows that may be open
	group   group
	current []openWindow
	used    int    // pieces placed
	places  int    // of a window, for documents of groups
	waiting []span // documents of the group that is being read
	to      *tokenWriter
	err     error // of writing

	figures
}

// place cuts a document into pieces of at most a window and puts each into the first open window that has room for all of it. A last
// token alone would have nothing to predict: it has been the label of the one before.
func (p *packer) place(s span) error {
	for from := int32(0); s.count-from >= 2; from += int32(p.size) {
		next := s.piece(from, p.size)
		if p.group.ends && next.ends { // the label is no token
			next.inputs, next.ends = next.inputs-1, false
		}
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
		p.put(i, next, s)
		if p.open == 0 {
			p.closeAll()
		}
	}
	return nil
}

// together puts the documents of a group into the first open window that has room for all of them: each without its last token, which is a label alone.
func (p *packer) together(g group, i int, s span) error {
	if p.waiting = append(p.waiting, s); len(p.waiting) < g.size() {
		return nil
	}
	all, room := p.waiting, 0
	p.waiting = nil
	for _, s := range all {
		room += int(s.count) - 1
	}
	if room > p.size {
		return fmt.Errorf("row %d: found %d tokens in %s, with the prompt before each, wanted at most %d: packed, they share a window (model.context)",
			i/g.size()+1, room+len(all), strings.Join(g.keys, " and "), p.size+len(all))
	}
	at := slices.IndexFunc(p.current, func(w openWindow) bool { return w.room >= room && w.texts+len(all) <= p.places })
	if at < 0 {
		if len(p.current) >= p.open {
			p.close(0)
		}
		at = len(p.current)
		p.current = append(p.current, openWindow{room: p.size})
	}
	for _, s := range all {
		next := piece{start: s.start, inputs: s.count - 1}
		if _, err := p.counts(s, next); err != nil {
			return err
		}
		p.put(at, next, s)
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
			p.put(0, next, s)
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
func (p *packer) put(i int, next piece, of span) {
	w := &p.current[i]
	w.pieces, w.texts, w.room = append(w.pieces, next), w.texts+1, w.room-int(next.inputs)
	if p.group.laid != "" {
		w.pieces = append(w.pieces, piece{start: int64(of.beside)})
	}
	p.used, p.filled = p.used+1, p.filled+int64(next.inputs)
	if w.room == 0 {
		p.close(i)
	}
}

func (p *packer) close(i int) {
	if w := p.current[i]; len(w.pieces) > 0 && p.err == nil {
		var words []uint32
		for _, piece := range w.pieces {
			words = append(words, piece.words()...)
		}
		if p.err = p.to.part(uint64(p.to.count / pieceWords)); p.err == nil {
			p.err = p.to.add(words)
		}
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
		n = int64(data.Counted(labels))
	}
	p.learned += n
	return n > 0 || p.group.ends, nil // a window that is left out of a group is there without a label
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
		tokens[i], labels[i] = int32(raw[i]&^unlabelled), data.Ignored
		if i+1 < len(raw) && raw[i+1]&unlabelled == 0 {
			labels[i] = int32(raw[i+1])
		}
	}
	return tokens, labels, nil
}

func (p *packed) Windows() int64 { return p.index.parts.count - 1 - int64(len(p.all())) }

// Group is how many windows stay together.
func (p *packed) Group() int {
	if p.places > 1 {
		return 1
	}
	return p.group.size()
}

// each is how many numbers of a kind lie beside a window.
func (p *packed) each() int { return max(1, p.places) }

// pieces are those of window i.
func (p *packed) pieces(i int64) ([]piece, error) {
	var ends [2]uint64
	if err := p.index.parts.read(ends[:], i); err != nil {
		return nil, err
	}
	words := make([]uint32, pieceWords*(ends[1]-ends[0]))
	if err := p.index.store.read(words, pieceWords*int64(ends[0])); err != nil {
		return nil, err
	}
	var all []piece
	for w := range slices.Chunk(words, pieceWords) {
		all = append(all, pieceOf(w))
	}
	return all, nil
}

// fill reads window i into a row of b.
func (p *packed) Fill(b *data.Batch, row int, i int64) error {
	pieces, err := p.pieces(i)
	if err != nil {
		return fmt.Errorf("data: read windows: window %d: %w", i, err)
	}
	at, laid := 0, make([]float32, 0, p.each())
	for _, piece := range pieces {
		if piece.inputs == 0 {
			laid = append(laid, math.Float32frombits(uint32(piece.start)))
			continue
		}
		tokens, labels, err := piece.read(p.store)
		if err != nil {
			return err
		}
		b.Put(row, at, tokens, labels)
		if p.apart {
			b.Place(row, at, len(tokens))
		}
		if p.along != nil {
			if err := p.along(b, row, at, piece, labels); err != nil {
				return err
			}
		}
		at += len(tokens)
	}
	if p.group.laid != "" {
		b.SetBeside(p.group.laid, row, laid[:p.each()]...)
	}
	for name, values := range p.beside {
		b.SetBeside(name, row, values[int(i)*p.each():(int(i)+1)*p.each()]...)
	}
	return nil
}
