package tests

import (
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers/array"
	"gputrain/buffers/safetensors"
	"gputrain/gpu"
	"gputrain/model"
)

// trueShapes are the shapes of published models, but for what changes no number of bytes, and how each is trained: where its config.json, or the facts in
// it, can be read stands beside it.
var trueShapes = []struct{ name, config, how string }{
	{ // https://huggingface.co/Qwen/Qwen3.5-0.8B, its text part
		"qwen3.5-0.8b", `"model_type": "qwen3_5_text", "hidden_size": 1024, "intermediate_size": 3584, "num_hidden_layers": 24, "num_attention_heads": 8,
		"num_key_value_heads": 2, "head_dim": 256, "linear_num_key_heads": 16, "linear_num_value_heads": 16, "linear_key_head_dim": 128,
		"linear_value_head_dim": 128, "linear_conv_kernel_dim": 4, "full_attention_interval": 4, "vocab_size": 248320, "tie_word_embeddings": true,
		"max_position_embeddings": 262144`, "adapters",
	},
	{ // https://huggingface.co/Thorge-AI/lfm2-web-runtime-weights/blob/main/Models/350M/config.json
		"lfm2-350m", `"model_type": "lfm2", "hidden_size": 1024, "block_ff_dim": 6656, "block_auto_adjust_ff_dim": true, "block_ffn_dim_multiplier": 1.0,
		"block_multiple_of": 256, "num_hidden_layers": 16, "num_attention_heads": 16, "num_key_value_heads": 8, "conv_L_cache": 3, "norm_eps": 1e-5,
		"full_attn_idxs": [2, 5, 8, 10, 12, 14], "vocab_size": 65536, "rope_theta": 1000000.0, "max_position_embeddings": 128000`, "whole",
	},
	{ // https://ollama.com/ibm/granite4:350m-base-q5_K_S/blobs/ea9e45ed103f
		"granite-4.0-350m", `"model_type": "granitemoehybrid", "hidden_size": 1024, "shared_intermediate_size": 2048, "num_hidden_layers": 28,
		"num_attention_heads": 16, "num_key_value_heads": 4, "attention_multiplier": 0.015625, "embedding_multiplier": 12, "logits_scaling": 4,
		"residual_multiplier": 0.263, "num_local_experts": 0, "position_embedding_type": "rope", "rope_theta": 10000000, "rms_norm_eps": 1e-5,
		"layer_types": [` + strings.Repeat(`"attention", `, 27) + `"attention"], "vocab_size": 100352, "tie_word_embeddings": true, "max_position_embeddings": 32768`, "whole",
	},
	{ // https://github.com/google/gemma.cpp/pull/919
		"gemma-4-e2b", `"model_type": "gemma4_text", "hidden_size": 1536, "intermediate_size": 6144, "num_hidden_layers": 35, "num_attention_heads": 8,
		"num_key_value_heads": 1, "head_dim": 256, "global_head_dim": 512, "hidden_size_per_layer_input": 256, "vocab_size": 262144,
		"vocab_size_per_layer_input": 262144, "num_kv_shared_layers": 20, "use_double_wide_mlp": true, "sliding_window": 512, "final_logit_softcapping": 30.0,
		"layer_types": [` + strings.Repeat(`"sliding_attention", "sliding_attention", "sliding_attention", "sliding_attention", "full_attention", `, 6) +
			`"sliding_attention", "sliding_attention", "sliding_attention", "sliding_attention", "full_attention"], "max_position_embeddings": 131072`, "adapters on nf4",
	},
	{ // the widths of https://huggingface.co/ibm-granite/granite-3.0-1b-a400m-base, in the layers of Qwen3's mixtures
		"mixture-1b", `"model_type": "qwen3_moe", "hidden_size": 1024, "intermediate_size": 512, "moe_intermediate_size": 512, "num_experts": 32,
		"num_experts_per_tok": 8, "norm_topk_prob": true, "num_hidden_layers": 24, "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 64,
		"vocab_size": 49155, "tie_word_embeddings": true, "max_position_embeddings": 4096`, "adapters",
	},
}

// A model of a published shape, with weights that are drawn, makes a step of training on 16 tokens and draws 16, in the memory that was planned for it.
// TRUE_SHAPES has the names of those that are run, or "all".
func TestTrueShapes(t *testing.T) {
	wanted := strings.Fields(os.Getenv("TRUE_SHAPES"))
	if len(wanted) == 0 {
		t.Skip("skipped, needs TRUE_SHAPES: `make true-shapes` takes some minutes and 12 GiB of disk")
	}
	for _, shape := range trueShapes {
		if !slices.Contains(wanted, shape.name) && wanted[0] != "all" {
			continue
		}
		t.Run(shape.name, func(t *testing.T) {
			p := newPlace(t)
			def := writeTrueShape(t, p.path("model"), shape.config)
			sets := map[string][]string{"whole": nil, "adapters": {"lora.rank=16", "model.base=bf16"}, "adapters on nf4": {"lora.rank=16", "model.base=nf4"}}[shape.how]
			if sets != nil {
				sets = append(sets, "lora.target=all-linear")
			}
			p.write(t, "run.yaml", `
model: {from: model, context: 16}
data:  {text: text.txt, tokens: bytes}
train: {steps: 1, batch: 1, eval_every: 0, sample_every: 0, sample_tokens: 16, save_every: 0}
`)
			args := []string{}
			for _, set := range sets {
				args = append(args, "--set", set)
			}
			ended := ok(t, p.train("run", args...))
			t.Logf("%d parameters, %s; %s", model.Parameters(def), shape.how, lastLine(ended.err))
			for _, row := range memoryRows.FindAllStringSubmatch(read(t, p.path("run", "report.md")), -1) {
				planned, most := sizeOf(t, row[2], row[3]), sizeOf(t, row[4], row[5])
				t.Logf("%s: planned %s, taken %s at most", row[1], gpu.SizeText(planned), gpu.SizeText(most))
				assert.InEpsilon(t, planned, most, 0.1)
			}
		})
	}
}

var memoryRows = regexp.MustCompile(`(?m)^\| ([^|]*) \| ([0-9.]+) ([MG])iB \| [^|]* \| ([0-9.]+) ([MG])iB \|$`)

func sizeOf(t *testing.T, amount, unit string) uint64 {
	return uint64(number(t, amount) * map[string]float64{"M": 1 << 20, "G": 1 << 30}[unit])
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

// writeTrueShape writes a model in bf16. The weights of a matrix are those of a block of 2^20 normal numbers over and over, beginning at another one.
func writeTrueShape(t *testing.T, dir, config string) model.Definition {
	t.Helper()
	config = `{"dtype": "bfloat16", ` + config + "}"
	def, err := model.ParseConfig([]byte(config))
	require.NoError(t, err)
	tensors, err := model.Tensors(def, "BF16", func(string) ([]float32, error) { return nil, nil })
	require.NoError(t, err)
	chance, block := rand.New(rand.NewPCG(1, 2)), make([]float32, 1<<20+7)
	for i := range block {
		block[i] = float32(chance.NormFloat64())
	}
	for i, p := range def.Params() {
		tensors[i].Data = func(w io.Writer) error {
			values := make([]float32, len(block))
			for k, v := range block {
				values[k] = float32(p.Value + p.Std*float64(v))
			}
			raw := array.Encoded(array.BF16, values)
			if tensors[i].DType != "BF16" {
				raw = array.Encoded(array.F32, values)
			}
			left, at := tensors[i].Bytes(), 64*i%len(block)
			for left > 0 {
				n := int(min(left, uint64(len(raw)-at)))
				if _, err := w.Write(raw[at:][:n]); err != nil {
					return err
				}
				left, at = left-uint64(n), 0
			}
			return nil
		}
	}
	require.NoError(t, os.MkdirAll(dir, 0o777))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), []byte(config), 0o666))
	f, err := os.Create(filepath.Join(dir, "model.safetensors"))
	require.NoError(t, err)
	require.NoError(t, safetensors.Write(f, tensors, model.Metadata()))
	require.NoError(t, f.Close())
	return def
}
