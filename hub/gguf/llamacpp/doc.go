// Package llamacpp knows what llama.cpp calls the parts of a Hugging Face directory, and what it computes otherwise: rows of queries and keys in
// another order, gains that have their 1 added, factors of rotations as a tensor. Convert turns a model into the keys and tensors of a GGUF file.
//
// It works on the text of config.json, on tensors by their names there, and on the tokenizer's files. It knows nothing of devices and graphs. What
// llama.cpp would compute otherwise is an error: a file that loads and gives other numbers is worse than none.
package llamacpp
