// Package safetensors reads and writes the safetensors file format: eight bytes with the little-endian length N of a
// JSON header, the header, then the tensors' bytes, row-major and little-endian.
//
// The reader is strict, because files come from strangers: nothing is allocated on the word of the header alone, the
// tensors must cover the data without gap or overlap, and every length must be shape times element size. A file that passes Open can be
// read without further checks of its structure. Errors name the file, the tensor, what was found and what is wanted.
//
// The writer is deterministic: tensors in name order, header padded to eight bytes, the same bytes for the same input.
// Tensors are streamed, so neither side needs a whole file in memory.
package safetensors
