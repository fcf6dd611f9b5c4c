package graph

import "gputrain/buffers"

// Checks of the product kernels, attention, the loss head and the embedding; see lower_gemm.go, lower_attention.go,
// lower_headloss.go, lower_embedding.go. The shapes reach every kernel that the table of variants has for the adapter.
func init() {
	input := func(g *Graph, name string, shape ...int) *Value { return g.Input(name, f32(shape...)) }
	ints := func(g *Graph, name string, shape ...int) *Value {
		return g.Input(name, Type{Shape: shape, DType: buffers.I32})
	}
	checks = append(checks,
		kernelCheck{name: "matmul", tolerance: 256, build: func(g *Graph) []*Value {
			a, b, bt := input(g, "a", 70, 68), input(g, "b", 68, 132), input(g, "bt", 132, 68)
			at, wide := input(g, "at", 70, 132), input(g, "wide", 3, 20, 24)
			return []*Value{
				g.MatMul(a, b, false, false), g.MatMul(a, bt, false, true), g.MatMul(a, at, true, false),
				g.MatMul(wide, input(g, "c", 3, 24, 36), false, false), g.MatMul(wide, wide, false, true),
			}
		}},
		kernelCheck{name: "matmul odd sizes", tolerance: 128, build: func(g *Graph) []*Value {
			a, b, bt := input(g, "a", 7, 13), input(g, "b", 13, 35), input(g, "bt", 35, 13)
			return []*Value{g.MatMul(a, b, false, false), g.MatMul(a, bt, false, true), g.MatMul(a, input(g, "c", 7, 5), true, false)}
		}},
		kernelCheck{name: "matmul one row", tolerance: 256, build: func(g *Graph) []*Value {
			x := input(g, "x", 1, 64)
			return []*Value{g.MatMul(x, input(g, "w", 64, 260), false, false), g.MatMul(x, input(g, "wt", 130, 64), false, true)}
		}},
		kernelCheck{name: "matmul slices", tolerance: 4096, build: func(g *Graph) []*Value {
			a, b := input(g, "a", 1030, 36), input(g, "b", 1030, 40)
			return []*Value{g.MatMul(a, b, true, false), g.MatMul(input(g, "odd", 3, 1030), b, false, false)}
		}},
		kernelCheck{name: "attention", tolerance: 256, build: func(g *Graph) []*Value {
			return checkedAttention(g, Attention{Heads: 4, KVHeads: 4, HeadDim: 8, Packed: true, Causal: true}, 2, 70)
		}},
		kernelCheck{name: "attention grouped", tolerance: 256, build: func(g *Graph) []*Value {
			return checkedAttention(g, Attention{Heads: 4, KVHeads: 2, HeadDim: 6}, 2, 9)
		}},
		kernelCheck{name: "attention with a cache", tolerance: 256, below: 1030, build: func(g *Graph) []*Value {
			one := func(name string, op Attention, batch, window int) []*Value { // a row a sequence, which may be anywhere
				q, kv, packed := op.widths()
				op.Causal = true
				in := []*Value{input(g, "q"+name, batch, 1, q), input(g, "k"+name, batch, 1, kv), input(g, "v"+name, batch, 1, kv)}
				if op.Packed {
					in = []*Value{input(g, "qkv"+name, batch, 1, packed)}
				}
				cache := input(g, "cache"+name, batch, window, 2*kv)
				return g.add(CachedAttention(op), append([]*Value{cache, ints(g, "positions"+name, batch, 1)}, in...)...).Outputs
			}
			parted := one("parted", Attention{Heads: 4, KVHeads: 2, HeadDim: 8}, 3, 1030)
			return append(parted, one("odd", Attention{Heads: 3, KVHeads: 3, HeadDim: 6, Packed: true}, 100, 1030)...)
		}},
		kernelCheck{name: "cross entropy", tolerance: 512, below: 65, build: func(g *Graph) []*Value {
			labels, dloss := ints(g, "labels", 70), input(g, "dloss")
			var out []*Value
			for _, columns := range []int{65, 260} {
				logits := input(g, map[int]string{65: "odd", 260: "even"}[columns], 70, columns)
				f := g.add(CrossEntropy{}, logits, labels)
				out = append(out, f.Outputs[0], f.Outputs[1], g.one(CrossEntropyGrad{}, logits, labels, f.Outputs[1], dloss))
			}
			return out
		}},
		kernelCheck{name: "loss head", tolerance: 1024, below: 65, build: func(g *Graph) []*Value {
			x, w, labels := input(g, "x", 70, 16), input(g, "w", 65, 16), ints(g, "labels", 70)
			f := g.add(HeadLoss{}, x, w, labels)
			d := g.add(HeadLossGrad{}, x, w, labels, f.Outputs[1], input(g, "dloss"))
			return []*Value{f.Outputs[0], f.Outputs[1], d.Outputs[0], d.Outputs[1]}
		}},
		kernelCheck{name: "embedding", tolerance: 64, below: 9, build: func(g *Graph) []*Value {
			ids := ints(g, "ids", 2, 35)
			return []*Value{
				g.Embedding(input(g, "w", 9, 12), ids), g.Embedding(input(g, "odd", 9, 5), ids),
				g.one(EmbeddingGrad{Vocab: 9}, input(g, "dy", 2, 35, 12), ids), g.one(EmbeddingGrad{Vocab: 9}, input(g, "dodd", 2, 35, 5), ids),
			}
		}},
	)
}

// checkedAttention is the outputs and the gradients of attention over inputs of its own.
func checkedAttention(g *Graph, op Attention, batch, t int) []*Value {
	q, kv, packed := op.widths()
	in := []*Value{g.Input("q", f32(batch, t, q)), g.Input("k", f32(batch, t, kv)), g.Input("v", f32(batch, t, kv))}
	if op.Packed {
		in = []*Value{g.Input("qkv", f32(batch, t, packed))}
	}
	n := g.add(op, in...)
	grad := g.add(AttentionGrad(op), append(in, n.Outputs[0], n.Outputs[1], g.Input("do", f32(batch, t, q)))...)
	return append([]*Value{n.Outputs[0], n.Outputs[1]}, grad.Outputs...)
}
