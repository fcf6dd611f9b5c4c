package embeddings

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// A registered module counts wherever it lies in a path, and only as a whole.
func TestEmbeddings(t *testing.T) {
	assert.False(t, Has("model.tok.weight"))
	Register("model.tok.weight", "head.weight", "bare", "")
	for path, want := range map[string]bool{
		"model.tok.weight": true, "tok.weight": true, "head.bias": true, "a.head.b.c": true,
		"mytok.weight": false, "model.weight": false, "bare": false, "tok": false, "": false, "weight": false,
	} {
		assert.Equal(t, want, Has(path), path)
	}
}
