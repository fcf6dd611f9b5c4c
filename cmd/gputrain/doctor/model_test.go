package doctor

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"path/filepath"
	"slices"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/buffers/safetensors"
	"gputrain/gpu"
	"gputrain/graph"
	"gputrain/internal/gputest"
	"gputrain/model"
	"gputrain/optim"
	"gputrain/run/data"
)

var modelCases = []string{"gpt2_tied", "llama_mha", "llama_gqa"}

// families are cases of models of other families, that the program does not carry with it.
const families = "../../../model/testdata"

// familyCases have between them what needs kernels: caps, windows, documents, parts of heads turned, adapters. The graphs of all are tested in package model.
var familyCases = []string{
	"models/gemma2_small", "models/phi3_fused", "packed/packed_qwen3", "lora/lora_llama_dora", "lora/lora_llama_plus",
	"dpo/dpo_llama_sigmoid", "dpo/orpo_qwen2", "grpo/grpo_qwen2_grpo_kl", "grpo/advantages",
	"reward/reward_qwen3_lora", "embed/embed_llama_mean", "distill/distill_llama_jsd", "kto/kto_llama", "kto/bco_qwen3",
}

func loadEmbeddedModel(t *testing.T, name string) (*goldenCase, *modelCase) {
	t.Helper()
	cases, err := Cases()
	require.NoError(t, err)
	c := loadEmbedded(t, name)
	m, err := loadModel(c, cases[name])
	require.NoError(t, err)
	return c, m
}

// twinModel is a modelRun in float64, without a device.
type twinModel struct {
	t             *testing.T
	m             *modelCase
	forward, loss *model.Built
	grads         []*graph.Value
	optimizer     *optim.Twin
	last          []buffers.Host
	divided       float64 // what the loss is divided by too much; 0: nothing
}

func newTwinModel(t *testing.T, m *modelCase) *twinModel {
	tx, err := m.transform()
	require.NoError(t, err)
	d := &twinModel{t: t, m: m}
	d.optimizer, err = optim.NewTwin(tx, m.initial)
	require.NoError(t, err)
	d.forward, err = m.def.Build(m.Batch, m.SeqLen, model.Options{Logits: true})
	require.NoError(t, err)
	d.loss, err = m.def.Build(m.Batch, m.SeqLen, model.Options{Loss: true, Objective: m.learned})
	require.NoError(t, err)
	_, values := m.trained(d.loss)
	d.grads, err = graph.Gradients(d.loss.Graph, d.loss.Loss, values)
	require.NoError(t, err)
	return d
}

func widened[T int32 | float32](shape []int, data []T) *graph.Array {
	a := &graph.Array{Shape: shape}
	for _, v := range data {
		a.Data = append(a.Data, float64(v))
	}
	return a
}

func narrowed(a *graph.Array) []float32 {
	var data []float32
	for _, v := range a.Data {
		data = append(data, float32(v))
	}
	return data
}

func (d *twinModel) feeds(tokens []int32) map[string]*graph.Array {
	feeds := map[string]*graph.Array{model.InputTokens: widened([]int{d.m.Batch, d.m.SeqLen}, tokens)}
	for _, h := range slices.Concat(d.optimizer.Params(), d.m.frozen) {
		feeds[h.Path] = widened(h.Shape, h.Data)
	}
	return feeds
}

func (d *twinModel) logits(tokens []int32) ([]float32, error) {
	got, err := graph.Eval(d.forward.Graph, d.feeds(tokens), d.forward.Logits)
	if err != nil {
		return nil, err
	}
	return narrowed(got[0]), nil
}

func (d *twinModel) learn(b data.Batch) (map[string][]float32, error) {
	b, err := d.m.ahead(b, d.look)
	if err != nil {
		return nil, err
	}
	in := d.m.learned.Inputs(model.Rows{Tokens: b.Tokens, Labels: b.Labels, Count: b.Rows, Beside: b.Beside})
	feeds := d.feeds(in.Tokens)
	feeds[model.InputLabels] = widened([]int{len(in.Labels)}, in.Labels)
	feeds[model.InputRows] = widened([]int{len(in.Ends)}, in.Ends)
	for _, n := range d.loss.Graph.Nodes() {
		if input, ok := n.Op.(graph.Input); ok && in.Floats[input.Name] != nil {
			feeds[input.Name] = widened(n.Outputs[0].Shape(), in.Floats[input.Name])
		}
	}
	for name, values := range in.Ints {
		feeds[name] = widened([]int{len(values)}, values)
	}
	feeds[model.InputLossScale] = &graph.Array{Shape: []int{}, Data: []float64{1 / float64(in.Counts.Of) / max(1, d.divided)}}
	feeds[model.InputLabelScale] = &graph.Array{Shape: []int{}, Data: []float64{float64(in.Counts.Of) / float64(in.Counts.Labels)}}
	values := append([]*graph.Value{d.loss.Loss}, d.grads...)
	figures := d.loss.Figures
	for _, f := range figures {
		values = append(values, f.Value)
	}
	got, err := graph.Eval(d.loss.Graph, feeds, values...)
	if err != nil {
		return nil, err
	}
	d.last = nil
	for i, p := range d.m.initial {
		d.last = append(d.last, buffers.Host{Path: p.Path, Shape: p.Shape, Data: narrowed(got[1+i])})
	}
	found := map[string][]float32{"loss": narrowed(got[0])}
	for i, f := range figures {
		found[f.Name] = narrowed(got[1+len(d.grads)+i])
	}
	return found, d.optimizer.Update(d.last)
}

func (d *twinModel) look(o model.Objective, b data.Batch) ([]float32, error) {
	built, err := d.m.def.Build(b.Rows, d.m.SeqLen, model.Options{Loss: true, Objective: o})
	if err != nil {
		return nil, err
	}
	in := o.Inputs(model.Rows{Tokens: b.Tokens, Labels: b.Labels, Count: b.Rows, Beside: b.Beside})
	feeds := d.feeds(in.Tokens)
	feeds[model.InputLabels] = widened([]int{len(in.Labels)}, in.Labels)
	for name, values := range in.Floats {
		feeds[name] = widened([]int{len(values)}, values)
	}
	got, err := graph.Eval(built.Graph, feeds, built.Rows)
	if err != nil {
		return nil, err
	}
	return narrowed(got[0]), nil
}

func (d *twinModel) gradients() ([]buffers.Host, error) { return d.last, nil }
func (d *twinModel) params() ([]buffers.Host, error)    { return d.optimizer.Params(), nil }

func TestTwinFollowsGoldenModels(t *testing.T) {
	for _, name := range modelCases {
		t.Run(name, func(t *testing.T) {
			c, m := loadEmbeddedModel(t, name)
			seen, err := m.train(c, newTwinModel(t, m))
			require.NoError(t, err)
			assertPassed(t, true, seen)
			assert.Less(t, seen.ratio, 0.2, "float64 throughout, but for the stored gradient")
		})
	}
}

func TestDeviceFollowsFamilies(t *testing.T) {
	gputest.Each(t, func(t *testing.T, dev *gpu.Device) {
		for _, name := range gputest.Some(t, dev, familyCases) {
			requirePass(t, name, folder(filepath.Join(families, filepath.FromSlash(name))), dev)
		}
	})
}

// TestTwinFollowsPacked holds the graph for rows of documents against a case, in float64; one long document is another thing.
func TestTwinFollowsPacked(t *testing.T) {
	dir := folder(filepath.Join(families, "packed", "packed_qwen3"))
	for _, apart := range []bool{true, false} {
		c, err := loadCase(dir)
		require.NoError(t, err)
		p, err := loadPacked(c, dir)
		require.NoError(t, err)
		if !apart {
			for i := range p.positions {
				p.positions[i] = int32(i % p.SeqLen)
			}
		}
		built, values, names, err := p.build(c)
		require.NoError(t, err)
		feeds := map[string]*graph.Array{
			model.InputLossScale: widened([]int{}, []float32{p.feed().LossScale}), model.InputTokens: widened([]int{p.Batch, p.SeqLen}, p.tokens),
			model.InputLabels: widened([]int{p.Batch * p.SeqLen}, p.labels), model.InputPositions: widened([]int{p.Batch, p.SeqLen}, p.positions),
		}
		for _, h := range p.initial {
			feeds[h.Path] = widened(h.Shape, h.Data)
		}
		got, err := graph.Eval(built.Graph, feeds, values...)
		require.NoError(t, err)
		found := map[string][]float32{}
		for i, name := range names {
			found[name] = narrowed(got[i])
		}
		seen, err := p.compare(c, names, found)
		require.NoError(t, err)
		assertPassed(t, apart, seen)
	}
}

func TestDeviceFollowsGoldenModels(t *testing.T) {
	gputest.Each(t, func(t *testing.T, dev *gpu.Device) {
		cases, err := Cases()
		require.NoError(t, err)
		for _, name := range gputest.Some(t, dev, modelCases) {
			requirePass(t, name, cases[name], dev)
		}
	})
}

// made writes a case that the twin computes: what the embedded ones lack. Labels of -100, a head of its own, the prefix,
// a head dimension, odd sizes.
func made(t *testing.T, def model.Definition, prefix string, masked bool) fs.FS {
	t.Helper()
	const steps, batch, seq = 3, 2, 5
	m := &modelCase{Batch: batch, SeqLen: seq, NamePrefix: prefix, def: def, initial: model.Init(def, 11)}
	m.Optimizer, m.Steps, m.WeightDecay = "adamw", steps, 0.1
	m.Config = json.RawMessage(`{"b1":0.9,"b2":0.999,"eps":1e-5,"eps_root":0,"mu_dtype":null}`)
	m.Schedule = optim.ScheduleConfig{Type: "constant", LearningRate: 0.003}
	var labels, tokens []int32
	for i := range steps * batch * (seq + 1) {
		tokens = append(tokens, int32(i*i+3*i)%int32(def.Vocab()))
	}
	for row := range steps * batch {
		for i := range seq {
			label := tokens[row*(seq+1)+i+1]
			if (row+i)%3 != 0 {
				label = graph.IgnoreLabel
			}
			labels = append(labels, label)
		}
	}
	m.tokens = tokens
	tensors := []safetensors.Tensor{safetensors.Int32s("tokens", []int{steps, batch, seq + 1}, tokens)}
	if masked {
		m.labels = labels
		tensors = append(tensors, safetensors.Int32s("labels", []int{steps, batch, seq}, labels))
	}
	name := func(path string) string {
		if path == "lm_head.weight" {
			return path
		}
		return prefix + path
	}
	var weights []safetensors.Tensor
	for _, h := range m.initial {
		weights = append(weights, safetensors.Float32s(name(h.Path), h.Shape, h.Data))
		m.Params = append(m.Params, paramSpec{Name: name(h.Path), Shape: h.Shape})
	}
	twin := newTwinModel(t, m)
	for step := range steps {
		b := m.batch(step)
		logits, err := twin.logits(b.Tokens)
		require.NoError(t, err)
		found, err := twin.learn(b)
		require.NoError(t, err)
		m.Losses = append(m.Losses, float64(found["loss"][0]))
		if step > 0 {
			continue
		}
		tensors = append(tensors, safetensors.Float32s("expect/0/logits", []int{batch, seq, def.Vocab()}, logits))
		for _, h := range twin.last {
			tensors = append(tensors, safetensors.Float32s("expect/0/grads/"+name(h.Path), h.Shape, h.Data))
		}
	}
	for _, h := range twin.optimizer.Params() {
		tensors = append(tensors, safetensors.Float32s("expect/final/params/"+name(h.Path), h.Shape, h.Data))
	}
	tol := map[string]tolerance{
		"loss": {RTol: 1e-5, ATol: 2e-5}, "logits": {RTol: 2e-5, ATol: 3e-5},
		"grads": {RTol: 1e-4, ATol: 1e-8, ATolRelMax: 2e-5}, "final_params": {RTol: 1e-5, ATol: 2e-4},
	}
	raw, err := json.Marshal(map[string]any{
		"format_version": 1, "name": "made", "kind": "model", "steps": steps, "batch": batch, "seq_len": seq, "name_prefix": prefix,
		"optimizer": "adamw", "config": m.Config, "schedule": m.Schedule, "weight_decay": m.WeightDecay, "weight_decay_mask": nil,
		"clip_grad": nil, "gradient_accumulation_steps": 1, "losses": m.Losses, "params": m.Params, "tolerance": tol,
	})
	require.NoError(t, err)
	config, err := model.ConfigJSON(def, "F32")
	require.NoError(t, err)
	return fstest.MapFS{
		"case.json": {Data: raw}, "config.json": {Data: config},
		"tensors.safetensors": {Data: stored(t, tensors)}, "model.safetensors": {Data: stored(t, weights)},
	}
}

func stored(t *testing.T, tensors []safetensors.Tensor) []byte {
	var b bytes.Buffer
	require.NoError(t, safetensors.Write(&b, tensors, nil))
	return b.Bytes()
}

func unseenModels(t *testing.T) map[string]fs.FS {
	must := func(def model.Definition, err error) model.Definition {
		require.NoError(t, err)
		return def
	}
	return map[string]fs.FS{
		"masked, untied, prefix": made(t, must(model.NewGPT2(model.GPT2Config{Layers: 1, Heads: 3, Width: 15, Vocab: 23, Context: 7, Untied: true})), "transformer.", true),
		"erf, inner size":        made(t, must(model.NewGPT2(model.GPT2Config{Layers: 2, Heads: 2, Width: 10, Vocab: 33, Context: 5, Activation: "gelu_erf", Intermediate: 17})), "", false),
		"masked, tied, head dim": made(t, must(model.NewLlama(model.LlamaConfig{Layers: 1, Heads: 4, KVHeads: 1, Width: 18, HeadDim: 6, Vocab: 29, Context: 9, Intermediate: 21, Tied: true})), "", true),
	}
}

func TestDeviceFollowsOtherModels(t *testing.T) {
	cases := unseenModels(t)
	gputest.Each(t, func(t *testing.T, dev *gpu.Device) {
		for name, dir := range cases {
			requirePass(t, name, dir, dev)
		}
	})
}

// Deviations that a golden model must catch.
func TestGoldenModelsCatchWrongRuns(t *testing.T) {
	for what, spoil := range map[string]func(m *modelCase){
		"labels not shifted": func(m *modelCase) {
			var labels []int32
			for step := range m.Steps {
				labels = append(labels, m.batch(step).Tokens...)
			}
			m.labels = labels
		},
		"no decay":  func(m *modelCase) { m.WeightDecay = 0 },
		"rate":      func(m *modelCase) { m.Schedule.LearningRate *= 1.01 },
		"a weight":  func(m *modelCase) { m.initial[3].Data[7] += 0.01 },
		"a token":   func(m *modelCase) { m.tokens[4] = (m.tokens[4] + 1) % 97 },
		"two steps": func(m *modelCase) { m.Steps = 2 },
	} {
		t.Run(what, func(t *testing.T) {
			c, m := loadEmbeddedModel(t, "gpt2_tied")
			spoil(m)
			seen, err := m.train(c, newTwinModel(t, m))
			require.NoError(t, err)
			assertPassed(t, false, seen)
		})
	}
}

func TestDamagedModelCases(t *testing.T) {
	dir := unseenModels(t)["masked, tied, head dim"].(fstest.MapFS)
	for want, spoil := range map[string]func(m map[string]any, files fstest.MapFS){
		"tensor tokens: shape [3 2 6], want [3 2 7]": func(m map[string]any, _ fstest.MapFS) { m["seq_len"] = 6 },
		"3 steps of batch 0":                         func(m map[string]any, _ fstest.MapFS) { m["batch"] = 0 },
		"3 losses":                                   func(m map[string]any, _ fstest.MapFS) { m["steps"] = 4 },
		"0 params, want the model's":                 func(m map[string]any, _ fstest.MapFS) { m["params"] = []paramSpec{} },
		"config.json":                                func(_ map[string]any, f fstest.MapFS) { delete(f, "config.json") },
		"model_type":                                 func(_ map[string]any, f fstest.MapFS) { f["config.json"] = &fstest.MapFile{Data: []byte("{}")} },
		"model.safetensors":                          func(_ map[string]any, f fstest.MapFS) { f["model.safetensors"] = &fstest.MapFile{Data: []byte("{}")} },
	} {
		files := fstest.MapFS{}
		for name, file := range dir {
			files[name] = file
		}
		var fields map[string]any
		require.NoError(t, json.Unmarshal(files["case.json"].Data, &fields))
		spoil(fields, files)
		raw, err := json.Marshal(fields)
		require.NoError(t, err)
		files["case.json"] = &fstest.MapFile{Data: raw}
		c, err := loadCase(files)
		require.NoError(t, err)
		_, err = loadModel(c, files)
		require.ErrorContains(t, err, want)
	}
}
