package graph

// Array is the value of a node in the reference evaluation.
type Array struct {
	Shape []int
	Data  []float64
}

// Env holds what nodes read in the reference evaluation.
type Env struct{ Feeds map[string]*Array }

func (Input) Gradient(g *Graph, n *Node, dy []*Value) []*Value            { return g.noGradient(n) }
func (Input) Eval(n *Node, in []*Array, e *Env) []*Array                  { return nil }
func (Param) Gradient(g *Graph, n *Node, dy []*Value) []*Value            { return g.noGradient(n) }
func (Param) Eval(n *Node, in []*Array, e *Env) []*Array                  { return nil }
func (Constant) Gradient(g *Graph, n *Node, dy []*Value) []*Value         { return g.noGradient(n) }
func (Constant) Eval(n *Node, in []*Array, e *Env) []*Array               { return nil }
func (MatMul) Gradient(g *Graph, n *Node, dy []*Value) []*Value           { return g.noGradient(n) }
func (MatMul) Eval(n *Node, in []*Array, e *Env) []*Array                 { return nil }
func (Elementwise) Gradient(g *Graph, n *Node, dy []*Value) []*Value      { return g.noGradient(n) }
func (Elementwise) Eval(n *Node, in []*Array, e *Env) []*Array            { return nil }
func (Reduce) Gradient(g *Graph, n *Node, dy []*Value) []*Value           { return g.noGradient(n) }
func (Reduce) Eval(n *Node, in []*Array, e *Env) []*Array                 { return nil }
func (BroadcastTo) Gradient(g *Graph, n *Node, dy []*Value) []*Value      { return g.noGradient(n) }
func (BroadcastTo) Eval(n *Node, in []*Array, e *Env) []*Array            { return nil }
func (Reshape) Gradient(g *Graph, n *Node, dy []*Value) []*Value          { return g.noGradient(n) }
func (Reshape) Eval(n *Node, in []*Array, e *Env) []*Array                { return nil }
func (Transpose) Gradient(g *Graph, n *Node, dy []*Value) []*Value        { return g.noGradient(n) }
func (Transpose) Eval(n *Node, in []*Array, e *Env) []*Array              { return nil }
func (Slice) Gradient(g *Graph, n *Node, dy []*Value) []*Value            { return g.noGradient(n) }
func (Slice) Eval(n *Node, in []*Array, e *Env) []*Array                  { return nil }
func (Pad) Gradient(g *Graph, n *Node, dy []*Value) []*Value              { return g.noGradient(n) }
func (Pad) Eval(n *Node, in []*Array, e *Env) []*Array                    { return nil }
func (Concat) Gradient(g *Graph, n *Node, dy []*Value) []*Value           { return g.noGradient(n) }
func (Concat) Eval(n *Node, in []*Array, e *Env) []*Array                 { return nil }
func (Softmax) Gradient(g *Graph, n *Node, dy []*Value) []*Value          { return g.noGradient(n) }
func (Softmax) Eval(n *Node, in []*Array, e *Env) []*Array                { return nil }
func (SoftmaxGrad) Gradient(g *Graph, n *Node, dy []*Value) []*Value      { return g.noGradient(n) }
func (SoftmaxGrad) Eval(n *Node, in []*Array, e *Env) []*Array            { return nil }
func (LayerNorm) Gradient(g *Graph, n *Node, dy []*Value) []*Value        { return g.noGradient(n) }
func (LayerNorm) Eval(n *Node, in []*Array, e *Env) []*Array              { return nil }
func (LayerNormGrad) Gradient(g *Graph, n *Node, dy []*Value) []*Value    { return g.noGradient(n) }
func (LayerNormGrad) Eval(n *Node, in []*Array, e *Env) []*Array          { return nil }
func (RMSNorm) Gradient(g *Graph, n *Node, dy []*Value) []*Value          { return g.noGradient(n) }
func (RMSNorm) Eval(n *Node, in []*Array, e *Env) []*Array                { return nil }
func (RMSNormGrad) Gradient(g *Graph, n *Node, dy []*Value) []*Value      { return g.noGradient(n) }
func (RMSNormGrad) Eval(n *Node, in []*Array, e *Env) []*Array            { return nil }
func (NormGammaGrad) Gradient(g *Graph, n *Node, dy []*Value) []*Value    { return g.noGradient(n) }
func (NormGammaGrad) Eval(n *Node, in []*Array, e *Env) []*Array          { return nil }
func (Attention) Gradient(g *Graph, n *Node, dy []*Value) []*Value        { return g.noGradient(n) }
func (Attention) Eval(n *Node, in []*Array, e *Env) []*Array              { return nil }
func (AttentionGrad) Gradient(g *Graph, n *Node, dy []*Value) []*Value    { return g.noGradient(n) }
func (AttentionGrad) Eval(n *Node, in []*Array, e *Env) []*Array          { return nil }
func (Rope) Gradient(g *Graph, n *Node, dy []*Value) []*Value             { return g.noGradient(n) }
func (Rope) Eval(n *Node, in []*Array, e *Env) []*Array                   { return nil }
func (Embedding) Gradient(g *Graph, n *Node, dy []*Value) []*Value        { return g.noGradient(n) }
func (Embedding) Eval(n *Node, in []*Array, e *Env) []*Array              { return nil }
func (EmbeddingGrad) Gradient(g *Graph, n *Node, dy []*Value) []*Value    { return g.noGradient(n) }
func (EmbeddingGrad) Eval(n *Node, in []*Array, e *Env) []*Array          { return nil }
func (CrossEntropy) Gradient(g *Graph, n *Node, dy []*Value) []*Value     { return g.noGradient(n) }
func (CrossEntropy) Eval(n *Node, in []*Array, e *Env) []*Array           { return nil }
func (CrossEntropyGrad) Gradient(g *Graph, n *Node, dy []*Value) []*Value { return g.noGradient(n) }
func (CrossEntropyGrad) Eval(n *Node, in []*Array, e *Env) []*Array       { return nil }
func (HeadLoss) Gradient(g *Graph, n *Node, dy []*Value) []*Value         { return g.noGradient(n) }
func (HeadLoss) Eval(n *Node, in []*Array, e *Env) []*Array               { return nil }
func (HeadLossGrad) Gradient(g *Graph, n *Node, dy []*Value) []*Value     { return g.noGradient(n) }
func (HeadLossGrad) Eval(n *Node, in []*Array, e *Env) []*Array           { return nil }
func (Dropout) Gradient(g *Graph, n *Node, dy []*Value) []*Value          { return g.noGradient(n) }
func (Dropout) Eval(n *Node, in []*Array, e *Env) []*Array                { return nil }
func (Input) FLOPs(n *Node) int64                                         { return 0 }
func (Param) FLOPs(n *Node) int64                                         { return 0 }
func (Constant) FLOPs(n *Node) int64                                      { return 0 }
