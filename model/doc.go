// Package model defines networks: their parameters, how these begin, the graph
// that computes loss or logits from them, and their form on disk in the Hugging
// Face layout (config.json and model.safetensors).
//
//	def, err := model.NewGPT2(model.GPT2Config{Layers: 4, Heads: 4, Width: 128, Vocab: 256, Context: 128})
//	params := model.Init(def, 42)                                        // arrays in host memory
//	built, err := def.Build(8, 128, model.Options{Loss: true, Training: true})
//	grads, err := graph.Gradients(built.Graph, built.Loss, built.Params) // in the order of def.Params()
//
// Parameters are named as Hugging Face names them: "h.0.attn.c_attn.weight" (GPT-2,
// as on the hub, without "transformer."), "model.layers.0.self_attn.q_proj.weight"
// (Llama and its kind), "layers.0.weight" (MLP). GPT-2's projections are stored [in, out], all
// others [out, in].
//
// Invariants, each held by a test:
//
//  1. Params is sorted by path, and Build uses exactly these parameters.
//  2. A parameter's beginning is a pure function of (seed, path).
//  3. What an imported config.json asks for and this package cannot do is an error.
//  4. Importing what was exported as F32 gives the same bits.
package model
