package compile

import (
	"gputrain/buffers"
	"gputrain/graph"
)

// Checks of the product kernels, attention, the loss head and the embedding; see gemm.go, attention.go,
// headloss.go, embedding.go. The shapes reach every kernel that the table of variants has for the adapter.
func init() {
	input := func(g *graph.Graph, name string, shape ...int) *graph.Value {
		return g.Input(name, graph.F32(shape...))
	}
	ints := func(g *graph.Graph, name string, shape ...int) *graph.Value {
		return g.Input(name, graph.Type{Shape: shape, DType: buffers.I32})
	}
	checks = append(checks,
		kernelCheck{name: "matmul", tolerance: 256, build: func(g *graph.Graph) []*graph.Value {
			a, b, bt := input(g, "a", 70, 68), input(g, "b", 68, 132), input(g, "bt", 132, 68)
			at, wide := input(g, "at", 70, 132), input(g, "wide", 3, 20, 24)
			return []*graph.Value{
				g.MatMul(a, b, false, false), g.MatMul(a, bt, false, true), g.MatMul(a, at, true, false),
				g.MatMul(wide, input(g, "c", 3, 24, 36), false, false), g.MatMul(wide, wide, false, true),
			}
		}},
		kernelCheck{name: "matmul odd sizes", tolerance: 128, build: func(g *graph.Graph) []*graph.Value {
			a, b, bt := input(g, "a", 7, 13), input(g, "b", 13, 35), input(g, "bt", 35, 13)
			return []*graph.Value{g.MatMul(a, b, false, false), g.MatMul(a, bt, false, true), g.MatMul(a, input(g, "c", 7, 5), true, false)}
		}},
		kernelCheck{name: "matmul one row", tolerance: 256, build: func(g *graph.Graph) []*graph.Value {
			x := input(g, "x", 1, 64)
			return []*graph.Value{g.MatMul(x, input(g, "w", 64, 260), false, false), g.MatMul(x, input(g, "wt", 130, 64), false, true)}
		}},
		kernelCheck{name: "matmul slices", tolerance: 4096, build: func(g *graph.Graph) []*graph.Value {
			a, b := input(g, "a", 1030, 36), input(g, "b", 1030, 40)
			return []*graph.Value{g.MatMul(a, b, true, false), g.MatMul(input(g, "odd", 3, 1030), b, false, false)}
		}},
		kernelCheck{name: "attention", tolerance: 256, build: func(g *graph.Graph) []*graph.Value {
			return checkedAttention(g, graph.Attention{Heads: 4, KVHeads: 4, HeadDim: 8, Packed: true, Causal: true}, 2, 70)
		}},
		kernelCheck{name: "attention grouped", tolerance: 256, build: func(g *graph.Graph) []*graph.Value {
			return checkedAttention(g, graph.Attention{Heads: 4, KVHeads: 2, HeadDim: 6}, 2, 9)
		}},
		kernelCheck{name: "attention with a cache", tolerance: 256, below: 1030, build: func(g *graph.Graph) []*graph.Value {
			one := func(name string, op graph.Attention, batch, window int) []*graph.Value { // a row a sequence, which may be anywhere
				q, kv, packed := op.Widths()
				op.Causal = true
				in := []*graph.Value{input(g, "q"+name, batch, 1, q), input(g, "k"+name, batch, 1, kv), input(g, "v"+name, batch, 1, kv)}
				if op.Packed {
					in = []*graph.Value{input(g, "qkv"+name, batch, 1, packed)}
				}
				cache := input(g, "cache"+name, batch, window, 2*kv)
				return g.Append(graph.CachedAttention(op), append([]*graph.Value{cache, ints(g, "positions"+name, batch, 1)}, in...)...).Outputs
			}
			parted := one("parted", graph.Attention{Heads: 4, KVHeads: 2, HeadDim: 8}, 3, 1030)
			return append(parted, one("odd", graph.Attention{Heads: 3, KVHeads: 3, HeadDim: 6, Packed: true}, 100, 1030)...)
		}},
		kernelCheck{name: "cross entropy", tolerance: 512, below: 65, build: func(g *graph.Graph) []*graph.Value {
			labels, dloss := ints(g, "labels", 70), input(g, "dloss")
			var out []*graph.Value
			for _, columns := range []int{65, 260} {
				logits := input(g, map[int]string{65: "odd", 260: "even"}[columns], 70, columns)
				f := g.Append(graph.CrossEntropy{}, logits, labels)
				out = append(out, f.Outputs[0], f.Outputs[1], g.Append(graph.CrossEntropyGrad{}, logits, labels, f.Outputs[1], dloss).Outputs[0])
			}
			return out
		}},
		kernelCheck{name: "loss head", tolerance: 1024, below: 65, build: func(g *graph.Graph) []*graph.Value {
			x, w, labels := input(g, "x", 70, 16), input(g, "w", 65, 16), ints(g, "labels", 70)
			f := g.Append(graph.HeadLoss{}, x, w, labels)
			d := g.Append(graph.HeadLossGrad{}, x, w, labels, f.Outputs[1], input(g, "dloss"))
			return []*graph.Value{f.Outputs[0], f.Outputs[1], d.Outputs[0], d.Outputs[1]}
		}},
		kernelCheck{name: "embedding", tolerance: 64, below: 9, build: func(g *graph.Graph) []*graph.Value {
			ids := ints(g, "ids", 2, 35)
			return []*graph.Value{
				g.Embedding(input(g, "w", 9, 12), ids), g.Embedding(input(g, "odd", 9, 5), ids),
				g.Append(graph.EmbeddingGrad{Vocab: 9}, input(g, "dy", 2, 35, 12), ids).Outputs[0], g.Append(graph.EmbeddingGrad{Vocab: 9}, input(g, "dodd", 2, 35, 5), ids).Outputs[0],
			}
		}},
	)
}

// checkedAttention is the outputs and the gradients of attention over inputs of its own.
func checkedAttention(g *graph.Graph, op graph.Attention, batch, t int) []*graph.Value {
	q, kv, packed := op.Widths()
	in := []*graph.Value{g.Input("q", graph.F32(batch, t, q)), g.Input("k", graph.F32(batch, t, kv)), g.Input("v", graph.F32(batch, t, kv))}
	if op.Packed {
		in = []*graph.Value{g.Input("qkv", graph.F32(batch, t, packed))}
	}
	n := g.Append(op, in...)
	grad := g.Append(graph.AttentionGrad(op), append(in, n.Outputs[0], n.Outputs[1], g.Input("do", graph.F32(batch, t, q)))...)
	return append([]*graph.Value{n.Outputs[0], n.Outputs[1]}, grad.Outputs...)
}
