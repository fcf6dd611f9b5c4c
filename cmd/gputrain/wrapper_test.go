package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers/array"
	"gputrain/buffers/safetensors"
	"gputrain/graph"
	"gputrain/hub"
	"gputrain/model"
)

// wrappedCase is a model of a kind that is a network of text and more: network is a directory of that network, prefix and head what its files call it, beside
// the names of what else they have.
type wrappedCase struct {
	kind, network, prefix, head string
	beside                      []string
	ties                        string // where tie_word_embeddings stands: "inside", "outside", or both in one
}

var wrappedCases = []wrappedCase{
	{"qwen3_5", "qwen3_5_small", "model.language_model.", "lm_head.weight", []string{"model.visual.blocks.0.attn.qkv.weight", "mtp.layers.0.q_proj.weight"}, "inside outside"},
	{"mistral3", "ministral3_small", "language_model.model.", "language_model.lm_head.weight", []string{"vision_tower.patch.weight", "multi_modal_projector.norm.weight"}, "outside"},
	{"mistral3", "mistral_window", "model.language_model.", "lm_head.weight", []string{"model.vision_tower.patch.weight"}, "inside"},
	{"gemma4", "gemma4_small", "model.language_model.", "", []string{"model.vision_tower.x.weight", "model.audio_tower.x.bias", "model.embed_vision.x.weight", "model.embed_audio.x.weight"}, "outside"},
	{"gemma3", "gemma3_small", "language_model.model.", "", []string{"vision_tower.x.weight", "multi_modal_projector.x.weight"}, "inside"},
}

// oddTypes are those of tensors beside the network, one after the other.
var oddTypes = []string{"F8_E4M3", "I64", "BOOL", "F64"}

func objectIn(t *testing.T, name string) (fields map[string]any) {
	t.Helper()
	raw, err := os.ReadFile(name)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(raw, &fields))
	return fields
}

// write makes the directory, in several files, and one of the network alone.
func (c wrappedCase) write(t *testing.T) (dir, alone string) {
	t.Helper()
	alone = filepath.Join("..", "..", "model", "testdata", "models", c.network)
	text := objectIn(t, filepath.Join(alone, "config.json"))
	config := map[string]any{
		"model_type": c.kind, "architectures": []string{"SomeForConditionalGeneration"}, "text_config": text, "image_token_id": 9,
		"vision_config": map[string]any{"hidden_size": 8, "torch_dtype": "float32", "<odd>": 1e-6}, "transformers_version": "5.0.0",
	}
	if tie, there := text["tie_word_embeddings"]; there && strings.Contains(c.ties, "outside") {
		config["tie_word_embeddings"] = tie
	}
	if !strings.Contains(c.ties, "inside") {
		delete(text, "tie_word_embeddings")
	}
	f, err := safetensors.Open(filepath.Join(alone, "model.safetensors"))
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	var tensors []safetensors.Tensor
	for _, tensor := range f.Tensors() {
		name := c.head
		if tensor.Path != "lm_head.weight" {
			name = c.prefix + strings.TrimPrefix(tensor.Path, "model.")
		}
		tensors = append(tensors, safetensors.Tensor{Name: name, DType: tensor.DType, Shape: tensor.Shape, Data: tensor.Raw})
	}
	for i, name := range c.beside {
		one := safetensors.Tensor{Name: name, DType: oddTypes[i], Shape: []int{3, 1, 2}}
		one.Data = func(w io.Writer) error {
			_, err := w.Write(bytes.Repeat([]byte{byte(i), 0xff}, int(one.Bytes()/2)))
			return err
		}
		tensors = slices.Insert(tensors, len(tensors)/2, one)
	}
	dir = filepath.Join(t.TempDir(), c.network)
	require.NoError(t, os.Mkdir(dir, 0o777))
	shards, index, err := safetensors.Split("model", tensors, 8_000)
	require.NoError(t, err)
	require.NotNil(t, index, "several files")
	raw, err := json.Marshal(config)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), raw, 0o666))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "model.safetensors.index.json"), index, 0o666))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "preprocessor_config.json"), []byte("{ }"), 0o666))
	for _, s := range shards {
		var file bytes.Buffer
		require.NoError(t, safetensors.Write(&file, s.Tensors, nil))
		require.NoError(t, os.WriteFile(filepath.Join(dir, s.Name), file.Bytes(), 0o666))
	}
	return dir, alone
}

// tensorsIn are types, shapes and bytes of all tensors in a directory, whose index says where they are and what they take together.
func tensorsIn(t *testing.T, dir string) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.safetensors"))
	require.NoError(t, err)
	all, where, total := map[string]string{}, map[string]any{}, 0
	for _, name := range files {
		f, err := safetensors.Open(name)
		require.NoError(t, err)
		defer f.Close()
		for _, tensor := range f.Tensors() {
			var raw bytes.Buffer
			require.NoError(t, tensor.Raw(&raw))
			shape, err := json.Marshal(tensor.Shape)
			require.NoError(t, err)
			all[tensor.Path] = tensor.DType + string(shape) + raw.String()
			where[tensor.Path], total = filepath.Base(name), total+raw.Len()
		}
	}
	if len(files) > 1 {
		index := objectIn(t, filepath.Join(dir, "model.safetensors.index.json"))
		assert.Equal(t, where, index["weight_map"])
		assert.InDelta(t, total, index["metadata"].(map[string]any)["total_size"], 0)
	}
	return all
}

// logitsOf are those of a directory's model, on a base where it has one.
func logitsOf(t *testing.T, dir, base string) []float64 {
	t.Helper()
	b := hub.OpenOn(dir, base)
	defer b.Close()
	def, err := b.Definition()
	require.NoError(t, err)
	weights, err := b.Weights(def)
	require.NoError(t, err)
	built, err := def.Build(1, 5, model.Options{Logits: true})
	require.NoError(t, err)
	feeds := map[string]*graph.Array{model.InputTokens: {Shape: []int{1, 5}, Data: []float64{3, 1, 4, 1, 5}}}
	for _, p := range def.Params() {
		data, err := weights.Read(p.Path)
		require.NoError(t, err)
		feeds[p.Path] = graph.NewArray(p.Shape)
		for i, v := range data {
			feeds[p.Path].Data[i] = float64(v)
		}
	}
	found, err := graph.Eval(built.Graph, feeds, built.Logits)
	require.NoError(t, err)
	return found[0].Data
}

// adapterOn writes adapters for a model in dir, that are not nothing; their paths are renamed.
func adapterOn(t *testing.T, dir string, l model.LoRA) string {
	t.Helper()
	def, err := hub.ReadConfig(dir)
	require.NoError(t, err)
	adapted, err := model.WithLoRA(def, l)
	require.NoError(t, err)
	hosts := map[string]array.Host{}
	for i, h := range model.Init(adapted, 3) {
		for k := range h.Data {
			h.Data[k] += float32((i+k)%5) / 64
		}
		hosts[h.Path] = h
	}
	to := filepath.Join(t.TempDir(), "adapter")
	require.NoError(t, model.Export(to, adapted, func(path string) ([]float32, error) { return hosts[path].Data, nil }, model.ExportOptions{Base: dir}))
	return to
}

// Exports of a model that is a network of text and more have all that it has, as it was; merges change the text alone; adapters have the names that the whole gives
// its modules, and are read with those of the network alone, too.
func TestWrappedModelsComeBack(t *testing.T) {
	for _, c := range wrappedCases {
		t.Run(c.kind+" of "+c.network, func(t *testing.T) {
			dir, alone := c.write(t)
			want, config, logits := tensorsIn(t, dir), objectIn(t, filepath.Join(dir, "config.json")), logitsOf(t, alone, "")
			assert.Equal(t, logits, logitsOf(t, dir, ""))
			for _, size := range []string{"8kB", "5GB"} {
				out := &exportCmd{Model: dir, writeFlags: writing(t, "out")}
				out.ShardSize = size
				assert.Contains(t, heard(t, func() error { return out.Run(context.Background()) }), "beside the network of text are copied as they are: ")
				assert.Equal(t, want, tensorsIn(t, out.To))
				assert.Equal(t, config, objectIn(t, filepath.Join(out.To, "config.json")))
				assert.Equal(t, logits, logitsOf(t, out.To, ""))
				assert.FileExists(t, filepath.Join(out.To, "preprocessor_config.json"))
			}
			wide := &exportCmd{Model: dir, writeFlags: writing(t, "wide")}
			wide.DType = "f32"
			require.NoError(t, wide.Run(context.Background()))
			got := tensorsIn(t, wide.To)
			for name, tensor := range want {
				if slices.Contains(c.beside, name) {
					assert.Equal(t, tensor, got[name], name)
				} else if !strings.HasPrefix(tensor, "F32") && strings.Contains(name, "proj") && c.kind != "gemma4" { // some of its are not read
					assert.True(t, strings.HasPrefix(got[name], "F32"), name)
				}
			}
			assert.Equal(t, logits, logitsOf(t, wide.To, ""))

			adapter := adapterOn(t, dir, model.LoRA{Rank: 2, RankPattern: map[string]int{`model\.layers\.0\..*`: 1}})
			names := slices.Collect(maps.Keys(tensorsIn(t, adapter)))
			for _, name := range names {
				assert.Contains(t, name, "base_model.model.model.language_model.layers.")
			}
			said := objectIn(t, filepath.Join(adapter, model.AdapterConfigFile))
			assert.Contains(t, said["exclude_modules"], strings.Split(strings.TrimPrefix(c.beside[0], "model."), ".")[0])
			for name := range said["rank_pattern"].(map[string]any) {
				assert.Contains(t, name, "model.language_model.layers.0.")
			}
			changed := logitsOf(t, adapter, dir)
			assert.NotEqual(t, logits, changed)
			merged := &mergeCmd{Model: dir, Adapter: []string{adapter}, writeFlags: writing(t, "merged")}
			merged.DType = "f32"
			require.NoError(t, merged.Run(context.Background()))
			for name, tensor := range tensorsIn(t, merged.To) {
				if slices.Contains(c.beside, name) {
					assert.Equal(t, want[name], tensor, name)
				}
			}
			assert.Len(t, tensorsIn(t, merged.To), len(want))
			assert.FileExists(t, filepath.Join(merged.To, "preprocessor_config.json"))
			assert.InDeltaSlice(t, changed, logitsOf(t, merged.To, ""), 1e-4)
			again := &exportCmd{Model: dir, Adapter: []string{adapter}, writeFlags: writing(t, "again")}
			require.NoError(t, again.Run(context.Background()))
			assert.Equal(t, tensorsIn(t, adapter), tensorsIn(t, again.To))

			f, err := safetensors.Open(filepath.Join(adapter, model.AdapterWeightsFile)) // as of the network alone
			require.NoError(t, err)
			defer f.Close()
			var plain []safetensors.Tensor
			for _, tensor := range f.Tensors() {
				plain = append(plain, safetensors.Tensor{Name: strings.Replace(tensor.Path, "language_model.", "", 1), DType: tensor.DType, Shape: tensor.Shape, Data: tensor.Raw})
			}
			var file bytes.Buffer
			require.NoError(t, safetensors.Write(&file, plain, nil))
			require.NoError(t, os.WriteFile(filepath.Join(adapter, model.AdapterWeightsFile), file.Bytes(), 0o666))
			assert.Equal(t, changed, logitsOf(t, adapter, dir))
			assert.Equal(t, changed, logitsOf(t, adapter, alone))
			renamed := &exportCmd{Model: dir, Adapter: []string{adapter}, writeFlags: writing(t, "renamed")}
			require.NoError(t, renamed.Run(context.Background()))
			assert.ElementsMatch(t, names, slices.Collect(maps.Keys(tensorsIn(t, renamed.To))))
		})
	}
}

// A text part alone, as a checkpoint is one, says what it is part of: an export says what it lacks, or has it from the model that training began with.
func TestTextPartAlone(t *testing.T) {
	dir, _ := wrappedCases[1].write(t)
	b := hub.Open(dir)
	defer b.Close()
	def, err := b.Definition()
	require.NoError(t, err)
	weights, err := b.Weights(def)
	require.NoError(t, err)
	part := filepath.Join(t.TempDir(), "part")
	require.NoError(t, model.Export(part, model.TextPart(def), weights.Read, model.ExportOptions{DType: "F32"}))
	assert.Equal(t, logitsOf(t, dir, ""), logitsOf(t, part, ""))
	said := objectIn(t, filepath.Join(part, "config.json"))
	assert.Equal(t, "ministral3", said["model_type"])
	assert.Contains(t, tensorsIn(t, part), "model.norm.weight")

	lacking := &exportCmd{Model: part, writeFlags: writing(t, "lacking")}
	assert.Contains(t, heard(t, func() error { return lacking.Run(context.Background()) }),
		"found the text part of a model of kind mistral3 and not the model that it was trained from, wanted that to copy its other parts: the text part alone is written, as a ministral3")
	whole := &exportCmd{Model: part, baseFlag: baseFlag{Base: dir}, writeFlags: writing(t, "whole")}
	require.NoError(t, whole.Run(context.Background()))
	assert.Equal(t, tensorsIn(t, dir), tensorsIn(t, whole.To))
	assert.Equal(t, objectIn(t, filepath.Join(dir, "config.json")), objectIn(t, filepath.Join(whole.To, "config.json")))
	other, _ := onDisk(t)
	refused := &exportCmd{Model: part, baseFlag: baseFlag{Base: other}, writeFlags: writing(t, "x")}
	require.ErrorContains(t, refused.Run(context.Background()), "wanted some that are left to a base")

	vectors, err := model.WithHead(def, model.Head{Kind: model.HeadVectors})
	require.NoError(t, err)
	to, told := filepath.Join(t.TempDir(), "vectors"), ""
	require.NoError(t, model.Export(to, vectors, weights.Read, model.ExportOptions{Like: weights, Tell: func(what string) { told = what }}))
	assert.Contains(t, told, "2 tensors beside the network of text are not written, as it has vectors in place of logits: multi_modal_projector.norm.weight, ")
	assert.Contains(t, tensorsIn(t, to), "norm.weight")
}

// A tied head that is trained apart becomes a matrix of its own where the files have heads, and both places of config.json say so.
func TestWrappedHeadOfItsOwn(t *testing.T) {
	c := wrappedCases[1]
	dir, _ := c.write(t)
	adapter := adapterOn(t, dir, model.LoRA{Rank: 2, Save: []string{"lm_head"}})
	assert.Contains(t, tensorsIn(t, adapter), "base_model.model.lm_head.weight")
	merged := &mergeCmd{Model: dir, Adapter: []string{adapter}, writeFlags: writing(t, "merged")}
	require.NoError(t, merged.Run(context.Background()))
	assert.Contains(t, tensorsIn(t, merged.To), c.head)
	config := objectIn(t, filepath.Join(merged.To, "config.json"))
	assert.Equal(t, false, config["tie_word_embeddings"])
	assert.Equal(t, false, config["text_config"].(map[string]any)["tie_word_embeddings"])
}
