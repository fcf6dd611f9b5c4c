// Package array says what an array is, wherever it lies: its name and shape, the type of its elements, how bf16 is rounded. It knows no device:
// what describes a model needs no more.
package array

// Spec names an array and gives its shape: row-major, any rank, zero dimensions allowed.
type Spec struct {
	Path  string // like "h.0.attn.c_attn.weight"
	Shape []int
}

// Host is an array in the memory of the host, row-major.
type Host struct {
	Path  string
	Shape []int
	Data  []float32
}
