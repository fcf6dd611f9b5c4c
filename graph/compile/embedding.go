package compile

import (
	"encoding/binary"
	"fmt"

	"gputrain/buffers"
	"gputrain/graph"
	"gputrain/shaders"
)

func init() {
	Register(graph.Embedding{}, Lowering{Lower: lowerEmbedding, Checks: embeddingChecks})
	Register(graph.EmbeddingGrad{}, Lowering{Lower: lowerEmbeddingGrad, Leaf: true})
}

var embeddingChecks = []Check{
	{Name: "embedding", Tolerance: 64, Below: 9, Build: func(g *graph.Graph) []*graph.Value {
		ids := checkedInts(g, "ids", 2, 35)
		return []*graph.Value{
			g.Embedding(checkedInput(g, "w", 9, 12), ids), g.Embedding(checkedInput(g, "odd", 9, 5), ids),
			g.Append(graph.EmbeddingGrad{Vocab: 9}, checkedInput(g, "dy", 2, 35, 12), ids).Outputs[0], g.Append(graph.EmbeddingGrad{Vocab: 9}, checkedInput(g, "dodd", 2, 35, 5), ids).Outputs[0],
		}
	}},
}

// embeddingParams is Params of embedding.wgsl.
type embeddingParams struct{ Count, Width, Row0, Rows uint32 }

// embeddingGradParams is Params of embedding_grad.wgsl.
type embeddingGradParams struct{ Width, Row0, Rows, First, Count uint32 }

// rowElement is the WGSL type that rows of the given width are made of, and the width counted in it.
func rowElement(width int) (kind string, units int) {
	if width%4 == 0 {
		return "vec4<f32>", width / 4
	}
	return "f32", width
}

// table is a param that the host keeps: the type of its rows, and the way to them, nil where they are planned alone.
type table struct {
	rows   buffers.DType
	gather func(dst []byte, rows []int32) error
}

func lowerEmbedding(c *Compiler, n *graph.Node) {
	if p, ok := n.Inputs[0].Node().Op.(graph.Param); ok {
		if t, ok := c.tables[p.Path]; ok {
			lowerTable(c, n, p.Path, t)
			return
		}
	}
	w, ids, y := c.In(n.Inputs[0]), c.In(n.Inputs[1]), c.Out(n.Outputs[0])
	checkIDs(c, n.Inputs[1], "token id", w.rows(), false)
	if y.elements() == 0 {
		return
	}
	kind, units := rowElement(w.width())
	for _, p := range w.Parts {
		rows, suffix, packed := p.Span, "", p.Span.kept() == buffers.BF16
		if packed {
			rows, suffix = rows.stored()[0], "_bf16"
		}
		k := c.kernel("embedding", suffix, shaders.Variant{
			Constants: map[string]string{"ELEMENT": kind}, Flags: map[string]bool{"BF16": packed, "SCALAR": kind == "f32"},
		})
		c.rowwise(append(c.rowOperands("ids", n.Inputs[1]), c.rowOperands("y", n.Outputs[0])...), func(share func(int) int, spans []Span) {
			count := share(ids.elements())
			c.Dispatch(k, c.Linear(count*units), embeddingParams{Count: uint32(count), Width: uint32(units), Row0: uint32(p.Row), Rows: uint32(p.Rows)},
				append([]Span{rows}, spans...)...)
		})
	}
}

// lowerTable reads the rows that the host finds for the ids when they are written: they are beside the input what is derived of it.
func lowerTable(c *Compiler, n *graph.Node, path string, t table) {
	ids, y := n.Inputs[1], c.Out(n.Outputs[0])
	checkIDs(c, ids, "token id", n.Inputs[0].Shape()[0], false)
	in := c.inputOf(ids)
	if in == nil || in.storage.kind == boundStorage {
		c.fail("param %q: found its rows by ids that the host does not write, wanted an input: the host keeps the table", path)
		return
	}
	if y.elements() == 0 {
		return
	}
	rows := Tensor{Shape: y.Shape, DType: t.rows}
	per := ids.Type().Elements() / y.rows()
	for _, p := range y.Parts {
		first, end := p.Row*per, (p.Row+p.Rows)*per
		size := typeBytes([]int{p.Rows, y.width()}, t.rows)
		st := c.derivation(in, fmt.Sprintf("%s.%d", path, first), size, func(dst []byte, src []int32) error { return t.gather(dst, src[first:end]) })
		st.bf16 = t.rows == buffers.BF16
		c.bf16 = c.bf16 || st.bf16
		rows.Parts = append(rows.Parts, Part{Row: p.Row, Rows: p.Rows, Span: Span{st: st, Bytes: roundUp(size, spanAlign)}})
	}
	c.emitRows(nil, y, run{length: y.rows()}, func(f *fused) *ir { return f.rowLoad(rows) })
}

func lowerEmbeddingGrad(c *Compiler, n *graph.Node) {
	dy, ids, dw := c.In(n.Inputs[0]), c.In(n.Inputs[1]), c.Out(n.Outputs[0])
	vocab := dw.rows()
	checkIDs(c, n.Inputs[1], "token id", vocab, false)
	if dw.elements() == 0 {
		return
	}
	if dy.elements() == 0 {
		for _, p := range dw.Parts {
			if !dw.Accumulate {
				c.zero(p.Span)
			}
		}
		return
	}
	order := c.derived(n.Inputs[1], fmt.Sprintf("runs.%d.order", vocab), []int{ids.elements()}, func(dst []byte, src []int32) error {
		order, _ := tokenRuns(src, vocab)
		putUints(dst, order)
		return nil
	})
	offsets := c.derived(n.Inputs[1], fmt.Sprintf("runs.%d.offsets", vocab), []int{vocab + 1}, func(dst []byte, src []int32) error {
		_, offsets := tokenRuns(src, vocab)
		putUints(dst, offsets)
		return nil
	})
	// A GPU adds to the rows that occur alone, where they are fewer than all. The list is there also where the rows are not added to, as plans do not tell.
	var occurring Tensor
	listed := !c.limits.Software && len(dy.Parts) == 1 && ids.elements() < vocab && c.limits.StorageBuffers >= 5
	if listed {
		occurring = c.derived(n.Inputs[1], fmt.Sprintf("runs.%d.rows", vocab), []int{ids.elements()}, func(dst []byte, src []int32) error {
			_, offsets := tokenRuns(src, vocab)
			putUints(dst, rowsThatOccur(offsets, len(src)))
			return nil
		})
	}
	listed = listed && dw.Accumulate
	kind, units := rowElement(dw.width())
	positions := ids.elements() / dy.rows() // of a row of dy
	terms := func(dw Tensor) {
		for i, from := range dy.Parts {
			k := c.kernel("embedding_grad", "", shaders.Variant{
				Constants: map[string]string{"ELEMENT": kind},
				Flags:     map[string]bool{"ACCUMULATE": dw.Accumulate, "PART": len(dy.Parts) > 1, "CONTINUE": i > 0, "OCCURRING": listed},
			})
			for _, p := range dw.Parts {
				rows, spans := p.Rows, []Span{from.Span, c.One(order, "order"), c.One(offsets, "offsets")}
				if listed {
					rows, spans = ids.elements(), append(spans, c.One(occurring, "rows"))
				}
				c.Dispatch(k, c.Linear(rows*units), embeddingGradParams{
					Width: uint32(units), Row0: uint32(p.Row), Rows: uint32(p.Rows), First: uint32(from.Row * positions), Count: uint32(from.Rows * positions),
				}, append(spans, p.Span)...)
			}
		}
	}
	if len(dy.Parts) > 1 {
		c.inTurns(dw, run{length: dw.rows()}, terms)
		return
	}
	terms(dw)
}

// tokenRuns sorts positions by id, stably: order[offsets[id]:offsets[id+1]] are the positions of id. Ids are within range.
func tokenRuns(ids []int32, vocab int) (order, offsets []uint32) {
	offsets = make([]uint32, vocab+1)
	for _, id := range ids {
		offsets[id+1]++
	}
	for i := range vocab {
		offsets[i+1] += offsets[i]
	}
	next := append([]uint32{}, offsets[:vocab]...)
	order = make([]uint32, len(ids))
	for i, id := range ids {
		order[next[id]] = uint32(i)
		next[id]++
	}
	return order, offsets
}

// rowsThatOccur lists the ids that have positions, and after them the number of ids, up to a length.
func rowsThatOccur(offsets []uint32, length int) []uint32 {
	vocab := len(offsets) - 1
	rows := make([]uint32, 0, length)
	for id := range vocab {
		if offsets[id] < offsets[id+1] {
			rows = append(rows, uint32(id))
		}
	}
	for len(rows) < length {
		rows = append(rows, uint32(vocab))
	}
	return rows
}

func putUints(dst []byte, values []uint32) {
	for i, v := range values {
		binary.LittleEndian.PutUint32(dst[4*i:], v)
	}
}

// checkIDs lets Program.WriteInts refuse ids (or labels, which may be IgnoreLabel) outside [0, limit).
func checkIDs(c *Compiler, ids *graph.Value, what string, limit int, ignorable bool) {
	c.check(ids, fmt.Sprintf("%s below %d", what, limit), func(src []int32) error {
		for i, id := range src {
			if (id < 0 || int(id) >= limit) && !(ignorable && id == graph.IgnoreLabel) {
				return fmt.Errorf("%s at position %d: %d, want 0 to %d", what, i, id, limit-1)
			}
		}
		return nil
	})
}
