// Package bench measures what an adapter does: copies, products, optimizers, Kronecker factors, training steps beside PyTorch's, pipelines and
// texels. Ratios are of figures of the same run.
package bench
