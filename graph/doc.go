// Package graph holds the operation graph of a model: typed nodes with their shapes checked as they are added, reverse-mode
// differentiation, a reference evaluation in float64, counts and a text form. Package compile makes programs of it.
//
// A model is written with the builders of Graph. They never return an error: the first is kept in Graph.Err, and what follows it
// does nothing. Gradients adds the nodes of the backward pass to the same graph, so that forward and backward are compiled,
// counted and evaluated alike. Recompute has the backward pass read copies of what the forward pass has made, to save memory.
//
//	g := graph.New()
//	x := g.Input("x", graph.F32(8, 784))
//	h := g.Apply("relu", g.Add(g.MatMul(x, g.Param("fc1.weight", 784, 64), false, false), g.Param("fc1.bias", 64)))
//	labels := g.Input("labels", graph.Type{Shape: []int{8}, DType: array.I32})
//	loss := g.Scale(g.HeadLoss(h, g.Param("fc2.weight", 10, 64), labels), 1.0/8)
//	grads, err := graph.Gradients(g, loss, []*graph.Value{g.Param("fc1.weight", 784, 64)})
//
// An operation is a value with its methods (Op), made known by Register in its file. What a cut or a gradient has to know of it besides, it says
// by a method: Remade, Broadcasting.
//
// What always holds:
//
//  1. Node IDs count from 0, and inputs have smaller IDs than the nodes that read them: IDs are an order of evaluation.
//  2. A name of an input, and a path of a parameter, is one node. Weights used twice are tied, and their gradients added.
//  3. Gradients adds only nodes that the gradients asked for need; it makes no zeros, and no gradient of inputs, ids and labels.
//  4. Op.Eval is the definition of an operation, against which its kernels and its gradient are tested.
//  5. A loss is a sum over labels. Multiplied by an input with one over the number of labels of the whole step, it accumulates over
//     batches with every token counting the same.
package graph
