package state

import (
	"context"
	"slices"
	"strings"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/graph"
	"gputrain/graph/compile"
	"gputrain/model"
	"gputrain/run/data"
)

// A generator continues texts: it keeps the keys and values of the tokens that it has seen, so that each token costs the work of one row. Two
// programs share those of one text: one takes a piece of a window in at once, the other one token. Two others share those of several, see Places.
type generator struct {
	caches   map[string]*gpu.Buffer // by CacheName
	programs map[string]*pass       // by name
}

// Names of the passes that go on with texts.
const (
	prefillPass = "prefill" // takes in a piece of a window
	decodePass  = "decode"  // goes on with a token
	fillPass    = "fill"    // takes in tokens of several rows
	advancePass = "advance" // goes on with a token of each row
	drawPass    = "draw"    // likewise, and draws the next one
	eachPass    = "each"    // takes in a piece of a window for the logits behind each token
)

// continuing are those that share what they keep: the ones of one text, of several, and one that nothing goes on behind.
var continuing = [][]string{{prefillPass, decodePass}, {fillPass, advancePass, drawPass}, {eachPass}}

// Continuations are the names of the passes that go on with texts.
func (j Job) Continuations() (names []string) {
	for i, wanted := range []bool{j.Sampling, j.Rows > 0} {
		if wanted {
			names = append(names, continuing[i]...)
		}
	}
	return names
}

// mostRows bounds the tokens that are taken in at once: enough to make the most of reading the parameters, few enough that a short prompt does
// not pay for a long one.
const mostRows = 64

// prefillRows is how many tokens of a window are taken in at once.
func prefillRows(window int) int { return min(window, mostRows) }

// Piece is a run of tokens of a window, as the programs of a generator take them.
type Piece struct {
	tokens, positions []int32
	row               int    // of the token whose successor is asked for
	places            Places // of a pass over several rows
	pass              string
}

// pieces cuts what follows the first tokens of a window into runs of rows tokens. The last one ends with the window, and so may begin with tokens that
// came before; where the window is shorter than a run, what follows it is never seen.
func pieces(window []int32, first, rows int) []Piece {
	var out []Piece
	for end := first + rows; ; end += rows {
		first := max(0, min(end, len(window))-rows)
		p := Piece{tokens: make([]int32, rows), row: min(rows, len(window)-first) - 1, pass: prefillPass}
		if rows == 1 {
			p.pass = decodePass
		}
		copy(p.tokens, window[first:])
		for i := range rows {
			p.positions = append(p.positions, int32(first+i))
		}
		if out = append(out, p); end >= len(window) {
			return out
		}
	}
}

// apart is pieces for a network that keeps states: none has a token twice, and what follows the window is idle.
func apart(window []int32, first, rows, size int) (out []Piece) {
	for ; first < len(window); first += rows {
		n := min(rows, len(window)-first)
		p := Piece{tokens: make([]int32, rows), positions: make([]int32, rows), row: n - 1, pass: prefillPass, places: onlyRow(size).places(n, rows)}
		if rows == 1 {
			p.pass = decodePass
		}
		copy(p.tokens, window[first:first+n])
		for i := range n {
			p.positions[i] = int32(first + i)
		}
		out = append(out, p)
	}
	return out
}

// onlyRow is the paging of one text for a network that keeps states, with a window.
func onlyRow(window int) Paging { return paging(1, 0, window, buffers.F32) }

// places are those of the first n of rows tokens of the only row.
func (p Paging) places(n, rows int) (at Places) {
	for i := range rows {
		at.Rows = append(at.Rows, int32(-min(1, max(0, i-n+1))))
	}
	for i := range p.Entries {
		at.Table = append(at.Table, int32(i))
	}
	return at
}

// oneToken is the piece that goes on with a token at a position.
func oneToken(token int32, position int) Piece {
	return Piece{tokens: []int32{token}, positions: []int32{int32(position)}, pass: decodePass}
}

// Pass is the name of the pass that takes it, one of Job.Continuations.
func (p Piece) Pass() string { return p.pass }

// Results are how many numbers its pass leaves for a vocabulary: the logits of a token, or what each row has.
func (p Piece) Results(vocab int) int {
	switch p.pass {
	case advancePass, eachPass:
		return len(p.tokens) * vocab
	case drawPass:
		return len(p.tokens) * 2
	}
	return vocab
}

// Feed is what it writes to a program.
func (p Piece) Feed() Feed {
	return Feed{
		Batch: data.Batch{Rows: 1, Tokens: p.tokens, Positions: p.positions}, Rows: []int32{int32(p.row)},
		Ints:   map[string][]int32{model.InputRow: p.places.Rows, model.InputTable: p.places.Table},
		Floats: map[string][]float32{inputUniforms: p.places.Uniforms, inputTemperatures: p.places.Temperatures},
	}
}

// Inputs of a graph that draws.
const (
	inputUniforms     = "uniforms"     // f32 [rows]
	inputTemperatures = "temperatures" // f32 [rows]
)

// Generation is the graph of a pass that goes on with texts, on stages or not, and what is wanted of it: the logits of the tokens that follow, or what is
// drawn of these.
func Generation(def model.Definition, window int, p Paging, pass string, stages bool) (*model.Built, *graph.Value, error) {
	o, n := model.Options{Logits: true, Window: window, CachesApart: stages}, 1
	switch pass {
	case prefillPass, eachPass:
		n = prefillRows(window)
	case fillPass:
		n = p.Fill
	case advancePass, drawPass:
		n = p.Rows
	}
	if pass == prefillPass && n > 1 || pass == fillPass {
		o.Rows = 1
	}
	if !slices.Contains(continuing[1], pass) && model.Recurrent(def) {
		p = onlyRow(window)
	}
	if slices.Contains(continuing[1], pass) || model.Recurrent(def) {
		o.Paging = model.Paging{Rows: p.Rows, Blocks: p.Blocks, Size: p.Size, Storage: p.Storage}
	}
	built, err := def.Build(1, n, o)
	if err != nil {
		return nil, nil, err
	}
	if pass != drawPass {
		return built, built.Logits, nil
	}
	g := built.Graph
	drawn := g.Append(graph.Sample{}, built.Logits, g.Input(inputUniforms, graph.F32(n)), g.Input(inputTemperatures, graph.F32(n))).Outputs[0]
	return built, drawn, g.Err()
}

// CacheName is the name of what a pass keeps in a cache of its graph.
func CacheName(pass string, cache *graph.Value) string {
	return cachesOf(pass) + CacheInput(cache)
}

// cachesOf begins the names of what a pass keeps, and those that share it.
func cachesOf(pass string) string { return continuing[sharing(pass)][0] + "." }

// sharing is which of continuing a pass is of.
func sharing(pass string) int {
	return slices.IndexFunc(continuing, func(all []string) bool { return slices.Contains(all, pass) })
}

// CacheInput is the name of the input that a cache of a graph is.
func CacheInput(cache *graph.Value) string { return cache.Node().Op.(graph.Input).Name }

// generate makes the caches and the programs that a pass is among, unless they are there.
func (m *passes) generate(ctx context.Context, name string) (err error) {
	if m.generator == nil {
		m.generator = &generator{map[string]*gpu.Buffer{}, map[string]*pass{}}
	}
	g := m.generator
	if g.programs[name] != nil {
		return nil
	}
	sharing := continuing[sharing(name)]
	defer func() {
		if err != nil { // what others keep stays
			g.forget(sharing)
		}
	}()
	for _, name := range sharing {
		built, wanted, err := Generation(m.def, m.window, m.paging, name, false)
		if err != nil {
			return err
		}
		bind := map[string]gpu.Range{}
		for _, c := range built.Caches {
			key := CacheName(name, c)
			if g.caches[key] == nil {
				if g.caches[key], err = compile.NewCache(m.device, "gputrain.state."+key, built.Graph, c); err != nil {
					return err
				}
			}
			bind[CacheInput(c)] = g.caches[key].Range(0, compile.Bytes(c.Type()))
		}
		if g.programs[name], err = m.compile(ctx, logitsTarget, 1, built.Graph, wanted, compile.Options{Label: name, Bind: bind}); err != nil {
			return err
		}
	}
	return nil
}

// bytes is what it takes, with the logits on their way back.
func (g *generator) bytes() (total uint64) {
	for _, p := range g.programs {
		total += p.graph.Plan().Total() + p.graph.Output(logitsTarget).Bytes
	}
	for _, b := range g.caches {
		total += b.Bytes()
	}
	return total
}

func (g *generator) release() {
	if g == nil {
		return
	}
	for _, sharing := range continuing {
		g.forget(sharing)
	}
}

// forget releases the passes of these names, which share what they keep, and that.
func (g *generator) forget(sharing []string) {
	for _, name := range sharing {
		g.programs[name].release()
		delete(g.programs, name)
	}
	for key, b := range g.caches {
		if strings.HasPrefix(key, cachesOf(sharing[0])) {
			b.Release()
			delete(g.caches, key)
		}
	}
}

// Take takes a piece of a window in; see forwardPasses.
func (m *passes) Take(ctx context.Context, p Piece) ([]float32, error) {
	if err := m.generate(ctx, p.pass); err != nil {
		return nil, err
	}
	all, err := m.generator.programs[p.pass].once(ctx, p.Feed())
	if err != nil {
		return nil, err
	}
	return all[:p.Results(m.def.Vocab())], nil
}
