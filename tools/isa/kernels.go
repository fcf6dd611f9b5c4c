package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"gputrain/buffers"
	"gputrain/buffers/array"
	"gputrain/gpu"
	"gputrain/graph"
	"gputrain/graph/compile"
	"gputrain/model"
	"gputrain/optim"
	"gputrain/state"
)

// use is a training state whose kernels are looked at: one layer of a model of true width, as all layers have the same kernels.
type use struct {
	name   string // in the table
	model  func() (model.Definition, error)
	config state.Config
	base   buffers.DType // in which the matrices of layers are kept, and not trained; F32: they are trained
}

// models have the widths, heads and vocabularies of published ones: GPT-2 (but on bytes), Llama 3.2 1B and Phi-3 mini with Llama's 32,000 tokens,
// Llama 2 7B with grouped heads, Qwen3 0.6B, Gemma 3 1B, Gemma 2 2B with as many tokens as that, Gemma 4 E2B, Qwen3 30B-A3B and gpt-oss 20B with
// narrower experts, Phi-4-mini, and a layer without attention of Qwen3.5 0.8B.
var models = []use{
	{name: "gpt2-64", model: gpt2(model.GPT2Config{Heads: 12, Width: 768, Vocab: 256})},
	{name: "gpt2-dropout", model: gpt2(model.GPT2Config{Heads: 12, Width: 768, Vocab: 256, EmbeddingDropout: 0.1, ResidualDropout: 0.1})},
	{name: "llama-64", model: llama(model.LlamaConfig{Heads: 32, KVHeads: 8, Width: 2048, Vocab: 32000, Tied: true})},
	{name: "llama-96", model: llama(model.LlamaConfig{Heads: 32, Width: 3072, Vocab: 32000})},
	{name: "llama-128", model: llama(model.LlamaConfig{Heads: 32, KVHeads: 8, Width: 4096, Vocab: 32000})},
	{name: "qwen3-128", model: file(`"model_type": "qwen3", "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128, "hidden_size": 1024,
		"intermediate_size": 3072, "vocab_size": 151936, "tie_word_embeddings": true`)},
	{name: "gemma3-256", model: file(`"model_type": "gemma3_text", "num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 256, "hidden_size": 1152,
		"intermediate_size": 6912, "vocab_size": 262144, "sliding_window": 512`)},
	{name: "gemma2-256", model: file(`"model_type": "gemma2", "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256, "hidden_size": 2304,
		"intermediate_size": 9216, "vocab_size": 262144, "sliding_window": 512`)},
	{name: "gemma4-512", model: file(`"model_type": "gemma4_text", "num_attention_heads": 8, "num_key_value_heads": 1, "head_dim": 256, "global_head_dim": 512, "hidden_size": 1536,
		"intermediate_size": 6144, "vocab_size": 262144`)},
	{name: "qwen3-moe", model: file(`"model_type": "qwen3_moe", "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128, "hidden_size": 2048,
		"intermediate_size": 6144, "moe_intermediate_size": 64, "num_experts": 128, "num_experts_per_tok": 4, "vocab_size": 151936,
		"output_router_logits": true`)},
	{name: "gpt-oss", model: file(`"model_type": "gpt_oss", "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 64, "hidden_size": 2880,
		"intermediate_size": 96, "num_local_experts": 32, "num_experts_per_tok": 2, "vocab_size": 32000`)},
	{name: "phi4-128", model: file(`"model_type": "phi3", "num_attention_heads": 24, "num_key_value_heads": 8, "hidden_size": 3072, "intermediate_size": 8192,
		"vocab_size": 200064, "partial_rotary_factor": 0.75, "tie_word_embeddings": true`)},
	{name: "qwen3.5-delta", model: file(`"model_type": "qwen3_5_text", "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 256, "hidden_size": 1024,
		"intermediate_size": 3584, "vocab_size": 248320, "linear_num_value_heads": 16, "tie_word_embeddings": true`)},
}

// file is a model as a config.json has it.
func file(keys string) func() (model.Definition, error) {
	return func() (model.Definition, error) {
		return model.ParseConfig(fmt.Appendf(nil, `{%s, "num_hidden_layers": 1, "max_position_embeddings": %d}`, keys, longest))
	}
}

func gpt2(c model.GPT2Config) func() (model.Definition, error) {
	c.Layers, c.Context = 1, longest
	return func() (model.Definition, error) { return model.NewGPT2(c) }
}

func llama(c model.LlamaConfig) func() (model.Definition, error) {
	c.Layers, c.Context = 1, longest
	return func() (model.Definition, error) { return model.NewLlama(c) }
}

const longest = 1024 // tokens a sequence

// uses are every model with AdamW, with one and with several batches an update, with evaluation and sampling, those of
// wide heads also on packed documents, four with activations in bf16, two on each base that is not f32, experts in nf4, one as GGUF files hold it. For what the
// update itself takes, the smallest model and one with a large vocabulary have every optimizer, those with blocks also
// blocks of 256, and those that can keep it in eight bits such a state.
func uses(units bool) []use {
	if units {
		return unitUses()
	}
	var all []use
	for _, m := range models {
		for _, accumulate := range []int{1, 2} {
			m.config = state.Config{Optimizer: optimizer("adamw", "{}"), Batch: 2, Microbatches: accumulate, Evaluation: 2, Sampling: true}
			all = append(all, m)
		}
	}
	for _, m := range models[5:] {
		m.name += "-documents"
		m.config = state.Config{Optimizer: optimizer("adamw", "{}"), Batch: 2, Evaluation: 2, Documents: true}
		all = append(all, m)
	}
	for _, m := range []use{models[0], models[2], models[5], models[6]} {
		m.name += "-bf16"
		m.config = state.Config{Optimizer: optimizer("adamw", "{}"), Batch: 2, Microbatches: 2, Storage: buffers.BF16}
		all = append(all, m)
	}
	for _, base := range array.Bases[1:] {
		for _, m := range []use{models[0], models[2]} {
			m.name, m.base = fmt.Sprint(m.name, "-", base), base
			m.config = state.Config{Optimizer: optimizer("adamw", "{}"), Batch: 2, Sampling: true}
			all = append(all, m)
		}
	}
	all = append(all, withExperts(state.Config{Optimizer: optimizer("adamw", "{}"), Batch: 2})[1:]...)
	for _, mode := range []string{"q8_0", "q4_0", "f16"} { // GPT-2's along columns, but for the embedding
		m := models[0]
		m.name += "-" + mode
		m.model = func() (model.Definition, error) {
			def, err := models[0].model()
			if err != nil {
				return nil, err
			}
			return model.WithQuantization(def, model.Quantization{Mode: mode})
		}
		m.config = state.Config{Optimizer: optimizer("adamw", "{}"), Batch: 2}
		all = append(all, m)
	}
	for _, m := range []use{models[0], models[5]} {
		add := func(name string, o optim.Config) {
			m.name, m.config = name, state.Config{Optimizer: o, Batch: 1, Sequence: 32}
			all = append(all, m)
		}
		for _, name := range optim.Names() {
			add(name, optimizer(name, "{}"))
		}
		for _, name := range []string{"adamw", "lion", "mars"} {
			add(name+"-8bit", optimizer(name, `{"state_dtype":"8bit"}`))
		}
		add("muon-even", optimizer("muon", `{"normuon_b2":0.95}`))
		add("quad-256", optimizer("quad", `{"block_size":256}`))
		add("skew-256", optimizer("skew", `{"block_size":256}`))
	}
	return all
}

// withExperts are the first model with experts, trained whole and on a base in nf4.
func withExperts(config state.Config) (all []use) {
	m := models[slices.IndexFunc(models, func(m use) bool { return m.name == "qwen3-moe" })]
	m.config = config
	all = append(all, m)
	m.name, m.base = m.name+"-nf4", buffers.NF4
	return append(all, m)
}

// unitUses are three models with products of f16, also with activations in bf16, and on bases in bf16 and nf4, and one with experts.
func unitUses() (all []use) {
	config := state.Config{Optimizer: optimizer("adamw", "{}"), Batch: 2, Microbatches: 2, Evaluation: 2, RoundProducts: true}
	for _, m := range []use{models[0], models[2], models[5]} {
		m.config = config
		all = append(all, m)
	}
	for _, m := range []use{models[0], models[2]} {
		m.config = config
		m.config.Storage = buffers.BF16
		m.name += "-bf16"
		all = append(all, m)
	}
	for _, base := range []buffers.DType{buffers.BF16, buffers.NF4} {
		m := models[2]
		m.name, m.base, m.config = fmt.Sprint(m.name, "-", base), base, config
		all = append(all, m)
	}
	return append(all, withExperts(config)...)
}

func optimizer(name, parameters string) optim.Config {
	clip := 1.0
	return optim.Config{Name: name, Parameters: json.RawMessage(parameters), Options: optim.Options{
		Schedule: optim.ScheduleConfig{Type: "constant", LearningRate: 0.001}, ClipGrad: &clip, WeightDecay: 0.1,
	}}
}

// found is a kernel and the first use of it.
type found struct {
	*gpu.Kernel
	Use string
}

// kernelsOf are those of all uses on that adapter, each once, by label. They come from training states as `gputrain train` makes them, with evaluation and
// sampling, on a device without memory.
func kernelsOf(ctx context.Context, a gpu.Adapter, all []use) ([]found, error) {
	var out []found
	seen := map[string]bool{}
	for _, u := range all {
		kernels, err := u.kernels(ctx, a)
		if err != nil {
			return nil, fmt.Errorf("isa: kernels of %s: %w", u.name, err)
		}
		for _, k := range kernels {
			if !seen[k.Source] {
				seen[k.Source] = true
				out = append(out, found{k, u.name})
			}
		}
	}
	slices.SortStableFunc(out, func(a, b found) int { return cmp.Compare(a.Label, b.Label) })
	return out, nil
}

func (u use) kernels(ctx context.Context, a gpu.Adapter) ([]*gpu.Kernel, error) {
	def, err := u.model()
	if err != nil {
		return nil, err
	}
	dev := gpu.DryOf(a, a.Limits)
	u.config.Definition = def
	if u.base != buffers.F32 {
		u.config.FrozenDType = u.base
		for _, s := range model.Specs(def) {
			if s.MatrixOfLayer() || s.MatricesOfLayer() {
				u.config.Frozen = append(u.config.Frozen, s.Path)
			}
		}
	}
	job, err := state.NewJob(u.config)
	if err != nil {
		return nil, err
	}
	own, rest := job.Divide()
	f := state.Fields{Definition: def}
	layout, err := job.Layout(own, dev.Limits())
	if err != nil {
		return nil, err
	}
	if f.Params, err = buffers.NewTree(dev, "params", layout, buffers.F32); err != nil {
		return nil, err
	}
	if len(rest) > 0 {
		if layout, err = buffers.NewLayoutFor(u.base, rest, dev.Limits()); err != nil {
			return nil, err
		}
		if f.Frozen, err = buffers.NewTree(dev, "params", layout, u.base); err != nil {
			return nil, err
		}
	}
	v, err := state.New(f)
	if err != nil {
		return nil, err
	}
	s, err := state.Train(ctx, v, u.config)
	if err != nil {
		return nil, err
	}
	defer s.Release()
	if u.config.Sampling && u.base == buffers.F32 {
		for i, rows := range []int{64, 2, 2} { // drawn at once, on the device; the keys of two are parted, and then in bf16
			paging := model.Paging{Rows: rows, Blocks: 2 * rows, Size: 16}
			if i == 2 {
				paging.Storage = buffers.BF16
			}
			built, err := def.Build(1, rows, model.Options{Logits: true, Window: longest, Paging: paging})
			if err != nil {
				return nil, err
			}
			in := []*graph.Value{built.Logits, built.Graph.Input("uniforms", graph.F32(rows)), built.Graph.Input("temperatures", graph.F32(rows))}
			targets := []compile.Target{{Name: "drawn", Value: built.Graph.Append(graph.Sample{}, in...).Outputs[0]}}
			p, err := compile.New(ctx, dev, built.Graph, compile.Options{Params: f.Params, Beside: []*buffers.Tree{f.Frozen}, Targets: targets})
			if err != nil {
				return nil, err
			}
			defer p.Release()
			rec := dev.Record("paged")
			p.Record(rec)
			if _, err := rec.Program(ctx); err != nil {
				return nil, err
			}
		}
	}
	return dev.Kernels(), nil
}
