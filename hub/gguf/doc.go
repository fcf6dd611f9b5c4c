// Package gguf reads and writes GGUF, the file format of llama.cpp: keys with values, and tensors of plain or quantized types.
//
// A file is little-endian and of version 3: the magic, the numbers of tensors and of keys, the keys, what each tensor is, and the tensors' bytes, each
// aligned. Version 2 has the same layout and is read too. Files come from strangers: nothing is allocated beyond the length of a file, and
// every offset is checked before it is used.
//
// A quantized type stores a row in blocks. Decode and Encode turn whole blocks into float32 and back with the bits of ggml.
//
// The package knows nothing of models: see gputrain/gguf/llamacpp for the names that llama.cpp gives to their parts.
package gguf
