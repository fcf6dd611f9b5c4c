package state

import (
	"context"

	"gputrain/buffers"
	"gputrain/buffers/array"
	"gputrain/gpu"
	"gputrain/graph"
	"gputrain/graph/compile"
	"gputrain/model"
	"gputrain/run/data"
)

// A generator continues a text: it keeps the keys and values of the tokens that it has seen, so that each token costs the work of one row. Two
// programs share them: one takes a piece of a window in at once, the other one token.
type generator struct {
	caches          []*gpu.Buffer
	prefill, decode *pass
}

// mostRows bounds the tokens that are taken in at once: enough to make the most of reading the parameters, few enough that a short prompt does
// not pay for a long one.
const mostRows = 64

// prefillRows is how many tokens of a window are taken in at once.
func prefillRows(window int) int { return min(window, mostRows) }

// Piece is a run of tokens of a window, as the programs of a generator take them.
type Piece struct {
	tokens, positions []int32
	row               int // of the token whose successor is asked for
}

// pieces cuts what follows the first tokens of a window into runs of rows tokens. The last one ends with the window, and so may begin with tokens that
// came before; where the window is shorter than a run, what follows it is never seen.
func pieces(window []int32, first, rows int) []Piece {
	var out []Piece
	for end := first + rows; ; end += rows {
		first := max(0, min(end, len(window))-rows)
		p := Piece{tokens: make([]int32, rows), row: min(rows, len(window)-first) - 1}
		copy(p.tokens, window[first:])
		for i := range rows {
			p.positions = append(p.positions, int32(first+i))
		}
		if out = append(out, p); end >= len(window) {
			return out
		}
	}
}

// oneToken is the piece that goes on with a token at a position.
func oneToken(token int32, position int) Piece {
	return Piece{tokens: []int32{token}, positions: []int32{int32(position)}}
}

// Tokens is how many it has.
func (p Piece) Tokens() int { return len(p.tokens) }

// Feed is what it writes to a program.
func (p Piece) Feed() Feed {
	return Feed{Batch: data.Batch{Rows: 1, Tokens: p.tokens, Positions: p.positions}, Rows: []int32{int32(p.row)}}
}

// Generation is the graph that takes some tokens of a window in, or goes on with one (decode), for the logits of the token that follows one of them.
func Generation(def model.Definition, window int, decode bool) (*model.Built, error) {
	o, rows := model.Options{Logits: true, Window: window}, 1
	if !decode {
		rows = prefillRows(window)
	}
	if rows > 1 {
		o.Rows = 1
	}
	return def.Build(1, rows, o)
}

// CacheName is the name of the input that a cache of a graph is.
func CacheName(cache *graph.Value) string { return cache.Node().Op.(graph.Input).Name }

// newGenerator makes the caches and the programs.
func (m *passes) newGenerator(ctx context.Context) (_ *generator, err error) {
	g := &generator{}
	defer func() {
		if err != nil {
			g.release()
		}
	}()
	bind := map[string]gpu.Range{}
	for _, p := range []struct {
		to     **pass
		label  string
		decode bool
	}{{&g.prefill, "prefill", false}, {&g.decode, "decode", true}} {
		built, err := Generation(m.def, m.window, p.decode)
		if err != nil {
			return nil, err
		}
		for _, c := range built.Caches {
			if _, ok := bind[CacheName(c)]; ok {
				continue
			}
			b, err := m.device.NewBuffer("gputrain.state."+CacheName(c), compile.Bytes(c.Type()))
			if err != nil {
				return nil, err
			}
			g.caches, bind[CacheName(c)] = append(g.caches, b), b.All()
		}
		targets := []compile.Target{{Name: logitsTarget, Value: built.Logits}}
		if *p.to, err = m.compile(ctx, logitsTarget, 1, built.Graph, compile.Options{Label: p.label, Targets: targets, Bind: bind}); err != nil {
			return nil, err
		}
	}
	return g, nil
}

// bytes is what it takes, with the logits on their way back.
func (g *generator) bytes(vocab int) uint64 {
	total := g.prefill.graph.Plan().Total() + g.decode.graph.Plan().Total() + 2*4*uint64(vocab)
	for _, b := range g.caches {
		total += b.Bytes()
	}
	return total
}

func (g *generator) release() {
	if g == nil {
		return
	}
	g.prefill.release()
	g.decode.release()
	for _, b := range g.caches {
		b.Release()
	}
}

// Take takes a piece of a window in; see forwardPasses.
func (m *passes) Take(ctx context.Context, p Piece) ([]float32, error) {
	if err := m.prepareSampling(ctx); err != nil {
		return nil, err
	}
	if p.Tokens() == 1 {
		return m.generator.decode.logits(ctx, p, m.def.Vocab())
	}
	return m.generator.prefill.logits(ctx, p, m.def.Vocab())
}

// logits runs the program for a piece.
func (f *pass) logits(ctx context.Context, p Piece, vocab int) ([]float32, error) {
	if err := p.Feed().Write(f.graph); err != nil {
		return nil, err
	}
	ctx = context.WithoutCancel(ctx)
	if err := f.run.Submit(ctx); err != nil {
		return nil, err
	}
	raw, err := f.ring.Next(ctx)
	if err != nil {
		return nil, err
	}
	return array.Decoded(buffers.F32, raw[:4*vocab]), nil
}

func (m *passes) prepareSampling(ctx context.Context) (err error) {
	if m.generator == nil {
		m.generator, err = m.newGenerator(ctx)
	}
	return err
}
