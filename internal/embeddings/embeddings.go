package embeddings

import (
	"slices"
	"strings"
)

// embeddings are the modules of embeddings and output heads.
var embeddings []string

// Register says that matrices at paths such as these, "model.embed_tokens.weight", are looked up by token or by position, or give the
// logits. Their rows see few tokens each, which optimizers of matrices leave to others. The module, here embed_tokens, is what counts,
// wherever it lies in a path. It is called by init functions, by package model for its families.
func Register(paths ...string) {
	for _, path := range paths {
		if parts := strings.Split(path, "."); len(parts) > 1 {
			embeddings = append(embeddings, parts[len(parts)-2])
		}
	}
}

// Has tells whether a path lies in a module that Register was told of.
func Has(path string) bool {
	parts := strings.Split(path, ".")
	return slices.ContainsFunc(parts[:len(parts)-1], func(module string) bool { return slices.Contains(embeddings, module) })
}
