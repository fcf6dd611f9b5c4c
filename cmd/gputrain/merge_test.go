package main

import (
	"bytes"
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/buffers/safetensors"
	"gputrain/hub"
	"gputrain/internal/gputest"
	"gputrain/internal/modelcard"
	"gputrain/model"
)

// onDisk is a base of a tied head in BF16, and adapters of it beside it with a head that is trained apart.
func onDisk(t *testing.T) (base, adapter string) {
	t.Helper()
	base, adapter = filepath.Join(t.TempDir(), "base"), filepath.Join(t.TempDir(), "adapter")
	def, err := model.New("llama", model.Keys{Layers: 1, Heads: 2, Width: 8, Vocab: 13, Context: 6, RopeTheta: 1e4, TieHead: true})
	require.NoError(t, err)
	adapted, err := model.WithLoRA(def, model.LoRA{Rank: 2, Save: []string{"lm_head"}})
	require.NoError(t, err)
	values := map[string][]float32{}
	for i, h := range model.Init(adapted, 3) {
		for k := range h.Data {
			h.Data[k] += float32(i%3) / 8
		}
		values[h.Path] = h.Data
	}
	read := func(path string) ([]float32, error) { return values[path], nil }
	require.NoError(t, model.Export(base, def, read, model.ExportOptions{DType: "BF16"}))
	require.NoError(t, os.WriteFile(filepath.Join(base, "generation_config.json"), []byte(`{"eos_token_id": 2}`), 0o666))
	require.NoError(t, model.Export(adapter, adapted, read, model.ExportOptions{Base: "elsewhere"}))
	return base, adapter
}

// writing says that a model is written to a new directory as it is.
func writing(t *testing.T, name string) writeFlags {
	return writeFlags{To: filepath.Join(t.TempDir(), name), DType: "auto", ShardSize: wholeShards}
}

// heard is what a command tells that does what it says.
func heard(t *testing.T, run func() error) string {
	t.Helper()
	var out bytes.Buffer
	was := told
	told = &out
	defer func() { told = was }()
	require.NoError(t, run())
	return out.String()
}

// merge writes the type and the files of the base, unties a head that was trained, and needs adapters; export writes the adapters as they were.
func TestMergeOfTheCommand(t *testing.T) {
	base, adapter := onDisk(t)
	to := func(name string) writeFlags { return writing(t, name) }
	require.NoError(t, os.WriteFile(filepath.Join(base, modelcard.File), []byte("---\nlicense: mit\n---\n# base\n"), 0o666))
	front := func(dir string) string {
		text, err := os.ReadFile(filepath.Join(dir, modelcard.File))
		require.NoError(t, err)
		assert.NotContains(t, string(text), filepath.Dir(dir), "where it was")
		head, _, _ := strings.Cut(string(text), "tags:")
		return head
	}
	c := &mergeCmd{Model: base, Adapter: []string{adapter}, writeFlags: to("merged")}
	require.NoError(t, c.Run(context.Background()))
	assert.Equal(t, "---\nbase_model: base\nbase_model_relation: finetune\nlicense: mit\nlibrary_name: transformers\npipeline_tag: text-generation\n", front(c.To))
	merged, err := hub.ReadConfig(c.To)
	require.NoError(t, err)
	assert.Equal(t, false, merged.Settings()["tie_word_embeddings"] == true)
	f, err := safetensors.Open(filepath.Join(c.To, "model.safetensors"))
	require.NoError(t, err)
	defer f.Close()
	dtype, _, ok := f.Info("lm_head.weight")
	assert.True(t, ok)
	assert.Equal(t, "BF16", dtype)
	assert.FileExists(t, filepath.Join(c.To, "generation_config.json"))

	err = (&mergeCmd{Model: base, writeFlags: to("x")}).Run(context.Background())
	require.ErrorContains(t, err, "found a network without any")
	assert.Equal(t, 2, exitCode(err))
	err = (&mergeCmd{Model: adapter, writeFlags: to("x")}).Run(context.Background())
	require.ErrorContains(t, err, `base "elsewhere": found no directory`)
	require.ErrorContains(t, err, "say where it is with --base")
	err = (&mergeCmd{Model: base, Adapter: []string{adapter}, baseFlag: baseFlag{Base: base}, writeFlags: to("x")}).Run(context.Background())
	require.ErrorContains(t, err, "wanted one base")

	out := &exportCmd{Model: adapter, baseFlag: baseFlag{Base: base}, writeFlags: to("again")}
	require.NoError(t, out.Run(context.Background()))
	assert.Equal(t, "---\nbase_model: base\nbase_model_relation: adapter\nlicense: mit\nlibrary_name: peft\npipeline_tag: text-generation\n", front(out.To))
	same := &exportCmd{Model: base, writeFlags: to("same")}
	require.NoError(t, same.Run(context.Background()))
	assert.Equal(t, "---\nbase_model: base\nlicense: mit\nlibrary_name: transformers\npipeline_tag: text-generation\n", front(same.To))
	for _, name := range []string{model.AdapterConfigFile, model.AdapterWeightsFile} {
		want, err := os.ReadFile(filepath.Join(adapter, name))
		require.NoError(t, err)
		got, err := os.ReadFile(filepath.Join(out.To, name))
		require.NoError(t, err)
		assert.Equal(t, want, got, name)
	}
}

// What a GGUF file says of where a model comes from is what its card says, under llama.cpp's names.
func TestKeysOfACard(t *testing.T) {
	keys := func(c modelcard.Card) map[string]any {
		all := map[string]any{}
		for _, k := range (modelCard{Card: c}).keys() {
			all[strings.TrimPrefix(k.Name, "general.")] = k.Value
		}
		return all
	}
	assert.Equal(t, map[string]any{
		"license": "other", "license.name": "n", "license.link": "https://l", "base_model.count": uint32(1), "base_model.0.name": "Model", "base_model.0.organization": "Org",
		"base_model.0.repo_url": "https://huggingface.co/Org/Model", "tags": []string{"gputrain", "lora", "text-generation"},
	}, keys(modelcard.Card{
		Base: "Org/Model", Relation: modelcard.Adapter, License: modelcard.License{Names: []string{"other"}, Name: "n", Link: "https://l"},
		Task: "text-generation", Tags: []string{"gputrain", "lora"},
	}))
	assert.Equal(t, map[string]any{"base_model.count": uint32(1), "base_model.0.name": "dir", "tags": []string{"a"}}, keys(modelcard.Card{Base: "dir", Relation: modelcard.Finetune, Tags: []string{"a"}}))
	assert.Equal(t, map[string]any{"tags": []string{"a"}}, keys(modelcard.Card{Base: "same weights", License: modelcard.License{Names: []string{"mit", "x"}}, Tags: []string{"a"}}))
}

// Exported adapters say what they were trained upon: another base of the same shapes is doubted by name, and so is one that nothing is known of.
func TestBaseIsDoubted(t *testing.T) {
	base, adapter := onDisk(t)
	open := func(dir, base string) *model.Stored {
		m, err := baseFlag{Base: base}.stored(dir)
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, m.Close()) })
		return m.Weights
	}
	doubt := func(adapter, base string) string {
		found, _, err := open(adapter, base).Doubt()
		require.NoError(t, err)
		return found
	}
	export := func(adapter, base string) (to string) {
		c := &exportCmd{Model: adapter, baseFlag: baseFlag{Base: base}, writeFlags: writing(t, "exported")}
		require.NoError(t, c.Run(context.Background()))
		return c.To
	}
	assert.Contains(t, doubt(adapter, base), adapter+": found no base_fingerprint.json, so whether the adapters were trained upon "+base)

	hosts, _ := open(base, "").Params(0)
	fingerprint, err := model.Fingerprint(hosts)
	require.NoError(t, err)
	text, err := model.Base{Directory: base, Fingerprint: fingerprint, DType: "f32"}.Text()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(adapter, model.BaseFile), text, 0o666)) // as a checkpoint has it
	once := export(adapter, "")
	assert.Empty(t, doubt(once, base))
	again := export(once, base)
	assert.Empty(t, doubt(again, base))

	other := filepath.Join(t.TempDir(), "other")
	def, err := hub.ReadConfig(base)
	require.NoError(t, err)
	drawn := model.Init(def, 4)
	require.NoError(t, model.Export(other, def, func(path string) ([]float32, error) {
		return drawn[slices.IndexFunc(drawn, func(h buffers.Host) bool { return h.Path == path })].Data, nil
	}, model.ExportOptions{DType: "BF16"}))
	assert.Contains(t, doubt(again, other), other+" has ")
	assert.Contains(t, doubt(again, other), "and the adapters of "+again+" were trained upon "+fingerprint)

	gputest.Device(t)
	for name, run := range map[string]func(of, base string) error{
		"sample, chat, eval": func(of, base string) error {
			_, release, err := (&modelFlags{Model: of, baseFlag: baseFlag{Base: base}}).open(t.Context())
			if err == nil {
				release()
			}
			return err
		},
		"inspect": func(of, base string) error { return (&inspectCmd{Path: of, baseFlag: baseFlag{Base: base}}).Run() },
		"merge": func(of, base string) error {
			return (&mergeCmd{Model: of, baseFlag: baseFlag{Base: base}, writeFlags: writing(t, "merged")}).Run(t.Context())
		},
	} {
		said := func(of, base string) string { return heard(t, func() error { return run(of, base) }) }
		assert.Contains(t, said(again, other), "gputrain: warning: "+other+" has ", name)
		assert.NotContains(t, said(again, base), "warning", name)
		require.NoError(t, os.Remove(filepath.Join(adapter, model.BaseFile)))
		assert.Equal(t, name == "merge", strings.Contains(said(adapter, base), "is not known"), name)
		require.NoError(t, os.WriteFile(filepath.Join(adapter, model.BaseFile), text, 0o666))
	}
}

// A signal ends what writes a model before the next parameter, by its cause, and leaves no directory.
func TestExportIsStopped(t *testing.T) {
	base, adapter := onDisk(t)
	stopped := errors.New("stopped")
	ctx, stop := context.WithCancelCause(t.Context())
	stop(stopped)
	to := writing(t, "to")
	for _, c := range []interface{ Run(context.Context) error }{
		&exportCmd{Model: base, writeFlags: to}, &mergeCmd{Model: base, Adapter: []string{adapter}, writeFlags: to},
	} {
		assert.ErrorIs(t, c.Run(ctx), stopped)
		assert.NoDirExists(t, to.To)
	}
}

// Numbers that are not finite are named by a GGUF file's export, as by a directory's and by a merge.
func TestExportsNameWhatIsNotFinite(t *testing.T) {
	dir := t.TempDir()
	def, err := model.New("llama", model.Keys{Layers: 1, Heads: 2, Width: 8, Vocab: 13, Context: 6})
	require.NoError(t, err)
	adapted, err := model.WithLoRA(def, model.LoRA{Rank: 2, Target: []string{"q_proj"}})
	require.NoError(t, err)
	hosts := model.Init(adapted, 3)
	bad := slices.IndexFunc(hosts, func(h buffers.Host) bool { return h.Path == model.AdapterParams(adapted)[0] })
	hosts[bad].Data[1], hosts[bad].Data[2] = float32(math.NaN()), float32(math.Inf(1))
	read := func(path string) ([]float32, error) {
		return hosts[slices.IndexFunc(hosts, func(h buffers.Host) bool { return h.Path == path })].Data, nil
	}
	base, adapter := filepath.Join(dir, "base"), filepath.Join(dir, "adapter")
	require.NoError(t, model.Export(base, def, read, model.ExportOptions{}))
	require.NoError(t, model.Export(adapter, adapted, read, model.ExportOptions{Base: base}))
	file := writing(t, "a.GGUF")
	for _, c := range []interface{ Run(context.Context) error }{
		&exportCmd{Model: adapter, writeFlags: file}, &exportCmd{Model: adapter, writeFlags: writing(t, "a")},
		&mergeCmd{Model: adapter, writeFlags: writing(t, "merged")},
	} {
		said := heard(t, func() error { return c.Run(t.Context()) })
		info, err := os.Stat(file.To)
		require.NoError(t, err)
		assert.True(t, info.Mode().IsRegular(), "whichever case the name's end has")
		assert.Contains(t, said, "found 2 of 16 numbers NaN or infinite, wanted none ("+adapter+"): gputrain inspect counts them")
	}
}
