package main

import (
	"encoding/binary"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/gpu"
	"gputrain/hub"
	"gputrain/internal/gputest"
	"gputrain/model"
	"gputrain/run/setup"
	"gputrain/state"
)

// A realSize is a published model, by what its config.json says, and what its plans may come to.
type realSize struct {
	name       string
	config     map[string]any
	parameters int64
	stored     string // type of the published weights
	most       limits
}

// limits are what a size may come to: a percent or two above what it does. With AdamW and one sequence of 1,024 tokens, on a discrete card.
type limits struct {
	dispatches int        // of a step that keeps everything
	moved      float64    // bytes that it moves, a parameter
	takes      [3]float64 // GiB, with each of train.recompute's choices
	quad       float64    // bytes of Quad's state and what updates need, a parameter
	made       uint64     // buffers of a dry state with Quad, which is the work of planning it
}

// llamaShape is what the config.json of Llama's kind says of sizes.
func llamaShape(kind, architecture string, layers, width, heads, kvHeads, headDim, intermediate, vocab, context int, tied bool) map[string]any {
	return map[string]any{
		"model_type": kind, "architectures": []string{architecture}, "hidden_act": "silu", "num_hidden_layers": layers, "hidden_size": width,
		"num_attention_heads": heads, "num_key_value_heads": kvHeads, "head_dim": headDim, "intermediate_size": intermediate, "vocab_size": vocab,
		"max_position_embeddings": context, "tie_word_embeddings": tied, "rms_norm_eps": 1e-5, "rope_theta": 500000.0, "attention_bias": false,
	}
}

var realSizes = []realSize{
	{
		name: "SmolLM2-135M", parameters: 134_515_008, stored: "BF16",
		config: llamaShape("llama", "LlamaForCausalLM", 30, 576, 9, 3, 64, 1536, 49152, 8192, true),
		most:   limits{dispatches: 1400, moved: 138, takes: [3]float64{3.25, 3.0, 2.36}, quad: 22.2, made: 900},
	},
	{name: "GPT-2 124M", config: map[string]any{
		"model_type": "gpt2", "architectures": []string{"GPT2LMHeadModel"}, "activation_function": "gelu_new", "n_layer": 12, "n_embd": 768, "n_head": 12,
		"n_positions": 1024, "n_ctx": 1024, "vocab_size": 50257, "layer_norm_epsilon": 1e-5, "attn_pdrop": 0.0, "embd_pdrop": 0.0, "resid_pdrop": 0.0,
	}, parameters: 124_439_808, stored: "F32", most: limits{dispatches: 500, moved: 113, takes: [3]float64{2.72, 2.54, 2.2}, quad: 20.1, made: 520}},
	{
		name: "Qwen3-0.6B", parameters: 596_049_920, stored: "BF16",
		config: llamaShape("qwen3", "Qwen3ForCausalLM", 28, 1024, 16, 8, 128, 3072, 151936, 40960, true),
		most:   limits{dispatches: 1425, moved: 106, takes: [3]float64{12.05, 11.05, 9.8}, quad: 20.8, made: 2150},
	},
	{
		name: "Llama 3.2 1B", parameters: 1_235_814_400, stored: "BF16",
		config: llamaShape("llama", "LlamaForCausalLM", 16, 2048, 32, 8, 64, 8192, 128256, 131072, true),
		most:   limits{dispatches: 705, moved: 74.5, takes: [3]float64{21.3, 20.9, 19.2}, quad: 21.6, made: 3700},
	},
	{
		name: "Qwen3-4B", parameters: 4_022_468_096, stored: "BF16",
		config: llamaShape("qwen3", "Qwen3ForCausalLM", 36, 2560, 32, 8, 128, 9728, 151936, 40960, true),
		most:   limits{dispatches: 1830, moved: 67.5, takes: [3]float64{68.8, 66.6, 61.7}, quad: 23.5, made: 13300},
	},
	{
		name: "Llama 3.1 8B", parameters: 8_030_261_248, stored: "BF16",
		config: llamaShape("llama", "LlamaForCausalLM", 32, 4096, 32, 8, 128, 14336, 128256, 131072, false),
		most:   limits{dispatches: 1390, moved: 56.7, takes: [3]float64{130.3, 128.5, 122.4}, quad: 22.9, made: 25000},
	},
}

// sparseModel makes a directory of a model in the Hugging Face layout whose weights are a hole in a file: they take no disk.
func sparseModel(t *testing.T, s realSize) (dir string) {
	t.Helper()
	dir = t.TempDir()
	config, err := json.Marshal(s.config)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), config, 0o644))
	def, err := hub.ReadConfig(dir)
	require.NoError(t, err)
	header, at := map[string]any{}, int64(0)
	for _, p := range model.Specs(def) {
		bytes := int64(map[string]int{"BF16": 2, "F32": 4}[s.stored])
		for _, n := range p.Shape {
			bytes *= int64(n)
		}
		header[p.Path] = map[string]any{"dtype": s.stored, "shape": p.Shape, "data_offsets": []int64{at, at + bytes}}
		at += bytes
	}
	text, err := json.Marshal(header)
	require.NoError(t, err)
	f, err := os.Create(filepath.Join(dir, "model.safetensors"))
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, binary.Write(f, binary.LittleEndian, uint64(len(text))))
	_, err = f.Write(text)
	require.NoError(t, err)
	require.NoError(t, f.Truncate(8+int64(len(text))+at))
	return dir
}

// The plans of published models keep to limits: their memory, the work of a step, and how much is made to plan them.
func TestSizes(t *testing.T) {
	for _, s := range gputest.Rows(realSizes, 2) {
		t.Run(s.name, func(t *testing.T) {
			dir := sparseModel(t, s)
			set := []string{"model.from=" + dir, "model.context=1024", "train.batch=1", "data.text=absent.txt"}
			p := plannedWith(t, "1024GiB", set...)
			assert.Equal(t, s.parameters, p.Parameters)
			require.Len(t, p.Choices, 3)
			for i, c := range p.Choices {
				assert.LessOrEqual(t, float64(c.Planned)/(1<<30), s.most.takes[i], "GiB, %s", c.Recompute)
				assert.Greater(t, c.Planned, uint64(16*s.parameters), "parameters, gradients and two moments")
			}
			cfg, err := (&runFlags{Set: set}).load()
			require.NoError(t, err)
			planned, err := setup.Plan(cfg, io.Discard)
			require.NoError(t, err)
			st := planned.State
			a := card{}.adapter(false)
			step, err := stepOf(t.Context(), st, a, -1, rated())
			require.NoError(t, err)
			dispatches, moved := 0, 0.0
			for _, w := range step.Work {
				dispatches, moved = dispatches+w.Dispatches, moved+w.Bytes
			}
			assert.LessOrEqual(t, dispatches, s.most.dispatches, "dispatches")
			assert.LessOrEqual(t, moved/float64(s.parameters), s.most.moved, "bytes moved, a parameter")
			assert.Greater(t, moved/float64(s.parameters), 28.0, "what AdamW's update moves alone")
			st.Optimizer.Name, st.Optimizer.Parameters = "quad", nil
			dev := gpu.DryOf(a, a.Limits)
			job, err := state.NewJob(st)
			require.NoError(t, err)
			quad, err := state.Dry(t.Context(), job, dev)
			require.NoError(t, err)
			defer quad.Release()
			assert.LessOrEqual(t, float64(quad.Memory()[0].Optimizer)/float64(s.parameters), s.most.quad, "bytes of Quad, a parameter")
			assert.LessOrEqual(t, dev.Counters().Buffers, s.most.made, "buffers made")
		})
	}
}

// A base in fewer bits never takes more: what reads it reads it as it is kept, on cards and on processors, whatever is computed again. The copies
// of maxima that nested ones need are those of a matrix or a few at a time: a model of a few layers would not make up for them.
func TestBaseSizes(t *testing.T) {
	gputest.Adapters(t)
	small := realSize{config: llamaShape("llama", "LlamaForCausalLM", 8, 128, 4, 2, 32, 512, 1024, 1024, true), stored: "BF16"}
	for i, s := range []realSize{small, realSizes[3]} {
		from := sparseModel(t, s)
		for _, on := range [][2]string{{"64GiB", "auto"}, {"", "auto"}, {"", "off"}} {
			var last []plannedChoice
			for _, base := range []string{"f32", "bf16", "nf4", "nf4-nested"} {
				p := plannedWith(t, on[0], "device.texels="+on[1], "model.from="+from, "model.base="+base, "lora.rank=16", "model.context=1024", "train.batch=1", "data.text=absent.txt")
				for j, c := range last {
					assert.LessOrEqual(t, p.Choices[j].Planned, c.Planned, "%d %v: %s, %s", i, on, base, c.Recompute)
					assert.LessOrEqual(t, p.Choices[j].Activations, c.Activations+8<<20, "%d %v: %s, %s: f32 copies of small matrices alone", i, on, base, c.Recompute)
				}
				last = p.Choices
			}
			require.Len(t, last, 3)
		}
	}
}
