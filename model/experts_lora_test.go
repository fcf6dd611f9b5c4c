package model

import (
	"encoding/json"
	"fmt"
	"math"
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
)

// expertTargets are adapters of experts by all names that PEFT has for them, and what their files then say.
var expertTargets = []struct {
	model      string
	lora       LoRA
	parameters []any    // target_parameters of the file
	modules    []any    // target_modules
	tensors    []string // some of the file, with their shapes
}{
	{
		model: "qwen3_moe_small", lora: LoRA{Rank: 2, Target: []string{"q_proj", "gate_proj", "up_proj", "down_proj"}, RankPattern: map[string]int{"up_proj": 3}},
		modules: []any{"q_proj", "gate_proj", "up_proj", "down_proj"},
		tensors: []string{"layers.0.mlp.experts.3.gate_proj.lora_A.weight [2 32]", "layers.0.mlp.experts.3.up_proj.lora_B.weight [12 3]", "layers.0.mlp.experts.0.down_proj.lora_A.weight [2 12]"},
	},
	{
		model: "qwen3_moe_small", lora: LoRA{Rank: 2, RSLoRA: true, Target: []string{`.*\.experts\.\d+\.up_proj`}, Layers: []int{1}},
		tensors: []string{"layers.1.mlp.experts.3.up_proj.lora_A.weight [2 32]"},
	},
	{
		model: "qwen3_moe_small", lora: LoRA{Rank: 2, Target: []string{"gate_up_proj", "v_proj"}},
		parameters: []any{"mlp.experts.gate_up_proj"}, modules: []any{"v_proj"},
		tensors: []string{"layers.0.mlp.experts.lora_A.weight [16 32]", "layers.0.mlp.experts.lora_B.weight [24 16]"},
	},
	{
		model: "gpt_oss_small", lora: LoRA{Rank: 3, Target: []string{"gate_up_proj", "down_proj", "k_proj"}, RankPattern: map[string]int{"down_proj": 2}},
		parameters: []any{"mlp.experts.down_proj", "mlp.experts.gate_up_proj"}, modules: []any{"k_proj"},
	},
	{
		model: "gpt_oss_small", lora: LoRA{Rank: 3, Target: []string{"down_proj"}, Layers: []int{1}},
		parameters: []any{"model.layers.1.mlp.experts.down_proj"}, modules: []any{},
	},
}

// peftDelta is what PEFT adds to the matrices of all experts of a layer: of modules B A, of parameters the sum of its get_delta_weight.
func peftDelta(t *testing.T, f *safetensors.File, layer string, down bool, e *experts, scales map[string]float64) func(expert, out, in int) float64 {
	t.Helper()
	begin, cached := layer+"mlp.experts.", map[string][]float32{}
	read := func(name string) ([]float32, []int) {
		_, shape, there := f.Info(peftPrefix + name)
		if cached[name] == nil && there {
			var err error
			cached[name], err = f.Float32(peftPrefix + name)
			require.NoError(t, err)
		}
		return cached[name], shape
	}
	return func(expert, out, in int) (sum float64) {
		module, o := "down_proj", out
		if !down {
			if module = "gate_proj"; out >= e.width {
				module, o = "up_proj", out-e.width
			}
		}
		one := fmt.Sprintf("%s%d.%s", begin, expert, module)
		if a, shape := read(one + ".lora_A.weight"); a != nil {
			b, _ := read(one + ".lora_B.weight")
			for k := range shape[0] {
				sum += float64(a[k*shape[1]+in]) * float64(b[o*shape[0]+k])
			}
			return scales[one] * sum
		}
		own, nested := scales[begin+"down_proj"], scales[begin+"gate_up_proj"]
		scale, whole := own, begin
		if !down {
			if scale = nested; own != 0 && nested != 0 { // the first is the inner one
				whole += "base_layer."
			}
		}
		a, shape := read(whole + "lora_A.weight")
		b, _ := read(whole + "lora_B.weight")
		if a == nil || scale == 0 {
			return 0
		}
		rank := shape[0] / e.count
		for k := range rank { // weight_A.reshape(experts, rank, in), weight_B.reshape(out, rank, experts)
			sum += float64(a[(expert*rank+k)*shape[1]+in]) * float64(b[(out*rank+k)*e.count+expert])
		}
		return scale * sum
	}
}

// Adapters of experts are written by PEFT's names and read again; merged, the model computes what it does with them; gradients are those of finite differences.
func TestAdaptersOfExperts(t *testing.T) {
	for i, c := range expertTargets {
		t.Run(fmt.Sprint(c.model, i), func(t *testing.T) {
			g := readGolden(t, c.model)
			def, err := WithLoRA(g.def, c.lora)
			require.NoError(t, err)
			params := scattered(def)
			var hosts []array.Host
			for _, p := range def.Params() {
				hosts = append(hosts, array.Host{Path: p.Path, Shape: p.Shape, Data: numbers32(params[p.Path].Data)})
			}
			read := func(path string) ([]float32, error) {
				at := slices.IndexFunc(hosts, func(h array.Host) bool { return h.Path == path })
				return slices.Clone(hosts[at].Data), nil
			}
			dir, base := filepath.Join(t.TempDir(), "adapter"), filepath.Join(t.TempDir(), "base")
			require.NoError(t, writeHF(base, g.def, hosts, "F32"))
			require.NoError(t, Export(dir, def, read, ExportOptions{Base: base}))
			raw, err := os.ReadFile(filepath.Join(dir, AdapterConfigFile))
			require.NoError(t, err)
			var fields map[string]any
			require.NoError(t, json.Unmarshal(raw, &fields))
			if c.modules != nil {
				assert.Equal(t, c.modules, fields["target_modules"])
			}
			if c.parameters != nil {
				assert.Equal(t, c.parameters, fields["target_parameters"])
			}
			f, err := safetensors.Open(filepath.Join(dir, AdapterWeightsFile))
			require.NoError(t, err)
			defer f.Close()
			for _, name := range f.Names() {
				assert.NotContains(t, name, "experts.gate", "a name of ours")
			}
			for _, want := range c.tensors {
				found := false
				for _, tensor := range f.Tensors() {
					found = found || fmt.Sprint(tensor.Path, " ", tensor.Shape) == peftPrefix+"model."+want
				}
				assert.True(t, found, want)
			}
			again, stored := openAdapters(t, dir, base)
			require.Equal(t, AdapterParams(def), AdapterParams(again))
			for _, path := range AdapterParams(def) {
				data, err := stored.Read(path)
				require.NoError(t, err)
				want, _ := read(path)
				require.Equal(t, want, data, path)
			}
			expertsMerged(t, def, f, params, read)
			expertsDiffer(t, def, params)
		})
	}
}

// expertsMerged compares what Merge gives, and the model that it makes, with PEFT's own sums.
func expertsMerged(t *testing.T, def Definition, f *safetensors.File, params map[string]*graph.Array, read func(path string) ([]float32, error)) {
	merged, err := Merged(def)
	require.NoError(t, err)
	get, at := Merge(def, read), map[string]*graph.Array{}
	scales := AdapterScales(def)
	for _, p := range merged.Params() {
		data, err := get(p.Path)
		require.NoError(t, err)
		at[p.Path] = &graph.Array{Shape: p.Shape}
		for _, v := range data {
			at[p.Path].Data = append(at[p.Path].Data, float64(v))
		}
		layer, what, is := strings.Cut(p.Path, "mlp.experts.")
		if !is || len(p.Shape) != 3 {
			continue
		}
		inOut, inner := def.Kind() == "gpt_oss", p.Shape[2]
		of := peftDelta(t, f, "model."+strings.TrimPrefix(layer, "model."), what == "down_proj", def.(adapted).Definition.(decoder).layers[0].experts, scales)
		for i, v := range data {
			expert, row, column := i/(p.Shape[1]*inner), i/inner%p.Shape[1], i%inner
			if inOut {
				row, column = column, row
			}
			want := params[p.Path].Data[i] + of(expert, row, column)
			require.InDelta(t, want, v, 1e-6*(1+math.Abs(want)), p.Path)
		}
	}
	got, want := named(def, step(t, def, params)), named(merged, step(t, merged, at))
	assert.InDelta(t, want["loss"].Data[0], got["loss"].Data[0], 1e-5*math.Abs(want["loss"].Data[0]))
	near(t, "logits", numbers32(want["logits"].Data), got["logits"])
}

func numbers32(x []float64) (out []float32) {
	for _, v := range x {
		out = append(out, float32(v))
	}
	return out
}

// expertsDiffer compares gradients of adapters with differences of the loss.
func expertsDiffer(t *testing.T, def Definition, params map[string]*graph.Array) {
	got := named(def, step(t, def, params))
	feeds, batch, seq := stepFeeds(def, params)
	built, err := def.Build(batch, seq, Options{Loss: true})
	require.NoError(t, err)
	loss := func() float64 {
		out, err := graph.Eval(built.Graph, feeds, built.Loss)
		require.NoError(t, err)
		return out[0].Data[0]
	}
	moved := 0
	for _, path := range AdapterParams(def) {
		if !strings.Contains(path, "experts") {
			continue
		}
		data, most := params[path].Data, 0
		for i, v := range got[path].Data {
			if math.Abs(v) > math.Abs(got[path].Data[most]) {
				most = i
			}
		}
		for _, i := range []int{0, most, len(data) - 1} {
			const h = 1e-5
			was := data[i]
			data[i] = was + h
			above := loss()
			data[i] = was - h
			difference := (above - loss()) / (2 * h)
			data[i] = was
			assert.InDelta(t, difference, got[path].Data[i], 1e-7+1e-5*math.Abs(difference), "%s %d", path, i)
			if difference != 0 {
				moved++
			}
		}
	}
	assert.NotZero(t, moved)
}

func TestAdaptersOfExpertsRefused(t *testing.T) {
	for says, c := range map[string]struct {
		model string
		lora  LoRA
	}{
		"dora: found":                  {"qwen3_moe_small", LoRA{DoRA: true, Target: []string{"gate_proj"}}},
		"dropout: found":               {"gpt_oss_small", LoRA{Dropout: 0.1, Target: []string{"gate_up_proj"}}},
		"beside adapters of its parts": {"qwen3_moe_small", LoRA{Target: []string{"gate_up_proj", "up_proj"}}},
		"one for all experts":          {"qwen3_moe_small", LoRA{Rank: 2, Target: []string{"up_proj"}, RankPattern: map[string]int{`experts\.3\.up_proj`: 3}}},
		`target: "model.layers.0`:      {"qwen3_moe_small", LoRA{Rank: 2, Target: []string{"experts.3.up_proj"}}},
		"target_parameters: found":     {"gpt_oss_small", LoRA{Rank: 2, parameters: []string{"experts.gate_proj"}}},
		"rank: found 16":               {"qwen3_moe_small", LoRA{Rank: 16, Target: []string{"up_proj"}}},
	} {
		_, err := WithLoRA(readGolden(t, c.model).def, c.lora)
		assert.ErrorContains(t, err, says)
	}
}

// all-linear takes experts that are modules, and none that are parameters, as PEFT does.
func TestAllLinearOfExperts(t *testing.T) {
	for model, want := range map[string]int{"qwen3_moe_small": 3, "gpt_oss_small": 0} {
		g := readGolden(t, model)
		def, err := WithLoRA(g.def, LoRA{Rank: 2, Target: []string{AllLinear}})
		require.NoError(t, err)
		stacked := 0
		for _, a := range def.(adapted).modules {
			if a.experts > 0 {
				stacked++
				assert.Equal(t, a.weight, Adapts(a.a()))
			}
		}
		assert.Equal(t, want*len(g.def.(decoder).layers), stacked)
	}
}
